"""Checkpoints: a training goes on where it was, and a file that is not its own is refused and left alone."""

from __future__ import annotations

import errno
import os
import threading
from functools import partial

import pytest
import scipy.sparse
import torch
from support.trainings import FEATURES, close, data, network, run, same, seeded
from torch.utils.data import DataLoader, TensorDataset

import torchnpn
from torchnpn import likelihoods, nn, priors
from torchnpn.moments import Moments
from torchnpn.training import CheckpointError, adadelta, engine, linear_ramp
from torchnpn.training.engine import device_engine
from torchnpn.training.fingerprint import described


def sparse(share):
    x, y = data()
    return scipy.sparse.csr_matrix(torch.where(x.abs() < share, 0.0, x).numpy()), y


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


def test_a_training_that_a_callback_has_ended_stays_ended(tmp_path):
    path, settings = tmp_path / "run.ckpt", {"epochs": 8, "prior": priors.EmpiricalBayes()}
    want = run(checkpoint=path, callback=lambda history: len(history.epochs) == 3, **settings)
    assert len(want[2].epochs) == 3 and want[2].stopped_early
    again = run(checkpoint=path, callback=stop_after(0), **settings)
    assert same(again, want) and again[2] == want[2]
    whole = run(callback=lambda history: len(history.epochs), **settings)  # a number is no True
    assert len(whole[2].epochs) == 8 and not whole[2].stopped_early


def weighted(factor: float = 1.0):
    x, y = data()
    return x, y, torch.linspace(0.1, 1.0, len(x)) * factor


def changed_in_one_place():
    x, y = data()
    y[-1, -1] += 1e-6
    return x, y


OTHERS = {
    "seed": ({"seed": 1}, r"recipe.seed \(0, now 1\)"),
    "epochs": ({"epochs": 5}, r"recipe.epochs \(3, now 5\)"),
    "clipping": ({"clip_norm": 1.0}, r"recipe.clip_norm \(None, now 1.0\)"),
    "optimizer": ({"optimizer": torch.optim.SGD}, "recipe.optimizer"),
    "momentum": ({"optimizer": partial(torch.optim.SGD, momentum=0.5)}, "recipe.optimizer"),
    "scheduler": ({"scheduler": None}, "recipe.scheduler"),
    "ramp": ({"kl_weight": linear_ramp(0.5)}, "recipe.kl_weight"),
    "own ramp": ({"kl_weight": lambda progress: progress / 2}, "recipe.kl_weight"),
    "adversary": ({"adversarial": 0.1}, "recipe.adversarial"),
    "other rows": ({"data_": data(seed=7)}, "Different: data"),
    "fewer rows": ({"data_": data(30)}, "Different: data"),
    "one number": ({"data_": changed_in_one_place()}, "Different: data"),
    "weights": ({"data_": weighted()}, "Different: data"),
    "validation": ({"validation": data(20)}, "Different: validation"),
    "units": ({"net": nn.mlp([FEATURES, 9, 1])}, "Different: network"),
    "activation": ({"net": network(activation="tanh", dropout=0.2)}, "Different: network"),
    "dropout": ({"net": network(dropout=0.3)}, "Different: network"),
    "likelihood": ({"likelihood": likelihoods.SquaredError()}, "Different: likelihood"),
    "its settings": ({"likelihood": likelihoods.GaussianNoise(elbo=0.4)}, "Different: likelihood"),
    "prior": ({"prior": priors.EmpiricalBayes()}, "Different: prior"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_checkpoint_belongs_to_one_training(name, tmp_path):
    change, words = OTHERS[name]
    run(checkpoint=(path := tmp_path / "run.ckpt"))
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=rf"belongs to another training.*{words}.*Delete it to start anew"):
        run(checkpoint=path, **change)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"data_": weighted()}, {"data_": weighted(2.0)}),
        ({"prior": priors.IsotropicGaussian(1.0)}, {"prior": priors.IsotropicGaussian(2.0)}),
        ({"prior": priors.ScaleMixture()}, {"prior": priors.ScaleMixture(weight=0.7)}),
        ({"data_": (Moments(*data()[:1]), data()[1])}, {"data_": (Moments(data()[0], 0.1 + 0 * data()[0]), data()[1])}),
        ({"validation": data(20, seed=1)}, {"validation": data(20, seed=2)}),
        ({"learning_rate": 1e-2}, {"learning_rate": 1.1e-2}),
        ({"data_": sparse(0.5)}, {"data_": sparse(0.6)}),
    ],
    ids=["weights", "precision", "mixture", "variances", "validation", "rate", "sparse rows"],
)
def test_settings_of_the_same_kind_are_told_apart(first, second, tmp_path):
    run(checkpoint=(path := tmp_path / "run.ckpt"), **first)
    with pytest.raises(CheckpointError, match="belongs to another training"):
        run(checkpoint=path, **second)
    run(checkpoint=path, **first)


