"""Checks where targets enter: what a likelihood says to targets that it cannot have produced."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.constraints import Constraint

from torchnpn.families import checks


class Kind(NamedTuple):
    """What targets on a support must be, in words, and what to do about others."""

    words: str
    hint: str


KINDS = {
    constraints.real: Kind("that are finite", "Drop rows without a target."),
    constraints.positive: Kind("> 0", "Targets of any sign need a Gaussian likelihood; zeros need one for counts."),
    constraints.nonnegative_integer: Kind(
        "that are counts 0, 1, 2, …", "Amounts that are not whole numbers need a gamma likelihood."
    ),
    constraints.unit_interval: Kind(
        "in (0, 1)", "Scale them into the unit interval; move exact zeros and ones inside, e.g. (y (n - 1) + 0.5) / n."
    ),
    constraints.boolean: Kind("0 or 1", "More than two classes need a softmax likelihood."),
}


def check(name: str, y: Tensor, support: Constraint) -> None:
    """Raise unless `y` is a tensor (…, batch, targets) of finite numbers in the support."""
    _check_tensor(name, y)
    if y.ndim < 2:
        raise ValueError(
            f"{name} expects targets of shape (batch, targets), got {tuple(y.shape)}. For one target write y[:, None]."
        )
    if y.is_complex():
        raise TypeError(f"{name} expects real targets, got {y.dtype}.")
    kind = KINDS.get(support, Kind(f"in {support}", ""))
    checks.require(y.isfinite(), y, f"{name} expects finite targets", KINDS[constraints.real].hint)
    valid = (y > 0) & (y < 1) if support is constraints.unit_interval else support.check(y)
    checks.require(valid, y, f"{name} expects targets {kind.words}", kind.hint)


def check_labels(name: str, y: Tensor, classes: int) -> None:
    """Raise unless `y` is a tensor (…, batch) of integers from 0 to classes - 1."""
    _check_tensor(name, y)
    if y.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        raise TypeError(
            f"{name} expects integer class labels, got {y.dtype}. Number the classes from 0 and convert with .long()."
        )
    if y.ndim < 1:
        raise ValueError(f"{name} expects labels of shape (batch,), got a single number. Write y[None].")
    valid = (y >= 0) & (y < classes)
    checks.require(valid, y, f"{name} expects labels from 0 to {classes - 1}", "Number the classes from 0.")


def _check_tensor(name: str, y: Tensor) -> None:
    if not isinstance(y, Tensor):
        raise TypeError(f"{name} expects targets as a tensor, got {type(y).__name__}. Convert with torch.as_tensor(y).")
