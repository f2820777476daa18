"""Model files at random: each loads as a whole model or is refused, and no damage goes unnoticed."""

from __future__ import annotations

import copy
import json
import struct
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.fuzzing import generator, rounds
from support.model_files import packed
from support.model_mutations import asked, changed, models, with_changed_tensor

from torchnpn import io, nn
from torchnpn.io import ModelFileError, objects

BOUNDED = settings(
    max_examples=250, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), nn.LeakyReLU(0.5), nn.Sequential(nn.Linear(3, 1, replicas=(2,))))


def outcome(content: bytes, tmp_path: Path) -> torch.nn.Module | None:
    """What loads, or None; `describe` fails in no other way than `load` does, and takes all that loads."""
    (path := tmp_path / "random.npn").write_bytes(content)
    try:
        loaded = io.load(path)
    except ModelFileError:
        loaded = None
    try:
        io.describe(path)
    except ModelFileError:
        assert loaded is None
    return loaded


@pytest.mark.slow
def test_every_damaged_byte_is_noticed(tmp_path):
    """Each byte changed in turn: the file is refused, or the change was in a blank and nothing else is different."""
    io.save(network(), path := tmp_path / "model.npn")
    content, expected = path.read_bytes(), network().state_dict()
    taken = 0
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        if (loaded := outcome(bytes(damaged), tmp_path)) is not None:
            taken += 1
            assert all(torch.equal(tensor, expected[name]) for name, tensor in loaded.state_dict().items())
    assert taken <= 16  # the letters of "format": "pt", which other programs read, and blanks at the header's end


@BOUNDED
@given(st.binary(max_size=200))
def test_random_bytes(tmp_path, content):
    assert outcome(content, tmp_path) is None


@pytest.mark.slow
@BOUNDED
@given(st.data())
def test_random_changes_of_bytes(tmp_path, data):
    io.save(network(), path := tmp_path / "model.npn")
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        start = data.draw(st.integers(0, len(content) - 1))
        stop = data.draw(st.integers(start, min(start + 8, len(content))))
        content[start:stop] = data.draw(st.binary(max_size=8))
    outcome(bytes(content), tmp_path)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, tuple[dict[str, object], dict[str, torch.Tensor]]]:
    """Description and tensors of the file of each kind of model."""
    folder, found = tmp_path_factory.mktemp("models"), {}
    for name, model in models().items():
        io.save(model, path := folder / f"{name}.npn")
        with safetensors.safe_open(path, "pt") as opened:
            found[name] = json.loads(opened.metadata()["torchnpn"]), safetensors.torch.load_file(path)
    return found


def taken(content: bytes, tmp_path: Path) -> bool:
    """Whether a file loads; if so it is a whole model, which predicts finite numbers and can be saved again."""
    loaded = outcome(content, tmp_path)
    if loaded is None:
        return False
    assert all(np.isfinite(part).all() for part in asked(loaded))
    objects.taken_apart(loaded)
    return True


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("what", ["description", "tensor", "both"])
def test_random_changes_of_models(what, files, tmp_path, record_property):
    """The checksum is made anew, as a stranger would."""
    chance, names, loaded, tried = generator(f"models {what}"), sorted(files), 0, rounds(800)
    record_property("inputs", tried)
    for _ in range(tried):
        document, tensors = files[names[chance.integers(len(names))]]
        if what != "tensor":
            document = {**document, "object": changed(copy.deepcopy(document["object"]), chance)}
        if what != "description":
            tensors = with_changed_tensor(tensors, chance)
        loaded += taken(packed(document, tensors), tmp_path)
    assert loaded > tried / 100  # some changes do no harm


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_random_changes_of_the_rest(files, tmp_path, record_property):
    chance, names, tried = generator("documents"), sorted(files), rounds(200)
    record_property("inputs", tried)
    for _ in range(tried):
        document, tensors = files[names[chance.integers(len(names))]]
        taken(packed(changed(copy.deepcopy(document), chance), tensors), tmp_path)


def test_tensors_of_one_model_with_the_description_of_another(files, tmp_path, record_property):
    """Parts that are right by themselves: only those of one model belong together, or of two of the same sizes."""
    record_property("inputs", 3 * len(files))
    for step in (0, 1, 5):
        for a, b in zip(files, [*files][step:] + [*files][:step], strict=True):
            assert taken(packed(files[a][0], files[b][1]), tmp_path) or a != b


@pytest.mark.slow
def test_random_changes_of_headers(tmp_path, record_property):
    io.save(network(), path := tmp_path / "model.npn")
    content, chance = path.read_bytes(), generator("headers")
    (length,) = struct.unpack("<Q", content[:8])
    record_property("inputs", rounds(400))
    for _ in range(rounds(400)):
        start = json.dumps(changed(json.loads(content[8 : 8 + length]), chance)).encode()
        outcome(struct.pack("<Q", len(start)) + start + content[8 + length :], tmp_path)
