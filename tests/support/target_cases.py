"""The table of kinds of targets that estimators are tested with; a new kind is one more row.

References share no code with the library: random numbers of numpy, and scipy's twins of what is predicted.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from scipy import stats


class Target(NamedTuple):
    """One kind of target."""

    draw: Callable[[np.random.Generator, np.ndarray], np.ndarray]  # targets whose mean follows the rate (rows,)
    scipy: Callable[[Any], Any]  # the distribution of scipy with the fields of a predicted one
    wrong: float  # no target of this kind


class WithZeros(NamedTuple):
    """0 with probability p, else what a frozen distribution of scipy gives; its `logpdf` at 0 is log p."""

    p: Any
    base: Any

    @property
    def dist(self) -> Any:
        return self.base.dist

    def logpmf(self, y: Any) -> Any:
        return np.log(np.where(y == 0, self.p, 0.0) + (1 - self.p) * self.base.pmf(y))

    def logpdf(self, y: Any) -> Any:
        with np.errstate(divide="ignore"):
            above = np.log1p(-np.asarray(self.p)) + self.base.logpdf(np.where(y == 0, 1.0, y))
            return np.where(y == 0, np.log(self.p), above)

    def cdf(self, y: Any) -> Any:
        return np.where(np.asarray(y) >= 0, self.p, 0.0) + (1 - self.p) * self.base.cdf(y)

    def ppf(self, q: Any) -> Any:
        return np.where(q <= self.p, 0.0, self.base.ppf(np.maximum((q - self.p) / (1 - self.p), 1e-300)))

    def mean(self) -> Any:
        return (1 - self.p) * self.base.mean()

    def var(self) -> Any:
        return (1 - self.p) * (self.base.var() + self.base.mean() ** 2) - self.mean() ** 2

    def std(self) -> Any:
        return np.sqrt(self.var())


def _zeros(rng: np.random.Generator, rate: np.ndarray) -> np.ndarray:
    """0 where a row is surely zero, the more often the lower its rate, else 1."""
    return (rng.random(len(rate)) > 1 / (1 + 2 * rate)).astype(float)


TARGETS = {
    "gaussian": Target(
        lambda rng, rate: rate + 0.2 * rng.normal(size=len(rate)),
        lambda d: stats.norm(d.m, np.sqrt(d.s)),
        np.nan,
    ),
    "gamma": Target(lambda rng, rate: rng.gamma(3.0, rate / 3), lambda d: stats.gamma(d.c, scale=1 / d.d), 0.0),
    "poisson": Target(lambda rng, rate: rng.poisson(3 * rate).astype(float), lambda d: stats.nbinom(d.n, 1 - d.p), 0.5),
    "negative_binomial": Target(
        lambda rng, rate: rng.poisson(rng.gamma(2.0, 3 * rate / 2)).astype(float),
        lambda d: stats.nbinom(d.n, 1 - d.p),
        -1.0,
    ),
    "zero_inflated_poisson": Target(
        lambda rng, rate: rng.poisson(3 * rate) * _zeros(rng, rate),
        lambda d: WithZeros(d.p, stats.nbinom(d.base.n, 1 - d.base.p)),
        0.5,
    ),
    "zero_inflated_negative_binomial": Target(
        lambda rng, rate: rng.poisson(rng.gamma(2.0, 3 * rate / 2)) * _zeros(rng, rate),
        lambda d: WithZeros(d.p, stats.nbinom(d.base.n, 1 - d.base.p)),
        -1.0,
    ),
    "hurdle_gamma": Target(
        lambda rng, rate: rng.gamma(3.0, rate / 3) * _zeros(rng, rate),
        lambda d: WithZeros(d.p, stats.gamma(d.base.c, scale=1 / d.base.d)),
        -1.0,
    ),
    "hurdle_lognormal": Target(
        lambda rng, rate: rate * rng.lognormal(-0.125, 0.5, len(rate)) * _zeros(rng, rate),
        lambda d: WithZeros(d.p, stats.lognorm(np.sqrt(d.base.s), scale=np.exp(d.base.m))),
        -0.1,
    ),
    "beta": Target(
        lambda rng, rate: rng.beta(8 * rate / (1 + rate), 8 / (1 + rate)), lambda d: stats.beta(d.c, d.d), 1.0
    ),
    "lognormal": Target(
        lambda rng, rate: rate * rng.lognormal(-0.125, 0.5, len(rate)),
        lambda d: stats.lognorm(np.sqrt(d.s), scale=np.exp(d.m)),
        0.0,
    ),
    "weibull": Target(
        lambda rng, rate: rate * rng.weibull(1.5, len(rate)),
        lambda d: stats.weibull_min(d.shape, scale=d.lam),
        0.0,
    ),
    "student_t": Target(
        lambda rng, rate: rate + 0.2 * rng.standard_t(3.0, size=len(rate)),
        lambda d: stats.t(d.nu, d.m, np.sqrt(d.s)),
        np.nan,
    ),
}


def fields(distribution: Any) -> Any:
    """The parameters of the first target as arrays, in an object that has them as attributes."""
    values = {name: getattr(distribution, name) for name in distribution.__match_args__}
    return SimpleNamespace(
        **{name: value.numpy()[:, 0] if hasattr(value, "numpy") else fields(value) for name, value in values.items()}
    )


def drawn(rng: np.random.Generator, rate: np.ndarray) -> dict[str, np.ndarray]:
    """Targets of every kind that follow the rate."""
    return {name: target.draw(rng, rate) for name, target in TARGETS.items()}
