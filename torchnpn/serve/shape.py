"""A predictive distribution as points to draw."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchnpn.estimators import Predictive

Array = NDArray[Any]
_POINTS, _TAIL = 161, 0.001
_MOST_COUNTS = 400


def shape(predicted: Predictive, whole: bool) -> dict[str, Any]:
    """The distribution of one row: a density, with the probability of exactly 0, or probabilities of whole numbers."""
    low, high = (float(predicted.quantile(q)[0]) for q in (_TAIL, 1 - _TAIL))
    if whole and high - low < _MOST_COUNTS:
        x = np.arange(math.floor(low), math.ceil(high) + 1.0)
        return {"kind": "counts", "x": x.tolist(), "y": _at(predicted, x).tolist()}
    at_zero = float(predicted.cdf(0.0)[0]) if low == 0 else 0.0
    if high <= low:
        return {"kind": "density", "x": [], "y": [], "zero": at_zero}
    x = np.linspace(low, high, _POINTS)[1 if at_zero else 0 :]  # at 0 itself there is a probability, and no density
    return {"kind": "density", "x": x.tolist(), "y": _at(predicted, x).tolist(), "zero": at_zero}


def _at(predicted: Predictive, x: Array) -> Array:
    return np.exp(predicted[np.zeros(len(x), np.int64)].log_prob(x))
