"""The units in which a network learns a target, so that it starts well whatever the user's units are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_QUARTILE = 0.6744897501960817  # of the standard normal distribution


class Units(NamedTuple):
    """y = shift + scale · t, with t what the network learns."""

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


def _quantile(y: Array, q: float, weight: Array | None) -> Array:  # (rows, targets) -> (targets,)
    """The smallest number with at least the share q of the weight up to it."""
    order = np.argsort(y, axis=0, kind="stable")
    weights = np.ones(len(y)) if weight is None else weight
    reached = np.cumsum(weights[order], axis=0)  # (rows, targets)
    first = (reached >= q * reached[-1]).argmax(0)
    found: Array = np.take_along_axis(y, np.take_along_axis(order, first[None], 0), 0)[0]
    return found
