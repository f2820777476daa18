"""Sizes that a model file only speaks of: none of them takes memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from support.model_files import WEIGHTS, chain, document, made, of, packed

from torchnpn import io
from torchnpn.estimators import NPNClassifier
from torchnpn.io import ModelFileError


def labels(kind: str, values: list[object]) -> bytes:
    """The file of a classifier with these labels."""
    chance = np.random.default_rng(0)
    model = NPNClassifier(hidden=(3,), max_epochs=1, random_state=0).fit(chance.normal(size=(20, 2)), [0, 1] * 10)
    plain, arrays = model._state()
    plain["classes"] = {"dtype": kind, "values": values}
    tensors = {name: torch.as_tensor(array) for name, array in arrays.items()}
    return packed(made({"type": "NPNClassifier", "plain": plain}), tensors)


def large_header(text: str) -> bytes:
    """A file whose description is `text` repeated up to the largest header that there may be."""
    return packed("[" + text * (2**23 // len(text)), {})


BOMBS = {
    "rows of numbers": lambda: labels("(1000,500000)i4", [0, 1]),
    "wide text": lambda: labels("<U100000000", ["a", "b"]),
    "much wide text": lambda: labels("<U1024", [f"{i:06}" for i in range(400_000)]),
    "records": lambda: labels("i4,(100000,1000)f8", [0, 1]),
    "lists of labels": lambda: labels("<i8", [[0] * 1000, [1] * 1000]),
    "empty lists": lambda: large_header("[],"),
    "empty objects": lambda: large_header("{},"),
    "numbers": lambda: large_header("1,"),
    "depth": lambda: large_header("["),
    "one text": lambda: packed('"' + "\\u0416" * 2**20 + '"', {}),
    "inputs": lambda: packed(of(in_features=2**31), WEIGHTS),
    "replicas": lambda: packed(of(replicas=[2**31, 2**15]), WEIGHTS),
    "layers": lambda: packed(chain(**{str(i): {"type": "ReLU"} for i in range(100_000)}), {}),
    "tau": lambda: packed(made({"type": "Power", "tau": 1e12}), {}),
    "empty tensors": lambda: packed(document(), {**WEIGHTS, **{str(i): torch.ones(0) for i in range(20_000)}}),
}
MEASURE = """
import resource, sys, time
from torchnpn import io, estimators, tables
start = time.process_time()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    for read in (io.load, io.describe):
        try:
            read(path)
        except io.ModelFileError:
            pass
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.slow
def test_no_file_takes_much_memory(tmp_path):
    for name, content in BOMBS.items():
        (tmp_path / name).write_bytes(content())
    paths = sorted(tmp_path.iterdir(), key=lambda path: path.stat().st_size)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    result = subprocess.run([sys.executable, "-c", MEASURE, *paths], env=environment, capture_output=True, check=True)
    for path, grown in zip(paths, map(int, result.stdout.split()), strict=True):
        assert grown < 100 + 8 * path.stat().st_size / 2**20, path.name  # MiB


def test_a_file_larger_than_memory_is_refused(tmp_path):
    """A file with holes: it says that it has 4 TiB of numbers, and so it has."""
    content = packed(document(), {}, x={"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]})
    with open(path := tmp_path / "hole.npn", "wb") as file:
        file.write(content)
        try:
            file.truncate(len(content) + 2**42)
        except OSError:
            pytest.skip("a file system without such files")
    with pytest.raises(ModelFileError, match="not enough memory"):
        io.load(path)
    assert io.describe(path)["parameters"] == 2**40