def test_the_same_rows_in_other_hands_are_the_same(tmp_path):
    """As arrays, as tensors, in another layout of memory."""
    x, y = data()
    want = run(checkpoint=(path := tmp_path / "run.ckpt"))
    for other in ((x.numpy(), y.numpy()), (x.T.contiguous().T, y), [x.clone(), y.clone()]):
        assert same(run(data_=other, checkpoint=path), want)


def test_large_arrays_are_compared_by_some_of_their_rows(monkeypatch):
    monkeypatch.setattr("torchnpn.training.fingerprint.ALL_BYTES", 1000)
    x = torch.randn(1000, 3, generator=seeded())
    other = x.clone()
    other[0, 0] += 1
    texts = [described(array) for array in (x, other, x.numpy(), x.double())]
    assert texts[0] == texts[2]
    assert len(set(texts)) == 3


def test_a_loader_is_known_by_its_tensors(tmp_path):
    def loader(seed, batch=16):
        return DataLoader(TensorDataset(*data(seed=seed)), batch_size=batch)

    want = run(data_=loader(0), checkpoint=(path := tmp_path / "run.ckpt"))
    assert same(run(data_=loader(0), checkpoint=path), want)
    for other in (loader(1), loader(0, batch=8), data()):
        with pytest.raises(CheckpointError, match="Different: data"):
            run(data_=other, checkpoint=path)


# From one engine to another -------------------------------------------------------------------------------------

ENGINES = {
    "numpy": lambda monkeypatch: None,
    "torch": lambda monkeypatch: monkeypatch.setattr(engine, "why_not_numpy", lambda *_: "no"),
    "autograd": lambda monkeypatch: monkeypatch.setattr(engine, "why_not_cpu_chain", lambda *_: "no"),
    "device": lambda monkeypatch: on_device(monkeypatch, None),
    "fused": lambda monkeypatch: on_device(monkeypatch, True),
}
TORCHS = {"optimizer": partial(torch.optim.AdamW, weight_decay=0.1), "scheduler": None}


def on_device(monkeypatch, fused):
    """Steps as on a GPU, computed on a CPU; fused ones by Triton's interpreter."""

    def choose(objective, data, device, processes):
        return device_engine(objective.model, data, *objective[1:], fused=fused)

    monkeypatch.setattr("torchnpn.training.loop.choose_engine", choose)


ADADELTA = {"optimizer": adadelta, "scheduler": None, "learning_rate": 1.0}


