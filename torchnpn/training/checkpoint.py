"""Checkpoints: files of the same kind as model files, with a checksum, from which a training goes on.

A kill at any moment leaves a whole file or the one before. Tensors are stored as they are on a CPU, so that a training
may go on elsewhere.
"""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from torchnpn.io import checks, file
from torchnpn.training.fingerprint import differences
from torchnpn.training.history import Epoch, History
from torchnpn.training.optimizer_state import FIRST_AVERAGE, OptimizerState

SECONDS = 1.0  # between two checkpoints, at least
VERSION = 2  # the first was a file of torch.save
_KEYS = ("checkpoint_version", "fingerprint", "engine", "best", "best_epoch", "stopped_early", "optimizer")
_PARTS = ("model", "likelihood", "best model", "best likelihood", "optimizer", "history")
_FIGURES = 5  # of an epoch: loss, KL, β, validation, seconds


class CheckpointError(ValueError):
    """A file is not a checkpoint, or is damaged, or belongs to another training."""


class Best(NamedTuple):
    """The best epoch so far: its loss on the validation data, and the weights."""

    validation: float
    tensors: dict[str, Tensor]


class Checkpoint(NamedTuple):
    """A training under way."""

    tensors: dict[str, Tensor]  # of `Objective.learnt`
    optimizer: OptimizerState
    history: History
    best: Best | None
    engine: str  # that computed it; another one may go on


def check_path(path: str | os.PathLike[str]) -> Path:
    """The path of a checkpoint, before any work is done for it.

    Raises:
        OSError: If it is a folder, or there is no folder to put it into.
        CheckpointError: If it is a device or a pipe.
    """
    found = Path(path)
    if found.is_dir():
        raise IsADirectoryError(f"checkpoint expects the path of a file, got the folder {found}.")
    if found.exists() and not found.is_file():
        raise CheckpointError(f"checkpoint expects the path of a plain file, got {found}, a device or a pipe.")
    if not found.parent.is_dir():
        raise FileNotFoundError(f"checkpoint expects a path in a folder that is there, got {found}. Make it first.")
    return found


def write(path: Path, state: Checkpoint, fingerprint: dict[str, str]) -> None:
    """Store the state of a training under `path`, atomically.

    Raises:
        OSError: If it cannot be written. The file that was there before still is.
    """
    best, history = state.best, state.history
    tensors = {name.replace(".", "/", 1): one for name, one in state.tensors.items()}
    if best is not None:
        tensors |= {f"best {name.replace('.', '/', 1)}": one for name, one in best.tensors.items()}
    tensors |= {f"optimizer/{name}": one for name, one in state.optimizer.tensors.items()}
    tensors["history/epochs"] = _packed(history)
    document = {
        "checkpoint_version": VERSION,
        "fingerprint": fingerprint,
        "engine": state.engine,
        "best": None if best is None else repr(best.validation),
        "best_epoch": history.best_epoch,
        "stopped_early": history.stopped_early,
        "optimizer": state.optimizer.settings,
    }
    whole = torch.contiguous_format
    tensors = {name: one.detach().cpu().clone(memory_format=whole) for name, one in tensors.items()}
    try:
        file.write(path, document, tensors)
    except OSError as error:
        raise OSError(error.errno, f"Cannot write the checkpoint: {error.strerror}", str(path)) from error


def read(path: Path, fingerprint: dict[str, str]) -> Checkpoint | None:
    """The state stored under `path`, or None where there is no file; never executes code.

    Raises:
        CheckpointError: If the file is no checkpoint, is damaged, or belongs to another training.
    """
    if not path.exists():
        return None
    try:
        document, tensors = file.read(path)
        stored = _checked(document)["fingerprint"]
        if not (different := differences(stored, fingerprint)):
            return _unpacked(document, tensors)
    except ValueError as error:
        raise refusal(path, error) from error
    raise CheckpointError(
        f"{path} belongs to another training. Different: {different}. Delete it to start anew, or choose another path."
    )


