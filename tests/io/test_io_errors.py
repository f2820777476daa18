"""What cannot be saved, and where nothing can be written."""

from __future__ import annotations

import errno
import math
import os

import pytest
import torch
from test_io import same

import torchnpn
from torchnpn import families, io, nn


class OwnLinear(nn.Linear):
    """A user's own layer."""


def with_buffer() -> nn.Linear:
    linear = nn.Linear(2, 2)
    linear.register_buffer("mine", torch.ones(2))
    return linear


def with_other_weights(family: str, shape: tuple[int, ...]) -> nn.Linear:
    linear = nn.Linear(2, 2)
    linear.weight = nn.RandomParameter(family, torchnpn.Moments(torch.ones(shape), torch.ones(shape)))
    return linear


def with_numbers(value: float) -> nn.Linear:
    linear = nn.Linear(2, 2)
    linear.weight.mean.data[0, 0] = value
    return linear


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: nn.Sequential(torch.nn.Identity()), TypeError, r"got torch.nn.*Identity as '0'.*state_dict"),
        (lambda: torch.nn.Sequential(nn.Linear(2, 2)), TypeError, "state_dict"),
        (lambda: nn.Sequential(nn.ReLU(), nn.Sequential(OwnLinear(2, 2))), TypeError, r"OwnLinear as '1.0'"),
        (lambda: nn.Saturating(type("Own", (families.Gamma,), {})), TypeError, "families that come with .* got Own"),
        (lambda: nn.Sequential(one := nn.Linear(2, 2), one), ValueError, "uses a layer twice"),
        (with_buffer, ValueError, "tensors of its own"),
        (lambda: with_other_weights("gamma", (2, 2)), ValueError, "of one family"),
        (lambda: with_other_weights("gaussian", (3, 2)), ValueError, r"weight.log_std should be of shape \[2, 2\]"),
        (lambda: with_numbers(math.nan), ValueError, "weight has a mean or a variance that is not finite"),
        (lambda: with_numbers(math.inf), ValueError, "weight has a mean or a variance that is not finite"),
        (lambda: nn.InputNoise(math.inf), ValueError, "InputNoise expects a finite variance ≥ 0, got inf"),
        (lambda: nn.Power(1e4), ValueError, "Power's tau should be a number > 0 and at most 1000, got 10000.0"),
        (lambda: with_numbers(1e13), ValueError, r"a standard deviation above 1e\+12"),
        (lambda: nn.Sequential(nn.Linear(2, 3), nn.Linear(2, 3)), ValueError, "layer 1 expects 2 inputs, .* gives 3"),
        (lambda: {"weights": 1}, TypeError, "save expects a network, .* got builtins.dict"),
        (lambda: nn.Linear, TypeError, "save expects a network"),
    ],
)  # fmt: skip
def test_what_cannot_be_saved_says_why(make, error, words, tmp_path):
    with pytest.raises(error, match=words):
        io.save(make(), tmp_path / "model.npn")
    assert list(tmp_path.iterdir()) == []


def test_deep_networks_are_refused_before_they_are_written(tmp_path):
    network = nn.Linear(1, 1)
    for _ in range(20):
        network = nn.Sequential(network)
    with pytest.raises(ValueError, match="nested up to 16 deep"):
        io.save(network, tmp_path / "model.npn")


def test_failure_leaves_the_old_file(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    io.save(old := nn.Linear(2, 2), path := tmp_path / "model.npn")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"Cannot save the model: No space left .*model\.npn") as caught:
        io.save(nn.Linear(3, 3), path)
    assert caught.value.errno == errno.ENOSPC
    assert [one.name for one in tmp_path.iterdir()] == ["model.npn"]
    assert same(io.load(path), old)


def test_interrupt_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(_, __):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        io.save(nn.Linear(2, 2), tmp_path / "model.npn")
    assert list(tmp_path.iterdir()) == []


def test_place_that_cannot_be_written(tmp_path):
    with pytest.raises(IsADirectoryError, match="Cannot save the model"):
        io.save(nn.Linear(2, 2), tmp_path)
    with pytest.raises(FileNotFoundError, match=r"Cannot save the model: No such .*nowhere/model\.npn"):
        io.save(nn.Linear(2, 2), tmp_path / "nowhere" / "model.npn")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="a device or a pipe"):
        io.save(nn.Linear(2, 2), tmp_path / "pipe")
    assert [one.name for one in tmp_path.iterdir()] == ["pipe"]
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(OSError, match=r"Cannot save the model: Too many levels of symbolic links: .*circle"):
        io.save(nn.Linear(2, 2), tmp_path / "circle")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_no_permission(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="Cannot save the model"):
        io.save(nn.Linear(2, 2), tmp_path / "model.npn")


def test_links_and_modes_are_those_of_ordinary_files(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "model.npn")
    io.save(nn.Linear(2, 2), tmp_path / "link")
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "model.npn").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("path", [b"model.npn", None, 3, True, ["model.npn"]], ids=repr)
def test_what_is_no_path_is_refused_in_words(path):
    for call in (lambda: io.save(nn.Linear(2, 2), path), lambda: io.load(path), lambda: io.describe(path)):
        with pytest.raises(TypeError, match=r"expects its path as text or as a pathlib\.Path, got"):
            call()


@pytest.mark.parametrize("path", ["", "a\0b", "\ud800"], ids=ascii)
def test_paths_that_no_system_has_are_refused_in_words(path):
    for call in (lambda: io.save(nn.Linear(2, 2), path), lambda: io.load(path), lambda: io.describe(path)):
        with pytest.raises(ValueError, match="A model file expects a path such as"):
            call()


def test_places_without_a_model_are_named(tmp_path):
    for call in (io.load, io.describe):
        with pytest.raises(FileNotFoundError, match=r"Cannot load the model: No such .*look at the path.*nothing\.npn"):
            call(tmp_path / "nothing.npn")
        with pytest.raises(IsADirectoryError, match=r"Cannot load the model: Is a directory .give the path of a file"):
            call(tmp_path)
