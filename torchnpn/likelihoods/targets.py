"""Targets where they enter: which a likelihood can have produced, and the units in which a network learns them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.constraints import Constraint

from torchnpn.families import checks

Array = NDArray[Any]
_QUARTILE = 0.6744897501960817  # of the standard normal distribution
_LEAST_MEAN = 1e-3  # whose logarithm is a start: all counts may be zero


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


class Units(NamedTuple):
    """y = shift + scale · t, with t what the network learns, so that it starts well whatever the user's units are."""

    shift: Array  # (targets,)
    scale: Array  # (targets,), > 0


def standardised(y: Array, weight: Array | None) -> Units:
    """t has mean 0 and variance 1."""
    mean = np.average(y, axis=0, weights=weight)
    farthest = np.abs(y - mean).max(0)
    unit = np.where(farthest > 0, farthest, 1.0)  # squares of the numbers themselves may overflow
    std = unit * np.sqrt(np.average(((y - mean) / unit) ** 2, axis=0, weights=weight))
    rounding = 1e-12 * np.abs(mean)  # what it leaves of a constant target is no spread
    return Units(mean, np.where(std > rounding, std, np.maximum(1.0, rounding)))


def robust(y: Array, weight: Array | None) -> Units:
    """t has median 0, and half of it lies within ±0.6745, as of a Gaussian with variance 1.

    Where half of the numbers are one and the same, the mean distance from the median takes the place of the quartiles'.
    """
    low, median, high = (_quantile(y, q, weight) for q in (0.25, 0.5, 0.75))
    spread = (high - low) / (2 * _QUARTILE)
    away = np.average(np.abs(y - median), axis=0, weights=weight)
    rounding = 1e-12 * np.abs(median)  # what it leaves of a constant target is no spread
    spread = np.where(spread > rounding, spread, away)
    return Units(median, np.where(spread > rounding, spread, np.maximum(1.0, rounding)))


def relative(y: Array, weight: Array | None) -> Units:
    """t has mean 1, and zero stays zero."""
    mean = np.average(y, axis=0, weights=weight)
    return Units(np.zeros_like(mean), np.where(mean > 0, mean, 1.0))


def unchanged(y: Array, weight: Array | None) -> Units:
    """t is y."""
    return Units(np.zeros(y.shape[1]), np.ones(y.shape[1]))


def log_of_mean(y: Array, weight: Array | None) -> Array:
    """Where a latent log mean starts."""
    logs: Array = np.log(np.maximum(np.average(y, axis=0, weights=weight), _LEAST_MEAN))
    return logs


def _quantile(y: Array, q: float, weight: Array | None) -> Array:  # (rows, targets) -> (targets,)
    """The smallest number with at least the share q of the weight up to it."""
    order = np.argsort(y, axis=0, kind="stable")
    weights = np.ones(len(y)) if weight is None else weight
    reached = np.cumsum(weights[order], axis=0)  # (rows, targets)
    first = (reached >= q * reached[-1]).argmax(0)
    found: Array = np.take_along_axis(y, np.take_along_axis(order, first[None], 0), 0)[0]
    return found
