"""How often intervals hold the target, overall and by group, how wide they are, and both in one score; quantiles."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from torchnpn.metrics.checks import Array, columns, matching, numbers, require, saturated

_Z = 1.6449  # standard normal quantile of 0.95


def interval_coverage(low: ArrayLike, high: ArrayLike, y: ArrayLike) -> float:
    """Share of y within [low, high]."""
    low, high, y = matching("interval_coverage", low=low, high=high, y=y)
    return float(np.mean((low <= y) & (high >= y)))


class CoverageByGroup(NamedTuple):
    """Share of targets in their intervals for each group of rows, with the rows that it is of."""

    group: Array  # in order
    coverage: Array
    low: Array  # ends of a 90% interval of the share that more rows would show, by Wilson's formula
    high: Array
    rows: Array


def coverage_by_group(y: ArrayLike, low: ArrayLike, high: ArrayLike, group: ArrayLike) -> CoverageByGroup:
    """Share of y within [low, high] in each group: intervals that are right on average may fail for some of the rows.

    Args:
        y: (rows,) targets.
        low: (rows,) lower ends.
        high: (rows,) upper ends.
        group: (rows,) which group each row is in: text, numbers or truth values.
    """
    y, low, high = columns("coverage_by_group", y=y, low=low, high=high)
    labels = np.asarray(group)
    if labels.shape != y.shape:
        raise ValueError(
            f"coverage_by_group expects a group for each row, shape {y.shape}, got group of shape {labels.shape}."
        )
    groups, place = np.unique(labels, return_inverse=True)
    rows = np.bincount(place)
    share = np.bincount(place, (low <= y) & (high >= y)) / rows
    half = np.sqrt(share * (1 - share) / rows + (_Z / (2 * rows)) ** 2)
    middle, shrunk = share + _Z**2 / (2 * rows), 1 + _Z**2 / rows
    return CoverageByGroup(groups, share, (middle - _Z * half) / shrunk, (middle + _Z * half) / shrunk, rows)


def interval_width(low: ArrayLike, high: ArrayLike) -> float:
    """Mean of high - low."""
    width = _ordered("interval_width", low, high)
    return float((width / width.size).sum())  # a sum of widths may overflow


def interval_score(low: ArrayLike, high: ArrayLike, y: ArrayLike, level: float = 0.9) -> Array:
    """Winkler's score of each row: (high - low) + (2/α) · distance of y from [low, high], with α = 1 - level.

    Small for narrow intervals that hold y. Its mean is least where low and high are the α/2 and 1 - α/2 quantiles.

    Args:
        low: Lower ends.
        high: Upper ends.
        y: Targets.
        level: Share of targets that the intervals are meant to hold, between 0 and 1.
    """
    require("interval_score", np.array(0 < level < 1), "level", numbers("interval_score", "level", level), "in (0, 1)")
    low, high, y = matching("interval_score", low=low, high=high, y=y)
    width = _ordered("interval_score", low, high)
    with np.errstate(over="ignore"):
        outside = np.where(y < low, low - y, np.where(y > high, y - high, 0.0))
        return np.asarray(np.where(np.isinf(width), width, saturated(width + 2 / (1 - level) * outside)))


def pinball(quantile: ArrayLike, y: ArrayLike, level: float) -> Array:
    """Loss of each row's quantile of one level q: q (y - quantile) where y is above, (1 - q) (quantile - y) below.

    Its mean is least at the true quantile. Twice its mean over all levels is the CRPS.

    Args:
        quantile: Predicted quantiles.
        y: Targets.
        level: Of the quantiles, from 0 to 1.
    """
    require("pinball", np.array(0 <= level <= 1), "level", numbers("pinball", "level", level), "in [0, 1]")
    quantile, y = matching("pinball", quantile=quantile, y=y)
    with np.errstate(over="ignore"):
        return np.asarray(saturated(np.where(y >= quantile, level * (y - quantile), (1 - level) * (quantile - y))))


def _ordered(metric: str, low: ArrayLike, high: ArrayLike) -> Array:
    """Widths of intervals whose ends are in order."""
    low, high = matching(metric, low=low, high=high)
    with np.errstate(over="ignore", invalid="ignore"):
        width = np.where(low == high, 0.0, high - low)
    require(metric, width >= 0, "high - low", width, ">= 0")
    both_finite = np.isfinite(low) & np.isfinite(high)
    return np.asarray(np.where(both_finite, saturated(width), width))
