"""How often intervals hold the target, how wide they are, and both in one score."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from torchnpn.metrics.checks import Array, matching, numbers, require, saturated


def interval_coverage(low: ArrayLike, high: ArrayLike, y: ArrayLike) -> float:
    """Share of y within [low, high]."""
    low, high, y = matching("interval_coverage", low=low, high=high, y=y)
    return float(np.mean((low <= y) & (high >= y)))


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


def _ordered(metric: str, low: ArrayLike, high: ArrayLike) -> Array:
    """Widths of intervals whose ends are in order."""
    low, high = matching(metric, low=low, high=high)
    with np.errstate(over="ignore", invalid="ignore"):
        width = np.where(low == high, 0.0, high - low)
    require(metric, width >= 0, "high - low", width, ">= 0")
    both_finite = np.isfinite(low) & np.isfinite(high)
    return np.asarray(np.where(both_finite, saturated(width), width))
