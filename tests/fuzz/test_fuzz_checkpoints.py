"""Damaged checkpoints: each is refused with a clear error, or training goes on to exactly the right result."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
import safetensors.torch
import torch
from support.fuzzing import generator, rounds
from support.model_files import packed
from support.model_mutations import changed, with_changed_tensor
from support.trainings import data, network, run, same

from torchnpn import priors
from torchnpn.training import CheckpointError

SETTINGS = {"epochs": 4, "prior": priors.EmpiricalBayes(), "validation": data(20, seed=5)}
KINDS = {
    "in numpy": lambda: {"net": network(), **SETTINGS},
    "by autograd": lambda: {"net": network(dropout=0.2), **SETTINGS},
    "with an optimizer of torch's": lambda: {"net": network(), "optimizer": torch.optim.NAdam, **SETTINGS},
}


class Stop(Exception):
    """Ends a training from its callback."""


def stop(history):
    if len(history.epochs) == 3:
        raise Stop


class Case:
    """A training that was stopped after two epochs of four, and what it comes to."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.make, self.path = KINDS[kind], folder / "run.ckpt"
        self.want = run(**self.make())
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("torchnpn.training.checkpoint.SECONDS", -1.0)
            with pytest.raises(Stop):
                run(checkpoint=self.path, callback=stop, **self.make())
        self.content = self.path.read_bytes()
        self.length = 8 + struct.unpack("<Q", self.content[:8])[0]

    def goes_on(self, content: bytes) -> bool:
        """Whether a training goes on from these bytes; if so, to the right result."""
        self.path.write_bytes(content)
        try:
            got = run(checkpoint=self.path, **self.make())
        except CheckpointError as error:
            words = str(error)
        else:
            assert same(got, self.want)
            return True
        assert words.startswith(f"{self.path} ")
        assert "Delete it to start anew" in words
        assert len(words) < 1000
        assert self.path.read_bytes() == content
        return False


@pytest.fixture(scope="module", params=KINDS)
def case(request, tmp_path_factory) -> Case:
    return Case(request.param, tmp_path_factory.mktemp("checkpoints"))


def test_a_whole_one_goes_on(case):
    assert case.goes_on(case.content)


def test_bits_that_flip(case, record_property):
    """In the header and in the numbers alike; blanks, and a word that other programs read, do not matter."""
    chance, tried, taken = generator("flips"), rounds(300), 0
    record_property("inputs", tried)
    for i in range(tried):
        content = bytearray(case.content)
        place = chance.integers(case.length if i % 2 else len(content))
        content[place] ^= 1 << chance.integers(8)
        taken += case.goes_on(bytes(content))
    assert taken <= tried / 20


def test_bytes_that_are_lost_or_moved(case, record_property):
    chance, tried = generator("bytes"), rounds(200)
    record_property("inputs", tried)
    for _ in range(tried):
        start, stop = sorted(chance.integers(len(case.content) + 1, size=2))
        content = [
            case.content[:start],  # cut short
            case.content[start:],
            case.content[:start] + case.content[stop:],
            case.content[:start] + bytes(stop - start) + case.content[stop:],
            case.content[:start] + chance.bytes(stop - start) + case.content[stop:],
            case.content[stop:] + case.content[:start],
            case.content + case.content[start:stop],
            chance.bytes(stop),
        ][chance.integers(8)]
        if content != case.content:
            assert not case.goes_on(content)


def test_parts_of_other_trainings(case, tmp_path, record_property):
    """Every part of a checkpoint in the place of the same part of another training: as whole, and with its checksum."""
    other = {**case.make(), "seed": 1}
    run(checkpoint=tmp_path / "other.ckpt", **other)
    assert not case.goes_on((tmp_path / "other.ckpt").read_bytes())
    documents, tensors = zip(*map(parts, (case.content, (tmp_path / "other.ckpt").read_bytes())), strict=True)
    assert not case.goes_on(packed(documents[1], tensors[0]))
    digest = case.content.find(b'"sha256"')
    record_property("inputs", len(tensors[0]) + 3)
    for name in tensors[0]:  # with the checksum as it was
        mixed = packed(documents[0], {**tensors[0], name: tensors[1][name]})
        damaged = bytearray(mixed)
        damaged[mixed.find(b'"sha256"') : mixed.find(b'"sha256"') + 78] = case.content[digest : digest + 78]
        assert torch.equal(tensors[0][name], tensors[1][name]) or not case.goes_on(bytes(damaged))


def test_foreign_files(case, tmp_path):
    torch.save({"fingerprint": {}, "model": {}}, tmp_path / "first version")
    safetensors.torch.save_file({"x": torch.ones(2)}, tmp_path / "safetensors")
    contents = [(tmp_path / name).read_bytes() for name in ("first version", "safetensors")]
    for content in (*contents, b"", b"\0" * 100, b"PK", b"{}", b"a,b\n1,2\n", b"\x80\x04K\x01.", b"\xff" * 1000):
        assert not case.goes_on(content)


def parts(content: bytes) -> tuple[dict[str, object], dict[str, torch.Tensor]]:
    """Description and tensors of a checkpoint."""
    (length,) = struct.unpack("<Q", content[:8])
    document = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["torchnpn"])
    return document, safetensors.torch.load(content)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value encountered")
def test_descriptions_and_tensors_that_are_made_up(case, record_property):
    """With a right checksum: numbers may be others, but nothing fails in another way, or asks for memory."""
    chance, tried = generator("made up"), rounds(200)
    record_property("inputs", tried)
    for i in range(tried):
        document, tensors = parts(case.content)
        if i % 3:
            document = changed(document, chance)
        else:
            tensors = with_changed_tensor(tensors, chance)
        case.path.write_bytes(packed(json.dumps(document), tensors))
        try:
            run(checkpoint=case.path, **case.make())
        except (CheckpointError, ArithmeticError):  # numbers that are made up may diverge
            pass


@pytest.mark.parametrize("number", [float("inf"), -float("inf"), float("nan")])
def test_numbers_that_are_not_finite(case, number):
    """In each tensor of a training that is done and of one that is not, with a right checksum."""
    finished = case.path.with_name("finished.ckpt")
    run(checkpoint=finished, **case.make())
    for content in (case.content, finished.read_bytes()):
        document, tensors = parts(content)
        for name, tensor in tensors.items():
            if name.startswith(("model/", "likelihood/", "best ")) or name.endswith("/exp_avg"):
                changed_tensor = tensor.clone()
                changed_tensor.reshape(-1)[0] = number
                assert not case.goes_on(packed(document, {**tensors, name: changed_tensor}))
        figures = tensors["history/epochs"].clone()
        figures.view(torch.float64)[0, 0] = number
        assert not case.goes_on(packed(document, {**tensors, "history/epochs": figures}))
    finished.unlink()
