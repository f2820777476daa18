"""Continuous ranked probability score of each row: ∫ (F(x) - 1{y ≤ x})² dx = E|X - y| - ½ E|X - X'|.

It is in the units of y, and the absolute error of a certain prediction; smaller is better. All are in closed form or
have a fixed number of terms. Where a distribution is normal to more digits than the difference of large numbers in its
closed form would leave, the score is that of the normal distribution.

The score of an equal mixture is the mean of its members' scores less what they disagree on: with V(x) the variance of
F_k(x) over the members k,  ∫ (mean F_k - 1{y ≤ x})² dx = mean ∫ (F_k - 1{y ≤ x})² dx - ∫ V(x) dx.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from torchnpn.metrics.checks import Array, finite, numbers, require, saturated

_STEP, _REACH = 1 / 8, 37.0  # of the trapezoid rule in log t: errors e^(-π²/2 / step) and e^-reach, below 1e-15
_ROWS_AT_ONCE = 4096  # 600 nodes each: 20 MB
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_TERMS = 512  # of a sum over counts; more of them are taken in blocks
_NORMAL = 1e12  # a gamma or beta variable of larger shapes is normal to six digits
_LIMIT = 1e15  # ratio of parameters from which on one distribution is another to all digits


def crps_gaussian(mean: ArrayLike, std: ArrayLike, y: ArrayLike) -> Array:
    """CRPS of N(mean, std²): std · (z (2Φ(z) - 1) + 2φ(z) - 1/√π) with z = (y - mean)/std."""
    mean, std, y = finite("crps_gaussian", mean=mean, std=std, y=y)
    require("crps_gaussian", std > 0, "std", std, "> 0")
    return _normal(mean, std, y)


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
    members = len(means)
    with np.errstate(over="ignore"):
        to_y = (_mean_distance(y - means, stds) / members).sum(0)
        apart = np.zeros(means.shape[1:])
        for mean, std in zip(means, stds, strict=True):  # pairs of one member at a time: no array of all pairs
            apart += (_mean_distance(mean - means, np.hypot(std, stds)) / members).sum(0) / members
        return _score(to_y - 0.5 * apart)


def crps_gamma(shape: ArrayLike, rate: ArrayLike, y: ArrayLike) -> Array:
    """CRPS of gamma(c, d), c the shape: y (2F_c(y) - 1) - (c/d)(2F_(c+1)(y) - 1) - 1/(d B(½, c))."""
    c, d, y = finite("crps_gamma", shape=shape, rate=rate, y=y)
    for name, value in (("shape", c), ("rate", d)):
        require("crps_gamma", value > 0, name, value, "> 0")
    return _gamma(c, d, y)


def crps_beta(c: ArrayLike, d: ArrayLike, y: ArrayLike) -> Array:
    """CRPS of beta(c, d): y (2F_c(y) - 1) - m (2F_(c+1)(y) - 1) - ½ E|X - X'|, with m = c/(c + d).

    ½ E|X - X'| = (c)_½ (d)_½ / (√π (c + d) (c + d)_½), where (x)_½ = Γ(x + ½)/Γ(x): Legendre's duplication formula in
    2 B(2c, 2d)/((c + d) B(c, d)²), which is 0/0 in floating point for c + d ≥ 600.
    """
    c, d, y = finite("crps_beta", c=c, d=d, y=y)
    for name, value in (("c", c), ("d", d)):
        require("crps_beta", value > 0, name, value, "> 0")
    with np.errstate(all="ignore"):
        near_zero, near_one = d > _LIMIT * np.maximum(c, 1), c > _LIMIT * np.maximum(d, 1)
        n = 0.5 * c + 0.5 * d  # half of the sum, which may overflow
        mean, rest = 0.5 * c / n, 0.5 * d / n
        std = np.sqrt(mean) * np.sqrt(rest) / np.sqrt(2 * n + 1)
        score = _beta(np.minimum(c, _NORMAL), np.minimum(d, _NORMAL), y)
        score = np.where(np.minimum(c, d) > _NORMAL, _normal(mean, np.maximum(std, _TINY), y), score)
        score = np.where(near_zero, _gamma(c, d, y), score)
        return np.asarray(np.where(near_one, _gamma(d, c, 1 - y), score))


def crps_negative_binomial(n: ArrayLike, p: ArrayLike, y: ArrayLike) -> Array:
    """CRPS of `families.NegativeBinomial(n, p)`, p the probability of a success (scipy's is 1 - p).

    E|X - y| = y (2F_n(y) - 1) - m (2F_(n+1)(y - 1) - 1), with m = n p/(1 - p) and 1 - F_n(k) = I_p(k + 1, n), which
    keeps the digits of a small p: with n = 10⁸ the distribution is nearly Poisson, from 10¹⁵ on it is.

    Args:
        n: Number of failures, > 0, not only whole numbers.
        p: Probability of a success, in [0, 1).
        y: Counts.
    """
    n, p, y = finite("crps_negative_binomial", n=n, p=p, y=y)
    require("crps_negative_binomial", n > 0, "n", n, "> 0")
    require("crps_negative_binomial", (p >= 0) & (p < 1), "p", p, "in [0, 1)")
    require("crps_negative_binomial", (y >= 0) & (y == np.floor(y)), "y", y, "to be counts 0, 1, 2, …")
    with np.errstate(all="ignore"):
        mean = saturated(n * (p / (1 - p)))
        is_poisson, is_normal = (n > _LIMIT) & (mean < n / _LIMIT), (n > _NORMAL) & (mean > _NORMAL)
        plain = ~(is_poisson | is_normal)
        n_, p_, m_ = np.where(plain, n, 1.0), np.where(plain, p, 0.0), np.where(is_poisson, mean, 1.0)
        above = np.where(plain, special.betainc(y + 1, n_, p_), special.gammainc(y + 1, m_))
        next_ = np.where(plain, special.betainc(np.maximum(y, 1), n_ + 1, p_), special.gammainc(np.maximum(y, 1), m_))
        to_y = y * (1 - 2 * above) - mean * (1 - 2 * np.where(y > 0, next_, 1.0))
        counts = _score(to_y - _negative_binomial_half_spread(n, p))
        std = np.sqrt(mean) * np.sqrt(1 + mean / n)
        return np.asarray(np.where(is_normal, _normal(mean, np.maximum(std, _TINY), y), counts))


def crps_mixture(scores: ArrayLike, cdf: Callable[[Array], Array], breaks: ArrayLike) -> Array:
    """CRPS of an equal mixture of densities, by ten Gauss-Legendre nodes between each two of the breaks.

    Args:
        scores: (members, rows) CRPS of each member.
        cdf: From (rows,) numbers to the (members, rows) probabilities of less.
        breaks: (breaks, rows) rising numbers for each row: an end below which no member has mass, the members' medians,
            where their distribution functions turn, and an end above.
    """
    scores, edges = numbers("crps_mixture", "scores", scores), numbers("crps_mixture", "breaks", breaks)
    disagreement = np.zeros(scores.shape[1:])
    with np.errstate(over="ignore"):
        for low, high in itertools.pairwise(edges):
            half = 0.5 * high - 0.5 * low
            for node, weight in zip(_NODES, _WEIGHTS, strict=True):
                x = (0.5 * low + 0.5 * high) + node * half
                disagreement += half * weight * cdf(x).var(0)
    return _score((scores / len(scores)).sum(0) - disagreement)


def crps_mixture_counts(scores: ArrayLike, cdf: Callable[[Array], Array], low: ArrayLike, high: ArrayLike) -> Array:
    """CRPS of an equal mixture of counts, by a sum over all counts; over blocks of them where there are many.

    Args:
        scores: (members, rows) CRPS of each member.
        cdf: From (rows,) counts to the (members, rows) probabilities of no more.
        low: (rows,) counts below which no member has mass.
        high: (rows,) counts above which no member has mass.
    """
    scores = numbers("crps_mixture_counts", "scores", scores)
    low, high = (numbers("crps_mixture_counts", "ends", end) for end in (low, high))
    block = 2 * np.ceil((high - low + 1) / _TERMS // 2) + 1  # odd, so that its middle is a count, too
    disagreement = np.zeros(scores.shape[1:])
    with np.errstate(over="ignore"):
        for i in range(int(np.ceil((high - low + 1) / block).max())):
            disagreement += block * cdf(low + i * block + (block - 1) / 2).var(0)
        return _score((scores / len(scores)).sum(0) - disagreement)


def _negative_binomial_half_spread(n: Array, p: Array) -> Array:
    """½ E|X - X'| for independent X, X' ~ NegativeBinomial(n, p), to all digits for any n.

    For an integer D, |D| = 1/π ∫_0^π (1 - cos Dθ)/(1 - cos θ) dθ. For D = X - X' the mean of cos Dθ is the squared
    characteristic function, (1 + c sin²(θ/2))^-n with c = 4p/(1 - p)². With t = tan(θ/2):
        ½ E|D| = 1/(2π) ∫_0^∞ (1 - (1 + c t²/(1 + t²))^-n) / t² dt.
    In log t the integrand is smooth and falls off like exp(-|log t - centre|), so the trapezoid rule is enough.
    """
    c = 4 * p / (1 - p) ** 2
    centre = -0.5 * np.log(np.maximum(1.0, c * np.maximum(n, 1.0)))
    offsets = np.arange(-_REACH, _REACH + _STEP, _STEP)

    def integral(n: Array, c: Array, centre: Array) -> Array:  # (rows, 1) each -> (rows,)
        t = np.exp(centre + offsets)  # (rows, nodes)
        kept = -np.expm1(-n * np.log1p(c * (t**2 / (1 + t**2))))
        return np.asarray(np.sum(kept / t, axis=-1) * _STEP / (2 * np.pi))

    rows = np.stack([a.ravel() for a in (n, c, centre)])[..., None]  # (3, rows, 1)
    parts = [integral(*rows[:, i : i + _ROWS_AT_ONCE]) for i in range(0, rows.shape[1], _ROWS_AT_ONCE)]
    return np.concatenate(parts).reshape(n.shape)


_TINY = np.finfo(np.float64).smallest_subnormal
_LEAST = 1e-300
_ROOT_PI = np.sqrt(np.pi)


def _normal(mean: Array, std: Array, y: Array) -> Array:
    """CRPS of N(mean, std²), std > 0."""
    with np.errstate(over="ignore"):
        return _score(_mean_distance(saturated(y - mean), std) - std / _ROOT_PI)


def _mean_distance(d: Array, std: Array) -> Array:
    """E|d + std Z| = d (2Φ(z) - 1) + 2 std φ(z), z = d/std: |d| itself far out."""
    with np.errstate(over="ignore"):
        z = np.clip(d / std, -40, 40)
        return np.asarray(d * (special.ndtr(z) - special.ndtr(-z)) + std * (np.exp(-0.5 * z * z) * np.sqrt(2 / np.pi)))


def _gamma(c: Array, d: Array, y: Array) -> Array:
    """CRPS of gamma(c, d), by the normal limit for large c."""
    with np.errstate(all="ignore"):
        x, shape = np.maximum(saturated(d * y), 0), np.minimum(c, _NORMAL)
        F, F_next, half_spread = (
            special.gammainc(shape, x),
            special.gammainc(shape + 1, x),
            _rising_half(shape) / _ROOT_PI,
        )
        score = y * (2 * F - 1) - shape / d * (2 * F_next - 1) - half_spread / d
        in_units = (saturated(d * y) * (2 * F - 1) - shape * (2 * F_next - 1) - half_spread) / d
        score = _score(np.where(np.isfinite(score), score, in_units))  # where the mean overflows
        limit = _normal(saturated(c / d), np.maximum(saturated(np.sqrt(c) / d), _TINY), y)
        return np.where(c > _NORMAL, limit, score)


def _beta(c: Array, d: Array, y: Array) -> Array:
    x = np.clip(y, 0, 1)  # F is 0 below and 1 above
    c, d = np.maximum(c, _LEAST), np.maximum(d, _LEAST)  # denormal numbers have no ratio
    half_spread = _rising_half(c) / (c + d) * (_rising_half(d) / _rising_half(c + d)) / _ROOT_PI
    to_y = y * (2 * special.betainc(c, d, x) - 1) - c / (c + d) * (2 * special.betainc(c + 1, d, x) - 1)
    return _score(to_y - half_spread)


def _rising_half(x: Array) -> Array:
    """Γ(x + ½)/Γ(x)."""
    return np.asarray(special.poch(x, 0.5))


def _score(values: Array) -> Array:
    """A score is never negative, and saturates at the largest number."""
    return np.asarray(np.clip(values, 0.0, np.finfo(np.float64).max))
