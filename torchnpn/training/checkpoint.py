"""Checkpoints: written beside and renamed, so that a kill at any moment leaves a whole file or the one before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

SECONDS = 1.0  # between two checkpoints, at least


def write(path: Path, state: dict[str, Any]) -> None:
    """Store tensors and plain values under `path`, atomically."""
    beside = path.with_name(f"{path.name}.tmp")  # what a kill leaves here, the next write takes away
    torch.save(state, beside)
    os.replace(beside, path)


def read(path: Path, fingerprint: dict[str, Any]) -> dict[str, Any] | None:
    """The state stored under `path`, or None where there is none; never executes code.

    Raises:
        ValueError: If the file is no checkpoint, or belongs to another training.
    """
    if not path.exists():
        return None
    try:
        state = torch.load(path, weights_only=True)
        stored = state["fingerprint"]
    except Exception as error:  # torch.load fails in many ways on a foreign file
        raise ValueError(f"{path} is not a checkpoint of train. Delete it, or choose another path.") from error
    if stored != fingerprint:
        different = ", ".join(key for key in fingerprint if stored.get(key) != fingerprint[key])
        raise ValueError(
            f"{path} belongs to another training: {different} changed. Delete it to start anew, or choose another path."
        )
    return state  # type: ignore[no-any-return]
