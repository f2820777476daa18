"""How good predictions are, and how well they know it; arrays in, numbers out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]


def rmse(prediction: ArrayLike, target: ArrayLike) -> float:
    """Root of the mean squared difference."""
    return float(np.sqrt(np.mean(np.subtract(prediction, target) ** 2)))


def gaussian_nll(mean: ArrayLike, std: ArrayLike, y: ArrayLike) -> float:
    """Mean of -log N(y; mean, std²) = ½ z² + log std + ½ log 2π with z = (y - mean)/std, in nats."""
    z = np.subtract(y, mean) / np.asarray(std)
    return float(np.mean(0.5 * z**2 + np.log(std)) + 0.5 * np.log(2 * np.pi))


def categorical_nll(probs: ArrayLike, labels: ArrayLike) -> float:  # (rows, classes), (rows,)
    """Mean of -log p(label), in nats; infinite where a label has probability zero."""
    with np.errstate(divide="ignore"):
        return float(-np.mean(np.log(np.take_along_axis(np.asarray(probs), np.asarray(labels)[:, None], 1))))


def interval_coverage(low: ArrayLike, high: ArrayLike, y: ArrayLike) -> float:
    """Share of y within [low, high]."""
    return float(np.mean((np.asarray(low) <= y) & (np.asarray(high) >= y)))


class AccuracyByUncertainty(NamedTuple):
    """Rows in equal groups, from the most certain to the least."""

    accuracy: Array  # of each group
    error: Array  # standard error of each accuracy, Wilson's: not zero where a group is all right
    uncertainty: Array  # mean of each group
    rows: Array  # how many in each group


def accuracy_by_uncertainty(correct: ArrayLike, uncertainty: ArrayLike, groups: int = 9) -> AccuracyByUncertainty:
    """Accuracy in groups of about equal size, by rising uncertainty (paper, Section 4.2; there 9 groups).

    Args:
        correct: (rows,) whether each prediction is right.
        uncertainty: (rows,) one number for each prediction; only its order matters.
        groups: Number of groups.
    """
    right, doubt = np.asarray(correct, dtype=float), np.asarray(uncertainty, dtype=float)
    if not 1 <= groups <= right.size:
        raise ValueError(f"accuracy_by_uncertainty expects groups from 1 to {right.size} (rows), got {groups}.")
    parts = np.array_split(np.argsort(doubt, kind="stable"), groups)
    count = np.array([len(part) for part in parts])
    accuracy = np.array([right[part].mean() for part in parts])
    error = np.sqrt(accuracy * (1 - accuracy) / count + 1 / (4 * count**2)) / (1 + 1 / count)
    return AccuracyByUncertainty(accuracy, error, np.array([doubt[part].mean() for part in parts]), count)


class RiskCoverage(NamedTuple):
    """Error rate among the predictions that are kept when the most uncertain ones are handed to somebody else."""

    coverage: Array  # share kept: 1/rows, 2/rows, …, 1
    risk: Array  # error rate among them

    @property
    def area(self) -> float:
        """Mean risk over all shares: small where errors are few and come last."""
        return float(self.risk.mean())


def risk_coverage(correct: ArrayLike, uncertainty: ArrayLike) -> RiskCoverage:
    """Error rate of the k most certain predictions, for every k."""
    right = np.asarray(correct, dtype=float)[np.argsort(uncertainty, kind="stable")]
    kept = np.arange(1, right.size + 1)
    return RiskCoverage(kept / right.size, np.cumsum(1 - right) / kept)
