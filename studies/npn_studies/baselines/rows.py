"""What a baseline is trained on: rows of inputs and targets, checked, on the device."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from npn_studies.baselines.replicas import Replicas
from npn_studies.baselines.tasks import Task


class Rows(NamedTuple):
    """Inputs (replicas, rows, inputs), targets (replicas, rows, 1) or labels (replicas, rows), and who learns them."""

    x: Tensor
    y: Tensor
    replicas: Replicas

    @property
    def size(self) -> int:
        """How many rows each replica has."""
        return self.x.shape[1]

    def batch(self, numbers: Tensor) -> tuple[Tensor, Tensor]:  # (networks, batch)
        """Inputs and targets of these rows, for each network."""
        return self.replicas.rows(self.x, numbers), self.replicas.rows(self.y, numbers)


def training_rows(x: Tensor, y: Tensor, task: Task, device: str, members: int = 1) -> Rows:
    """Inputs and targets on the device; without a leading dimension they are one replica.

    Raises:
        ValueError: If they are not rows of finite numbers with a target of the task for each.
    """
    if x.dim() not in (2, 3) or not x.is_floating_point() or x.numel() == 0 or not distinct(x).isfinite().all():
        raise ValueError(
            "fit expects finite floating-point x (rows, inputs) or (replicas, rows, inputs), at least one row; got "
            f"{x.dtype} of shape {tuple(x.shape)}. Fill in missing values first."
        )
    task.check(y, tuple(x.shape[:-1]))
    leading = x.dim() == 3
    if not leading:
        x, y = x[None], y[None]
    each = torch.arange(len(x), device=device).repeat(members)
    y = moved(y, device, x.dtype if y.is_floating_point() else y.dtype)
    return Rows(moved(x, device, x.dtype), y, Replicas(len(x), members, each, x.dtype, leading))


def distinct(t: Tensor) -> Tensor:
    """`t`, or its first part where an expanded first dimension repeats that."""
    return t[:1] if t.stride(0) == 0 else t


def moved(t: Tensor, device: str | torch.device, dtype: torch.dtype) -> Tensor:
    """`t` on the device; an expanded first dimension is not copied."""
    return distinct(t).to(device, dtype).expand_as(t)
