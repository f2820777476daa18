"""Continuous ranked probability score of Gaussians, row by row: ∫ (F(x) - 1{y ≤ x})² dx = E|X - y| - ½ E|X - X'|.

It is in the units of y, and the absolute error of a certain prediction; smaller is better. Other distributions know
their own: `families.Gamma(c, d).crps(y)`, `Predictive.crps(y)`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from torchnpn.metrics.checks import Array, finite, numbers, require, saturated

_TINY = np.finfo(np.float64).smallest_subnormal
_ROOT_PI = np.sqrt(np.pi)


def crps_gaussian(mean: ArrayLike, std: ArrayLike, y: ArrayLike) -> Array:
    """CRPS of N(mean, std²): std · (z (2Φ(z) - 1) + 2φ(z) - 1/√π) with z = (y - mean)/std."""
    mean, std, y = finite("crps_gaussian", mean=mean, std=std, y=y)
    require("crps_gaussian", std > 0, "std", std, "> 0")
    return normal_crps(mean, std, y)


def crps_mixture_gaussian(means: ArrayLike, stds: ArrayLike, y: ArrayLike) -> Array:
    """CRPS of an equal mixture of Gaussians, e.g. of an ensemble.

    With A(d, s) = E|d + s Z| for a standard normal Z it is mean A(y - m_k, s_k) - ½ mean A(m_k - m_l, √(s_k² + s_l²)),
    the second mean over all pairs of members.

    Args:
        means: (members, rows) means.
        stds: (members, rows) standard deviations.
        y: (rows,) targets.
    """
    y = numbers("crps_mixture_gaussian", "y", y)
    means, stds, _ = finite("crps_mixture_gaussian", means=means, stds=stds, y=y)
    require("crps_mixture_gaussian", stds > 0, "stds", stds, "> 0")
    if means.ndim != y.ndim + 1:
        raise ValueError(f"crps_mixture_gaussian expects means (members, rows), got {means.shape} for y {y.shape}.")
    return normal_mixture_crps(means, stds, y, np.full((len(means), *[1] * y.ndim), 1 / len(means)))


def normal_crps(mean: Array, std: Array, y: Array) -> Array:
    """CRPS of N(mean, std²), std ≥ 0, of arguments that have been checked."""
    with np.errstate(over="ignore"):
        return _score(_mean_distance(saturated(y - mean), std) - std / _ROOT_PI)


def normal_mixture_crps(means: Array, stds: Array, y: Array, weights: Array) -> Array:
    """The same with weights (members, 1, …) and std ≥ 0, of arguments that have been checked."""
    with np.errstate(over="ignore"):
        to_y = (weights * _mean_distance(y - means, stds)).sum(0)
        apart = np.zeros(np.broadcast_shapes(means.shape[1:], y.shape))
        for mean, std, w in zip(means, stds, weights, strict=True):  # pairs of one member at a time: not all at once
            apart += w * (weights * _mean_distance(mean - means, np.hypot(std, stds))).sum(0)
        return _score(to_y - 0.5 * apart)


def _mean_distance(d: Array, std: Array) -> Array:
    """E|d + std Z| = d (2Φ(z) - 1) + 2 std φ(z), z = d/std: |d| itself far out."""
    with np.errstate(over="ignore"):
        z = np.clip(d / np.maximum(std, _TINY), -40, 40)
        return np.asarray(d * (special.ndtr(z) - special.ndtr(-z)) + std * (np.exp(-0.5 * z * z) * np.sqrt(2 / np.pi)))


def _score(values: Array) -> Array:
    """A score is never negative, and saturates at the largest number."""
    return np.asarray(np.clip(values, 0.0, np.finfo(np.float64).max))