@pytest.mark.parametrize(
    "settings", [{}, {"scheduler": None}, ADADELTA, TORCHS], ids=["default", "constant rate", "adadelta", "torch's"]
)
@pytest.mark.parametrize("after", ENGINES)
@pytest.mark.parametrize("before", ENGINES)
def test_a_training_goes_on_in_another_engine(before, after, settings, tmp_path, every_epoch):
    """Full batches, so that no engine's order of rows matters: the result is the same but for rounding."""
    if "fused" in (before, after) and settings == TORCHS:
        pytest.skip("fused steps have Adam or AdaDelta")
    settings = {"epochs": 6, "batch_size": 48, "prior": priors.EmpiricalBayes(), "precision": "float32", **settings}
    want, path = run(net=network(), **settings), tmp_path / "run.ckpt"
    with pytest.MonkeyPatch.context() as patched:
        ENGINES[before](patched)
        with pytest.raises(Stop):
            run(net=network(), checkpoint=path, callback=stop_after(3), **settings)
    with pytest.MonkeyPatch.context() as patched:
        ENGINES[after](patched)
        seen = []
        got = run(net=network(), checkpoint=path, callback=lambda h: seen.append(h.last.number), **settings)
    assert seen[0] == 4
    close(got, want, rtol=1e-3, atol=1e-4)


# Where a checkpoint cannot be ------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"no checkpoint", "tensors"], ids=["empty", "text", "other tensors"])
def test_a_foreign_file_is_refused_and_left_alone(content, tmp_path):
    path = tmp_path / "run.ckpt"
    torch.save({"weights": torch.ones(3)}, path) if content == "tensors" else path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match="is not a checkpoint of train"):
        run(checkpoint=path)
    assert path.read_bytes() == before


def test_model_files_and_checkpoints_are_told_apart(tmp_path):
    torchnpn.save(network(), tmp_path / "model.npn")
    with pytest.raises(CheckpointError, match="it is a model file"):
        run(checkpoint=tmp_path / "model.npn")
    run(checkpoint=tmp_path / "run.ckpt")
    with pytest.raises(torchnpn.io.ModelFileError, match="it is a checkpoint"):
        torchnpn.load(tmp_path / "run.ckpt")


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path):
    class Bad:
        def __reduce__(self):
            return (pytest.fail, ("code was executed",))

    path = tmp_path / "run.ckpt"
    torch.save({"fingerprint": Bad()}, path)
    with pytest.raises(CheckpointError, match="it is a zip archive"):  # as the first version's were
        run(checkpoint=path)


def test_a_place_without_a_file_is_refused_before_training(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in (tmp_path / "pipe", tmp_path / "link", "/dev/null"):
        with pytest.raises(CheckpointError, match="a device or a pipe"):
            run(checkpoint=path, callback=stop_after(0))
    with pytest.raises(IsADirectoryError, match="got the folder"):
        run(checkpoint=tmp_path, callback=stop_after(0))
    with pytest.raises(FileNotFoundError, match="Make it first"):
        run(checkpoint=tmp_path / "nowhere" / "run.ckpt", callback=stop_after(0))
    for path in (3, b"run.ckpt", ["run.ckpt"]):
        with pytest.raises(TypeError):
            run(checkpoint=path)


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path, every_epoch, monkeypatch):
    path = tmp_path / "run.ckpt"
    with pytest.raises(Stop):
        run(checkpoint=path, callback=stop_after(1), **SETTINGS)
    before = path.read_bytes()

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"Cannot write the checkpoint: No space left on device: '.*run\.ckpt'"):
            run(checkpoint=path, **SETTINGS)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["run.ckpt"]
    assert same(run(checkpoint=path, **SETTINGS), run(**SETTINGS))


def test_trainings_at_once_do_not_disturb_each_other(tmp_path, every_epoch):
    """All write to one path, as jobs that were started twice do; each ends as if it were alone."""
    settings = {"epochs": 5, "net": None}
    want, results = run(epochs=5, net=network()), []

    def job():
        results.append(run(**{**settings, "net": network()}, checkpoint=tmp_path / "run.ckpt"))

    threads = [threading.Thread(target=job) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    assert all(same(got, want) for got in results)
    assert [file.name for file in tmp_path.iterdir()] == ["run.ckpt"]
