"""How well predictions do: figures of one split of one table. Less is better, but for the coverage."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npn_studies.tabular.predictions import Prediction

Array = NDArray[Any]
LEVEL = 0.9  # of intervals
_LEAST = 1e-12  # probability that a class is given at the least
_MOST = 1e4  # that one row may cost


def of_numbers(prediction: Prediction, y: Array) -> dict[str, float]:
    """Negative log-likelihood, CRPS, interval score, RMSE and coverage."""
    low, high = prediction.interval(LEVEL)
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return {
        "nll": float(-np.maximum(prediction.log_prob(y), -_MOST).mean()),
        "crps": float(prediction.crps(y).mean()),
        "interval": float((high - low + 2 / (1 - LEVEL) * outside).mean()),
        "rmse": float(np.sqrt(((prediction.mean - y) ** 2).mean())),
        "coverage": float(((low <= y) & (y <= high)).mean()),
    }


def of_classes(probs: Array, y: Array) -> dict[str, float]:
    """Log loss, share of wrong answers and Brier score."""
    p = np.clip(probs, _LEAST, 1)
    p = p / p.sum(1, keepdims=True)
    return {
        "nll": float(-np.log(p[np.arange(len(y)), y]).mean()),
        "error": float((p.argmax(1) != y).mean()),
        "brier": float(((p - np.eye(p.shape[1])[y]) ** 2).sum(1).mean()),
    }
