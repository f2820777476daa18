"""Model files from strangers: whatever stands in them, they load or are refused with a reason, and run nothing."""

from __future__ import annotations

import copy
import hashlib
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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchnpn import io, likelihoods, nn
from torchnpn.estimators import LinkPredictor, NPNAutoencoder, NPNClassifier, NPNRegressor
from torchnpn.io import ModelFileError


def packed(document: object, tensors: dict[str, torch.Tensor], **header: object) -> bytes:
    """A model file made by hand, as docs/model-files.md describes it; `header` adds to or replaces entries."""
    text = document if isinstance(document, str) else json.dumps(document)
    kinds = {torch.float64: "F64", torch.float32: "F32", torch.int32: "I32", torch.int64: "I64"}
    digest, entries, data = hashlib.sha256(text.encode()), {}, b""
    for name, tensor in sorted(tensors.items()):
        numbers = tensor.numpy().tobytes()
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode() + numbers)
        offsets = [len(data), len(data) + len(numbers)]
        entries[name] = {"dtype": kinds[tensor.dtype], "shape": list(tensor.shape), "data_offsets": offsets}
        data += numbers
    metadata = {"torchnpn": text, "sha256": digest.hexdigest()}
    start = json.dumps({"__metadata__": metadata, **entries, **header}).encode()
    return struct.pack("<Q", len(start)) + start + data


LINEAR = {"type": "Linear", "in_features": 2, "out_features": 1, "bias": False, "family": "gaussian", "replicas": []}
WEIGHTS = {"weight.mean": torch.ones(1, 2), "weight.log_std": torch.zeros(1, 2)}


def document(**changed: object) -> dict[str, object]:
    plain = {"format_version": 1, "saved": "2026-01-01T00:00:00+00:00", "versions": {"torch": "2"}, "object": LINEAR}
    return {**plain, **changed}


def made(description: dict[str, object]) -> dict[str, object]:
    return document(object=description)


def chain(**layers: object) -> dict[str, object]:
    return made({"type": "Sequential", "layers": layers})


def of(**changed: object) -> dict[str, object]:
    return made({**LINEAR, **changed})


def refused(content: bytes, words: str, tmp_path: Path) -> None:
    (path := tmp_path / "hostile.npn").write_bytes(content)
    with pytest.raises(ModelFileError, match=words) as caught:
        io.load(path)
    assert str(caught.value).startswith(f"Cannot load {path}: ")
    assert len(str(caught.value)) < 1000
    try:
        io.describe(path)  # may take it, since it looks at less, but fails in no other way
    except ModelFileError:
        pass


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
        (packed(document(), {**WEIGHTS, "weight.log_std": torch.tensor([[1, 100.0]])}), "not finite"),
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


# Files at random -----------------------------------------------------------------------------------------------

BOUNDED = settings(
    max_examples=250, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), nn.Saturating("gamma", 0.5), nn.Sequential(nn.Linear(3, 1, replicas=(2,))))


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


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([0, 1, 2, 3, 2**31, 2**31 + 1, 2**62]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(
        ["Linear", "Sequential", "NPNRegressor", "Direct", "os.system", "forward", "gaussian", "x" * 10**5]
    ),
    st.lists(st.integers(0, 3), max_size=10),
    st.dictionaries(st.text(max_size=3), st.integers(0, 3), max_size=3),
    st.just({"type": "ReLU"}),
)


def change(value: object, data: st.DataObject) -> object:
    """`value` with some part of it, at any depth, replaced, removed or added."""
    if not isinstance(value, (dict, list)) or not value or data.draw(st.integers(0, 5)) == 0:
        return data.draw(ODD)
    key = data.draw(st.sampled_from(sorted(value))) if isinstance(value, dict) else 0
    match data.draw(st.sampled_from(["into", "into", "into", "remove", "add"])):
        case "into":
            value[key] = change(value[key], data)
        case "remove":
            value.pop(key)
        case "add" if isinstance(value, dict):
            value[data.draw(st.text(max_size=5))] = data.draw(ODD)
        case _:
            value.append(data.draw(ODD))
    return value


def models() -> dict[str, object]:
    X, y = np.random.default_rng(0).normal(size=(2, 20, 2))
    fast = {"hidden": (3,), "max_epochs": 1, "random_state": 0}
    return {
        "network": network(),
        "likelihood": likelihoods.Direct("weibull", shape=2.0),
        "regressor": NPNRegressor(**fast).fit(X, y[:, 0]),
        "classifier": NPNClassifier(**fast).fit(X, np.where(y[:, 0] > 0, "yes", "no")),
        "autoencoder": NPNAutoencoder(**fast).fit(X),
        "words": NPNAutoencoder("gamma", **fast).fit(abs(X)),
        "links": LinkPredictor(negatives=9, random_state=0).fit((X, y**2), [(0, 1), (2, 3)]),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["network", "likelihood", "regressor", "classifier", "autoencoder", "words", "links"])
@BOUNDED
@given(data=st.data())
def test_random_changes_of_descriptions(tmp_path, name, data):
    """The checksum is made anew, as a stranger would."""
    path = tmp_path / "model.npn"
    if not path.exists():
        io.save(models()[name], path)
    with safetensors.safe_open(path, "pt") as opened:
        document = json.loads(opened.metadata()["torchnpn"])
    changed = change(copy.deepcopy(document), data)
    loaded = outcome(packed(changed, safetensors.torch.load_file(path)), tmp_path)
    if loaded is not None:  # then it is a whole model, and can be saved again
        io.save(loaded, tmp_path / "again.npn")


@pytest.mark.slow
@BOUNDED
@given(data=st.data())
def test_random_changes_of_headers(tmp_path, data):
    io.save(network(), path := tmp_path / "model.npn")
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = change(json.loads(content[8 : 8 + length]), data)
    start = json.dumps(header).encode()
    outcome(struct.pack("<Q", len(start)) + start + content[8 + length :], tmp_path)
