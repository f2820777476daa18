"""Whether stated probabilities are the observed shares: of classes by confidence, of targets by quantile level."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from torchnpn.metrics.checks import Array, at_most, classified, columns, require

_ROUNDING = 1e-6  # far in a tail two float32 values of a distribution function may be out of order by so much


class Reliability(NamedTuple):
    """Rows in equally wide bins of their confidence, the probability of the predicted class."""

    confidence: Array  # mean of each bin; NaN where a bin is empty
    accuracy: Array  # share of right answers in each bin; NaN where a bin is empty
    rows: Array  # how many in each bin


def reliability(probs: ArrayLike, labels: ArrayLike, bins: int = 15) -> Reliability:
    """Confidence and accuracy in bins (0, 1/bins], (1/bins, 2/bins], …

    Args:
        probs: (rows, classes) probabilities.
        labels: (rows,) true classes, from 0.
        bins: Number of bins.
    """
    p, label = classified("reliability", probs, labels)
    at_most("reliability", "bins", bins)
    confidence, right = p.max(axis=1), p.argmax(axis=1) == label
    bin_of = np.digitize(confidence, np.linspace(0, 1, bins + 1)[1:-1], right=True)
    rows = np.bincount(bin_of, minlength=bins)
    with np.errstate(invalid="ignore"):  # 0/0 = NaN says that a bin is empty
        mean_confidence = np.bincount(bin_of, confidence, bins) / rows
        return Reliability(mean_confidence, np.bincount(bin_of, right, bins) / rows, rows)


def calibration_error(probs: ArrayLike, labels: ArrayLike, bins: int = 15) -> float:
    """Expected calibration error of the predicted class: Σ_b (rows_b/rows) · |accuracy_b - confidence_b|."""
    confidence, accuracy, rows = reliability(probs, labels, bins)
    return float(np.nansum(rows * np.abs(accuracy - confidence)) / rows.sum())


class CalibrationCurve(NamedTuple):
    """How many targets lie below their predicted quantiles; a calibrated model has observed = expected."""

    expected: Array  # levels from 0 to 1
    observed: Array  # share of targets at or below the quantile of that level


def calibration_curve(pit: ArrayLike, levels: int = 100) -> CalibrationCurve:
    """Share of PIT values F(y) at or below each of the levels 0, 1/levels, 2/levels, …, 1.

    Args:
        pit: (rows,) predicted distribution function at each target, e.g. `predictive.cdf(y)`; for counts from
            `pit_for_counts`, because F(y) of a calibrated count is not uniform.
        levels: Number of steps from 0 to 1.
    """
    (u,) = columns("calibration_curve", pit=pit)
    require("calibration_curve", (u >= 0) & (u <= 1), "pit", u, "from 0 to 1")
    at_most("calibration_curve", "levels", levels)
    expected = np.linspace(0, 1, levels + 1)
    return CalibrationCurve(expected, np.searchsorted(np.sort(u), expected, side="right") / u.size)


def regression_calibration_error(pit: ArrayLike, levels: int = 100) -> float:
    """Mean of |observed - expected| along the calibration curve: 0 where calibrated, near ½ at worst.

    For n rows of a calibrated model it is about 0.31/√n, by chance alone.
    """
    expected, observed = calibration_curve(pit, levels)
    return float(np.mean(np.abs(observed - expected)))


def pit_for_counts(
    cdf_below: ArrayLike, cdf_at: ArrayLike, random_state: int | np.random.Generator | None = None
) -> Array:
    """Randomised PIT values F(y - 1) + v · (F(y) - F(y - 1)), v uniform on [0, 1): uniform for calibrated counts.

    Args:
        cdf_below: (rows,) P(count < y) = F(y - 1).
        cdf_at: (rows,) P(count ≤ y) = F(y).
        random_state: Seed or generator of v.
    """
    below, at = columns("pit_for_counts", cdf_below=cdf_below, cdf_at=cdf_at)
    in_order = (below >= 0) & (below <= at + _ROUNDING) & (below <= 1)
    require("pit_for_counts", in_order, "cdf_below", below, "from 0 to cdf_at")
    require("pit_for_counts", at <= 1, "cdf_at", at, "<= 1")
    v = np.random.default_rng(random_state).random(at.size)
    return np.asarray(below + v * (at - below))
