"""Errors of point predictions and of predicted densities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from torchnpn.metrics.checks import Array, classified, finite, require, saturated


def rmse(prediction: ArrayLike, target: ArrayLike) -> float:
    """Root of the mean squared difference."""
    prediction, target = finite("rmse", prediction=prediction, target=target)
    with np.errstate(over="ignore"):
        error = saturated(prediction - target)
        scale = np.abs(error).max()  # its square may overflow
        return float(saturated(scale * np.sqrt(np.mean((error / scale) ** 2)))) if scale > 0 else 0.0


def gaussian_nll(mean: ArrayLike, std: ArrayLike, y: ArrayLike) -> float:
    """Mean of -log N(y; mean, std²) = ½ z² + log std + ½ log 2π with z = (y - mean)/std, in nats."""
    mean, std, y = finite("gaussian_nll", mean=mean, std=std, y=y)
    require("gaussian_nll", std > 0, "std", std, "> 0")
    with np.errstate(over="ignore"):
        z = saturated(y - mean) / std
        rows = saturated(0.5 * z**2) / z.size + np.log(std) / z.size
        return float(saturated(rows.sum() + 0.5 * np.log(2 * np.pi)))


def categorical_nll(probs: ArrayLike, labels: ArrayLike) -> float:  # (rows, classes), (rows,)
    """Mean of -log p(label), in nats; infinite where a label has probability zero."""
    p, label = classified("categorical_nll", probs, labels)
    with np.errstate(divide="ignore"):
        return float(-np.mean(np.log(np.take_along_axis(p, label[:, None], 1))))


def brier_score(probs: ArrayLike, labels: ArrayLike) -> Array:  # (rows, classes), (rows,) -> (rows,)
    """Σ_k (p_k - 1{k = label})² of each row: 0 for a certain right answer, 2 for a certain wrong one.

    Two classes give twice the score of scikit-learn's `brier_score_loss`, which counts one class.
    """
    p, label = classified("brier_score", probs, labels)
    return np.asarray(np.sum((p - np.eye(p.shape[1])[label]) ** 2, axis=1))
