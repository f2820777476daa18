"""Model files that a stranger made by hand: they are refused with a reason, and run nothing."""

from __future__ import annotations

import json
import math
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from support.model_files import LINEAR, MULTIPLYING, WEIGHTS, chain, document, made, of, packed, refused

from torchnpn import io, nn
from torchnpn.io import ModelFileError


def test_file_made_by_hand_loads(tmp_path):
    (tmp_path / "hand.npn").write_bytes(packed(document(), WEIGHTS))
    assert io.load(tmp_path / "hand.npn").weight.mean.tolist() == [[1, 1]]


class Bomb:
    """A pickle that would write a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.write_text, (self.path, "boom")


@pytest.mark.parametrize("protocol", range(2, 6))
def test_pickles_are_never_loaded(protocol, tmp_path):
    refused(pickle.dumps(Bomb(tmp_path / "boom"), protocol), "it is a pickle, .* never loaded", tmp_path)
    assert not (tmp_path / "boom").exists()


def test_foreign_files_are_named(tmp_path):
    torch.save({"x": torch.ones(2)}, tmp_path / "torch")
    np.savez(tmp_path / "numpy.npz", x=np.ones(2))
    safetensors.torch.save_file({"x": torch.ones(2)}, tmp_path / "other")
    for name, words in {
        "torch": "a zip archive",
        "numpy.npz": "a zip archive",
        "other": "but not one of torchnpn",
    }.items():
        refused((tmp_path / name).read_bytes(), words, tmp_path)
    for content in (b"", b"PK", b"\x80", b"a,b\n1,2\n", b"\x89PNG\r\n\x1a\n" + bytes(100), bytes(100), b"\xff" * 100):
        refused(content, "not a torchnpn model|not JSON", tmp_path)


def test_places_without_a_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        io.load(tmp_path / "nothing.npn")
    with pytest.raises(IsADirectoryError):
        io.load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(ModelFileError, match="a device or a pipe"):
            io.load(path)


def test_every_truncation_is_refused(tmp_path):
    io.save(nn.Linear(2, 1), path := tmp_path / "model.npn")
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            io.load(path)
        with pytest.raises(ModelFileError):
            io.describe(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(ModelFileError):
        io.load(path)


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (struct.pack("<Q", 2**63) + bytes(100), "header of at most 16 MiB"),
        (struct.pack("<Q", 2**24 + 1) + bytes(2**24 + 1), "header of at most 16 MiB"),
        (struct.pack("<Q", 2**20) + bytes(100), "header should have 1048576 bytes, got 100"),
        (struct.pack("<Q", len(DEEP)) + DEEP.encode(), "its header is nested too deeply"),
        (struct.pack("<Q", 6) + b'"text"', "its header should be a JSON object"),
        (struct.pack("<Q", 4) + b"\xff\xfe\x00\xd8", "not JSON"),
        (packed(document(), WEIGHTS, __metadata__=None), "its metadata should be a JSON object"),
        (packed(document(), WEIGHTS, __metadata__={"torchnpn": 3}), "not one of torchnpn"),
        (packed(document(), WEIGHTS, __metadata__={"torchnpn": json.dumps(document())}), "its checksum should be"),
        (packed(document(), WEIGHTS, __metadata__={"torchnpn": "{}", "sha256": "0"}), "checksum is wrong"),
        (packed("{", WEIGHTS), "description is not JSON"),
        (packed("[]", WEIGHTS), r"description should be a JSON object, got \[\]"),
        (packed(DEEP, WEIGHTS), "description is nested too deeply"),
        (packed('{"format_version": NaN}', WEIGHTS), "not JSON of finite numbers"),
        (packed('{"format_version": 1e999}', WEIGHTS), "not JSON of finite numbers"),
        (packed('{"format_version": ' + "9" * 10_000 + "}", WEIGHTS), "not JSON"),
        (packed(document(format_version=2), WEIGHTS), "made by a newer torchnpn, in format 2"),
        (packed({"format_version": 2**70, "other": 1}, WEIGHTS), "made by a newer torchnpn"),
        (packed(document(format_version=0), WEIGHTS), "format_version should be a whole number from 1 on, got 0"),
        (packed(document(format_version=True), WEIGHTS), "got True"),
        (packed(document(format_version="1"), WEIGHTS), "got '1'"),
        (packed(document(extra=1), WEIGHTS), "should have the keys"),
        (packed(document(saved="x" * 10**6), WEIGHTS), "saved should be a text"),
        (packed(document(versions=[]), WEIGHTS), "versions should be a JSON object"),
        (packed(document(object=[]), WEIGHTS), "object should be a JSON object"),
        (packed(of(type="os.system"), WEIGHTS), "there is no module 'os.system'"),
        (packed(of(type="Module"), WEIGHTS), "there is no module 'Module'"),
        (packed(of(type="__init__"), WEIGHTS), "there is no module"),
        (packed(of(type="x" * 10**6), WEIGHTS), "type should be a text"),
        (packed(of(type=["Linear"]), WEIGHTS), "type should be a text"),
        (packed(of(extra=1), WEIGHTS), "Linear should have the keys type, in_features"),
        (packed(of(in_features=True), WEIGHTS), "in_features should be a whole number from 1 to .*, got True"),
        (packed(of(in_features=2.0), WEIGHTS), "got 2.0"),
        (packed(of(in_features=-2), WEIGHTS), "got -2"),
        (packed(of(in_features=0), WEIGHTS), "got 0"),
        (packed(of(in_features=2**62), WEIGHTS), "in_features should be a whole number"),
        (packed(of(in_features=2**31, out_features=2**31), WEIGHTS), "too large"),
        (packed(of(in_features=2**30, replicas=[2**30] * 4), WEIGHTS), "too large"),
        (packed(of(in_features=2**31, out_features=2**16), WEIGHTS), r"should be of shape \[65536, 2147483648\]"),
        (packed(of(in_features=3), WEIGHTS), r"weight.log_std should be of shape \[1, 3\].* got \[1, 2\]"),
        (packed(of(bias=0), WEIGHTS), "bias should be true or false, got 0"),
        (packed(of(bias=True), WEIGHTS), "the network lacks the tensor 'bias.log_std'"),
        (packed(of(family="cauchy"), WEIGHTS), "family should be one of .*, got 'cauchy'"),
        (packed(of(family={"gaussian": 1}), WEIGHTS), "family should be one of"),
        (packed(of(family="gamma"), WEIGHTS), "lacks the tensor 'weight.log_cv'"),
        (packed(of(family="pareto"), WEIGHTS), "Pareto"),
        (packed(of(replicas=[1] * 9), WEIGHTS), "a list of at most 8"),
        (packed(of(replicas={}), WEIGHTS), "a list of at most 8"),
        (packed(document(), {}), "lacks the tensor"),
        (packed(document(), {**WEIGHTS, "x" * 10**6: torch.ones(1)}), "has no place for the tensor"),
        (packed(document(), {**WEIGHTS, "weight.mean": torch.ones(1, 2, dtype=torch.int32)}), "floating-point numbers"),
        (packed(document(), {**WEIGHTS, "weight.mean": torch.tensor([[1, math.nan]])}), "weight.mean holds NaN"),
        (packed(document(), {**WEIGHTS, "weight.mean": torch.tensor([[1, math.inf]])}), "not finite"),
        (packed(document(), {**WEIGHTS, "weight.log_std": torch.tensor([[1, 100.0]])}), "deviation above 1e.12"),
        (packed(made({"type": "Sequential"}), {}), "keys type, layers"),
        (packed(made({"type": "Sequential", "layers": []}), {}), "layers should be a JSON object"),
        (packed(chain(forward=LINEAR), {}), "cannot be the name"),
        (packed(chain(**{"a.b": LINEAR}), {}), "cannot be the name"),
        (packed(chain(**{"": LINEAR}), {}), "name should be a text"),
        (packed(chain(**{"0": None}), {}), "a module should be a JSON object"),
        (packed(chain(**dict.fromkeys(map(str, range(2000)), LINEAR)), {}), "1024"),
        (packed(made({"type": "Dropout", "p": 1.5}), {}), "0 ≤ p < 1"),
        (packed(made({"type": "Dropout", "p": "0"}), {}), "p should be a finite number"),
        (packed(made({"type": "InputNoise", "variance": -1}), {}), "variance ≥ 0"),
        (packed(made({"type": "InputNoise", "variance": 10**400}), {}), "variance should be a finite number"),
        (packed(made({"type": "Power", "tau": 0}), {}), "tau should be a number > 0"),
        (packed(made({"type": "Power", "tau": 1e12}), {}), "tau should be a number > 0 and at most 1000"),
        (packed(made({"type": "ELU", "alpha": -1}), {}), "alpha"),
        (packed(made({"type": "Hardtanh", "lower": 1, "upper": 0}), {}), "Hardtanh|hardtanh|lower"),
        (packed(chain(a=LINEAR, b=LINEAR), {}), "layer b expects 2 inputs, but the one before it gives 1"),
        (packed(chain(a={**LINEAR, "replicas": [2]}, b={**LINEAR, "in_features": 1, "replicas": [3]}), {}), "replicas"),
        (packed(chain(a={**LINEAR, "replicas": [2]}, b={"type": "Flatten"}), {}), r"mixes up the replicas \[2\]"),
        (packed(chain(a=LINEAR, b={"type": "SquaredError"}), {}), "layer b should be a layer of npn.nn"),
        (packed(chain(**{f"c{i}": {"type": "Complement"} for i in range(30)}), {}), "at most 8 layers Complement"),
        (packed(chain(**MULTIPLYING), {}), "layer c gives 1000000000 numbers for each row, expected at most 1048576"),
        (packed(document(), {**WEIGHTS, "weight.mean": torch.ones(1, 2).double()}), "of one type, got torch.float32"),
        (packed(document(), {**WEIGHTS, "weight.mean": torch.full((1, 2), 2e12)}), "above 1e"),
        (packed(made({"type": "ScaledSoftmax", "classes": 1}), {}), "at least 2 classes"),
        (packed(made({"type": "Direct", "family": "weibull", "known": {"shape": -1}}), {}), "shape > 0"),
        (packed(made({"type": "Direct", "family": "weibull", "known": {"self": 1}}), {}), "no constant"),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value[:40],
)  # fmt: skip
def test_hostile_files_are_refused(content, words, tmp_path):
    refused(content, words, tmp_path)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (None, "should be a JSON object"),
        ({"dtype": "F32", "shape": [2]}, "should have the keys"),
        ({"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]}, "should have a type among .* got 'F8_E4M3'"),
        ({"dtype": ["F32"], "shape": [2], "data_offsets": [0, 8]}, "should have a type among"),
        ({"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}, r"impossible shape \[-2\]"),
        ({"dtype": "F32", "shape": [True, 2], "data_offsets": [0, 8]}, "impossible shape"),
        ({"dtype": "F32", "shape": 2, "data_offsets": [0, 8]}, "impossible shape"),
        ({"dtype": "F32", "shape": [0, 2**62, 2**62], "data_offsets": [0, 0]}, "impossible shape"),
        ({"dtype": "F32", "shape": [1] * 10**5, "data_offsets": [0, 4]}, "impossible shape"),
        ({"dtype": "F32", "shape": [2**40], "data_offsets": [0, 8]}, "should hold 4398046511112 bytes .*, got 16"),
        ({"dtype": "F32", "shape": [1, 2], "data_offsets": [8, 16]}, "do not agree"),  # the place of the other tensor
        ({"dtype": "F32", "shape": [1, 2], "data_offsets": [4, 12]}, "do not agree"),
        ({"dtype": "F32", "shape": [1, 2], "data_offsets": [2**63, 2**63 + 8]}, "do not agree"),
        ({"dtype": "F32", "shape": [1, 2], "data_offsets": [-8, 0]}, "do not agree"),
        ({"dtype": "F32", "shape": [1, 2], "data_offsets": "0"}, "do not agree"),
        ({"dtype": "I32", "shape": [1, 2], "data_offsets": [0, 8]}, "checksum is wrong"),
        ({"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}, "checksum is wrong"),
    ],
)  # fmt: skip
def test_hostile_headers_are_refused(entry, words, tmp_path):
    refused(packed(document(), WEIGHTS, **{"weight.log_std": entry}), words, tmp_path)


@pytest.mark.parametrize("kind", ["description", "header"])
def test_a_key_that_is_there_twice_is_refused(kind, tmp_path):
    text = json.dumps(document())
    if kind == "description":
        refused(packed('{"saved": "x", ' + text[1:], WEIGHTS), "different keys", tmp_path)
    else:
        content = packed(document(), WEIGHTS)
        (length,) = struct.unpack("<Q", content[:8])
        start = content[8 : 8 + length].replace(b"{", b'{"weight.mean": 1, ', 1)
        refused(struct.pack("<Q", len(start)) + start + content[8 + length :], "different keys", tmp_path)


@pytest.mark.parametrize("path", [None, 3, 2.5, b"model.npn", ["model.npn"], object()])
def test_what_is_no_path_is_a_type_error(path):
    for call in (io.load, io.describe, lambda path: io.save(nn.ReLU(), path)):
        with pytest.raises(TypeError):
            call(path)
