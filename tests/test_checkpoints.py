"""Checkpoints: a training goes on where it was, and a file that is not its own is refused and left alone."""

from __future__ import annotations

import pytest
import torch
from trainings import FEATURES, data, network, run, same, seeded

from torchnpn import nn, priors


class Stop(Exception):
    """Ends a training from its callback."""


def stop_after(epoch):
    def callback(history):
        if len(history.epochs) > epoch:
            raise Stop

    return callback


@pytest.fixture
def every_epoch(monkeypatch):
    monkeypatch.setattr("torchnpn.training.checkpoint.SECONDS", -1.0)


SETTINGS = {"epochs": 8, "prior": priors.EmpiricalBayes(), "validation": data(20, seed=5), "patience": 6}


@pytest.mark.parametrize("after", [1, 4, 7])
@pytest.mark.parametrize("dropout", [0.2, 0.0], ids=["by autograd", "in numpy"])
def test_a_training_goes_on_where_it_was(after, dropout, tmp_path, every_epoch):
    path = tmp_path / "run.ckpt"
    want = run(net=network(dropout=dropout), **SETTINGS)
    with pytest.raises(Stop):
        run(net=network(dropout=dropout), checkpoint=path, callback=stop_after(after), **SETTINGS)
    seen = []
    again = network(dropout=dropout)
    got = run(net=again, checkpoint=path, callback=lambda h: seen.append(h.last.number), **SETTINGS)
    assert seen[0] == after + 1  # what was done is not done again
    assert same(got, want)
    assert [(e.number, e.loss, e.validation) for e in got[2].epochs] == [
        (e.number, e.loss, e.validation) for e in want[2].epochs
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["run.ckpt"]


def test_the_best_weights_survive_an_interruption(tmp_path, every_epoch):
    """Stopped after the best epoch, training goes on to the same early end, with that epoch's weights."""
    settings = {"epochs": 60, "learning_rate": 0.1, "patience": 4, "validation": data(30, seed=9)}
    wide = lambda: nn.mlp([FEATURES, 32, 1], generator=seeded())
    want = run(net=wide(), **settings)
    assert want[2].stopped_early
    path = tmp_path / "run.ckpt"
    with pytest.raises(Stop):
        run(net=wide(), checkpoint=path, callback=stop_after(want[2].best_epoch + 2), **settings)
    got = run(net=wide(), checkpoint=path, **settings)
    assert same(got, want)
    assert (got[2].best_epoch, len(got[2].epochs)) == (want[2].best_epoch, len(want[2].epochs))


def test_a_finished_training_is_not_repeated(tmp_path):
    path = str(tmp_path / "run.ckpt")
    want = run(checkpoint=path, **SETTINGS)
    again = run(checkpoint=path, callback=stop_after(0), **SETTINGS)
    assert same(again, want)
    assert again[2] == want[2]


def test_a_checkpoint_belongs_to_one_training(tmp_path):
    path = tmp_path / "run.ckpt"
    run(checkpoint=path)
    others = [
        ({"seed": 1}, "settings"),
        ({"epochs": 5}, "settings"),
        ({"clip_norm": 1.0}, "settings"),
        ({"data_": data(30)}, "rows"),
        ({"net": nn.mlp([FEATURES, 9, 1])}, "parameters"),
    ]
    for change, what in others:
        with pytest.raises(ValueError, match=rf"belongs to another training: {what} changed"):
            run(checkpoint=path, **change)


@pytest.mark.parametrize("content", [b"", b"no checkpoint", "tensors"], ids=["empty", "text", "other tensors"])
def test_a_foreign_file_is_refused_and_left_alone(content, tmp_path):
    path = tmp_path / "run.ckpt"
    torch.save({"weights": torch.ones(3)}, path) if content == "tensors" else path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="is not a checkpoint of train"):
        run(checkpoint=path)
    assert path.read_bytes() == before


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path):
    class Bad:
        def __reduce__(self):
            return (pytest.fail, ("code was executed",))

    path = tmp_path / "run.ckpt"
    torch.save({"fingerprint": Bad()}, path)
    with pytest.raises(ValueError, match="is not a checkpoint of train"):
        run(checkpoint=path)