def check_tensors(learnt: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Raise unless these are the tensors of a module, with no infinite number where it started from a finite one."""
    own = learnt.state_dict()
    kinds, expected = ({name: (x.shape, x.dtype) for name, x in some.items()} for some in (tensors, own))
    if kinds != expected:
        raise ValueError("its tensors are not those of the network and the likelihood")
    for name, one in tensors.items():
        if bool((one.isinf() & ~own[name].cpu().isinf()).any()):
            raise ValueError(f"{name} holds infinite numbers")


def refusal(path: Path, reason: Exception) -> CheckpointError:
    """What to say of a file that cannot be gone on from."""
    return CheckpointError(
        f"{path} is not a checkpoint of train, or is damaged: {str(reason).rstrip('.')}. "
        "Delete it to start anew, or choose another path."
    )


def _checked(document: dict[str, Any]) -> dict[str, Any]:
    if "format_version" in document:
        raise ValueError("it is a model file, of npn.save")
    version = document.get("checkpoint_version")
    if version != VERSION:
        raise ValueError(f"it is of version {checks.shown(version)}, and this torchnpn goes on from version {VERSION}")
    checks.with_keys("its description", document, _KEYS)
    for name, text in checks.mapping("fingerprint", document["fingerprint"]).items():
        checks.text(name, text)
    return document


def _unpacked(document: dict[str, Any], tensors: dict[str, Tensor]) -> Checkpoint:
    parts: dict[str, dict[str, Tensor]] = {part: {} for part in _PARTS}
    for name, tensor in tensors.items():
        part, _, inner = name.partition("/")
        if part not in parts:
            raise ValueError(f"it has no place for the tensor {checks.shown(name)}")
        parts[part][inner] = tensor
        if inner.endswith(f"/{FIRST_AVERAGE}") and bool(tensor.isinf().any()):
            raise ValueError(f"the optimizer's {checks.shown(inner)} holds infinite numbers")
    best = document["best"]
    if best is not None:
        with contextlib.suppress(TypeError, OverflowError):
            best = float(best)
        if not isinstance(best, float):
            raise ValueError(f"best should be a number, got {checks.shown(best)}")
    if (best is None) != (not parts["best model"]):
        raise ValueError("it should hold the best weights and their loss, or none of both")
    tensors, best_tensors = (
        {f"{part}.{name}": one for part in ("model", "likelihood") for name, one in parts[kind + part].items()}
        for kind in ("", "best ")
    )
    return Checkpoint(
        tensors,
        OptimizerState(parts["optimizer"], document["optimizer"]),
        _history(parts["history"].get("epochs"), document["best_epoch"], document["stopped_early"]),
        None if best is None else Best(best, best_tensors),
        checks.text("engine", document["engine"]),
    )


def _packed(history: History) -> Tensor:  # (epochs, figures) int64
    """The figures of all epochs as the bits of float64; a validation loss may be NaN, and NaN stands for none."""
    rows = [
        [one.loss, one.kl, one.kl_weight, math.nan if one.validation is None else one.validation, one.seconds]
        for one in history.epochs
    ]
    return torch.tensor(rows, dtype=torch.float64).reshape(-1, _FIGURES).view(torch.int64)


def _history(figures: Tensor | None, best_epoch: Any, stopped_early: Any) -> History:
    if figures is None or figures.dtype != torch.int64 or figures.dim() != 2 or figures.shape[1] != _FIGURES:
        raise ValueError(f"its history should have {_FIGURES} figures for each epoch")
    epochs = [
        Epoch(number, loss, kl, weight, None if math.isnan(validation) else validation, seconds)
        for number, (loss, kl, weight, validation, seconds) in enumerate(figures.view(torch.float64).tolist(), 1)
    ]
    if not all(math.isfinite(one.loss) and math.isfinite(one.kl) for one in epochs):
        raise ValueError("its history holds a loss or a KL that is not finite")
    if best_epoch is not None and (type(best_epoch) is not int or not 1 <= best_epoch <= len(epochs)):
        raise ValueError(f"best_epoch should be one of {len(epochs)} epochs, got {checks.shown(best_epoch)}")
    return History(epochs, best_epoch, checks.flag("stopped_early", stopped_early))
