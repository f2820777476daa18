"""Checks where targets enter: what a likelihood says to targets that it cannot have produced."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.constraints import Constraint

from torchnpn.families import checks


class SupportWords(NamedTuple):
    """What targets on a support must be, and what to do about others."""

    targets: str  # "expects targets …"
    numbers: str  # the same of a column of numbers, for those who see no formulas
    hint: str


WORDS = {
    constraints.real: SupportWords("that are finite", "numbers", "Drop rows without a target."),
    constraints.positive: SupportWords(
        "> 0",
        "numbers above 0",
        "Targets of any sign need a Gaussian likelihood; zeros need one for counts, or a hurdle beside amounts.",
    ),
    constraints.nonnegative: SupportWords(
        "≥ 0", "numbers from 0", "Targets of any sign need a Gaussian or a Student-t likelihood."
    ),
    constraints.nonnegative_integer: SupportWords(
        "that are counts 0, 1, 2, …",
        "whole numbers from 0",
        "Amounts that are not whole numbers need a gamma likelihood.",
    ),
    constraints.unit_interval: SupportWords(
        "in (0, 1)",
        "numbers above 0 and below 1",
        "Scale them into the unit interval; move exact zeros and ones inside, e.g. (y (n - 1) + 0.5) / n.",
    ),
    constraints.boolean: SupportWords("0 or 1", "0 and 1", "More than two classes need a softmax likelihood."),
}


def words_of_support(support: Constraint) -> SupportWords:
    return WORDS.get(support, SupportWords(f"in {support}", f"numbers in {support}", ""))


def in_support(y: Tensor, support: Constraint) -> Tensor:
    """Which finite numbers lie in a support; proportions of exactly 0 and 1 have no beta density."""
    valid: Tensor = (y > 0) & (y < 1) if support is constraints.unit_interval else support.check(y)
    return valid & y.isfinite()


def check(name: str, y: Tensor, support: Constraint) -> None:
    """Raise unless `y` is a tensor (…, batch, targets) of finite numbers in the support."""
    _check_tensor(name, y)
    if y.ndim < 2:
        raise ValueError(
            f"{name} expects targets of shape (batch, targets), got {tuple(y.shape)}. For one target write y[:, None]."
        )
    if y.is_complex():
        raise TypeError(f"{name} expects real targets, got {y.dtype}.")
    words = words_of_support(support)
    checks.require(y.isfinite(), y, f"{name} expects finite targets", WORDS[constraints.real].hint)
    checks.require(in_support(y, support), y, f"{name} expects targets {words.targets}", words.hint)


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
