"""P(x ≤ y) and P(x > y), each with its own digits, from scipy's special functions in float64.

scipy.stats is not used: some of its quantiles abort the process or never return. What is used here was tried over the
whole range of float64: it returns, and where it has no answer for huge parameters the limit takes its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[Any]

_POINT = 1e30  # a gamma variable of a larger shape is its mean, to all digits
_LEAST = 1e-300  # smaller shapes make no difference, but scipy has no answers for denormal ones
_UNDERFLOW = 1e-290  # below, P(x ≤ z) of a gamma variable is z^c/Γ(c + 1), to all digits
_NORMAL = 1e8  # from here on the expansion of the beta distribution around the normal one is good to 1e-9
_GAMMA = 1e15  # ratio of its parameters from which on a beta variable is gamma, to all digits
_CLOSE = 1e-2  # where 1/z - 1/w is taken as its limit


class Tails(NamedTuple):
    """P(x ≤ y) and P(x > y)."""

    below: Array
    above: Array

    @property
    def swapped(self) -> Tails:
        return Tails(self.above, self.below)

    @classmethod
    def of_log_below(cls, log: Array) -> Tails:
        return cls(np.exp(log), -np.expm1(log))

    @classmethod
    def of_log_above(cls, log: Array) -> Tails:
        return cls(-np.expm1(log), np.exp(log))


def gamma(c: Array, z: Array, log_z: Array) -> Tails:
    """Of a gamma variable of shape c and rate 1 at z ≥ 0, given log z too because z may underflow."""
    with np.errstate(all="ignore"):
        shape = np.clip(c, _LEAST, _POINT)
        regular = _both(special.gammainc, special.gammaincc, shape, z)
        small = Tails.of_log_below(np.minimum(shape * log_z - special.gammaln(1 + shape), 0.0))
        step = Tails((z >= c).astype(float), (z < c).astype(float))
        return chosen(c > _POINT, step, chosen(z < _UNDERFLOW, small, regular))


def beta(a: Array, b: Array, x: Array, rest: Array) -> Tails:
    """Of a beta variable with parameters a, b at x in [0, 1], given rest = 1 - x too."""
    a, b, x, rest = (np.asarray(v, dtype=np.float64) for v in np.broadcast_arrays(a, b, x, rest))
    with np.errstate(all="ignore"):
        normal = np.minimum(a, b) > _NORMAL
        steep, flat = ~normal & (b > _GAMMA * np.maximum(a, 1)), ~normal & (a > _GAMMA * np.maximum(b, 1))
        plain = ~(normal | steep | flat)
        below, above = np.empty_like(x), np.empty_like(x)
        for where, tails in (
            (plain, lambda a, b, x, _: _both(special.betainc, special.betaincc, a, b, x)),
            (normal, _nearly_normal),
            (steep, lambda a, b, x, _: _nearly_gamma(a, b, x)),
            (flat, lambda a, b, _, rest: _nearly_gamma(b, a, rest).swapped),
        ):
            if where.any():
                below[where], above[where] = tails(a[where], b[where], x[where], rest[where])
        return Tails(below, above)


def inverse_gaussian(mu: Array, lam: Array, y: Array) -> Tails:
    """With A = √(λ/y) (y - μ)/μ, B = A + 2√(λ/y) and Mills' ratio R = Φ(-x)/φ(x), of which nothing cancels:

    P(x ≤ y) = φ(A) (R(-A) + R(B)) for A < 0,    P(x > y) = φ(A) (R(A) - R(B)) for A ≥ 0.
    """
    with np.errstate(all="ignore"):
        root = np.sqrt(lam) / np.sqrt(y)
        A = np.clip(root * ((y - mu) / mu), -1e150, 1e150)  # beyond ±40 nothing changes
        B = A + 2 * root
        density = np.exp(-0.5 * A * A) / np.sqrt(2 * np.pi)
        low = density * (_mills(np.abs(A)) + _mills(B))
        middle = A + root
        close = 2 * root * (1 - middle * _mills(middle))  # R(A) - R(B) where they are near each other
        high = density * np.where(2 * root < _CLOSE, close, _mills(np.abs(A)) - _mills(B))
        return chosen(A < 0, Tails(low, 1 - low), Tails(1 - high, high))


def _nearly_gamma(a: Array, b: Array, x: Array) -> Tails:
    """For b far above a, b x is gamma of shape a; -log(1 - x) (b + (a-1)/2) is closer to it."""
    rate = -np.log1p(-x)
    scale = b + 0.5 * (a - 1)
    return gamma(a, scale * rate, np.log(scale) + np.log(np.where(x > 0, rate, 1.0)) + np.where(x > 0, 0.0, -np.inf))


def _nearly_normal(a: Array, b: Array, x: Array, rest: Array) -> Tails:
    """Φ(z) + φ(z) (1/z - 1/w), with z² = 2 D(a, n x) + 2 D(b, n (1-x)), w = (n x - a)/√(ab/n), n = a + b."""
    scale = np.minimum(1.0, 1e290 / np.maximum(a, b))
    a, b = a * scale, b * scale
    n = a + b
    z = np.sign(n * x - a) * np.sqrt(2 * (_deviance(a, n * x) + _deviance(b, n * rest)))
    w = (n * x - a) / (np.sqrt(a) * np.sqrt(b / n))
    limit = (b - a) / (3 * np.sqrt(a) * np.sqrt(b) * np.sqrt(n))
    correction = np.where(np.abs(z) < _CLOSE, limit, 1 / z - 1 / w) * np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    return Tails(np.clip(special.ndtr(z) + correction, 0, 1), np.clip(special.ndtr(-z) - correction, 0, 1))


def _deviance(a: Array, b: Array) -> Array:
    """b - a + a log(a/b) for large a, in numpy."""
    d = (b - a) / a
    small = d * d * (0.5 - d * (1 / 3 - d * (0.25 - d * (0.2 - d / 6))))
    return np.asarray(a * np.where(np.abs(d) < 1e-3, small, np.maximum(d - np.log(b / a), 0.0)))


def _both(below: Callable[..., Array], above: Callable[..., Array], *arguments: Array) -> Tails:
    """Both tails; the second function is asked only where 1 - P would lose digits."""
    low = np.asarray(below(*arguments))
    high, lost = np.asarray(1 - low), low > 0.999
    if lost.any():
        high[lost] = above(*(np.broadcast_to(argument, low.shape)[lost] for argument in arguments))
    return Tails(low, high)


def _mills(x: Array) -> Array:
    """Φ(-x)/φ(x) for x ≥ 0."""
    return np.asarray(np.sqrt(np.pi / 2) * special.erfcx(x / np.sqrt(2)))


def chosen(where: Array, a: Tails, b: Tails) -> Tails:
    """`a` where the condition holds, else `b`."""
    below, above = (np.clip(np.where(where, *pair), 0, 1) for pair in zip(a, b, strict=True))
    return Tails(below, above)
