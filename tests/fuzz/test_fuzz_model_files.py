"""Model files from strangers: whatever stands in them, they load or are refused with a reason, and run nothing."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.fuzzing import generator, rounds
from support.model_mutations import asked, changed, models, with_changed_tensor

from torchnpn import io, nn
from torchnpn.estimators import NPNClassifier
from torchnpn.io import ModelFileError, objects


def packed(document: object, tensors: dict[str, torch.Tensor], **header: object) -> bytes:
    """A model file made by hand, as docs/model-files.md describes it; `header` adds to or replaces entries."""
    text = document if isinstance(document, str) else json.dumps(document)
    kinds = {torch.float64: "F64", torch.float32: "F32", torch.int32: "I32", torch.int64: "I64"}
    digest, entries, data = hashlib.sha256(text.encode(errors="surrogatepass")), {}, b""
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
MULTIPLYING = {  # 1,000 weights each, and each multiplies what the one before gives
    name: {**LINEAR, "in_features": 1, "replicas": replicas}
    for name, replicas in {"a": [1000, 1, 1], "b": [1, 1000, 1], "c": [1, 1, 1000]}.items()
}
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


# Files at random -----------------------------------------------------------------------------------------------

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
    objects._taken_apart(loaded)
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


# Sizes that a file only speaks of -------------------------------------------------------------------------------


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


@pytest.mark.parametrize("path", [None, 3, 2.5, b"model.npn", ["model.npn"], object()])
def test_what_is_no_path_is_a_type_error(path):
    for call in (io.load, io.describe, lambda path: io.save(nn.ReLU(), path)):
        with pytest.raises(TypeError):
            call(path)
