"""The units in which a network learns a target, so that it starts well whatever the user's units are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


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


def relative(y: Array, weight: Array | None) -> Units:
    """t has mean 1, and zero stays zero."""
    mean = np.average(y, axis=0, weights=weight)
    return Units(np.zeros_like(mean), np.where(mean > 0, mean, 1.0))


def unchanged(y: Array, weight: Array | None) -> Units:
    """t is y."""
    return Units(np.zeros(y.shape[1]), np.ones(y.shape[1]))
