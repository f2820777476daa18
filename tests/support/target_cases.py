"""The table of kinds of targets that estimators are tested with; a new kind is one more row.

References share no code with the library: random numbers of numpy, and scipy's twins of what is predicted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats


class Target(NamedTuple):
    """One kind of target."""

    draw: Callable[[np.random.Generator, np.ndarray], np.ndarray]  # targets whose mean follows the rate (rows,)
    scipy: Callable[[Any], Any]  # the distribution of scipy with the fields of a predicted one
    wrong: float  # no target of this kind


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
    "beta": Target(
        lambda rng, rate: rng.beta(8 * rate / (1 + rate), 8 / (1 + rate)), lambda d: stats.beta(d.c, d.d), 1.0
    ),
    "lognormal": Target(
        lambda rng, rate: rate * rng.lognormal(-0.125, 0.5, len(rate)),
        lambda d: stats.lognorm(np.sqrt(d.s), scale=np.exp(d.m)),
        0.0,
    ),
    "student_t": Target(
        lambda rng, rate: rate + 0.2 * rng.standard_t(3.0, size=len(rate)),
        lambda d: stats.t(d.nu, d.m, np.sqrt(d.s)),
        np.nan,
    ),
}


def drawn(rng: np.random.Generator, rate: np.ndarray) -> dict[str, np.ndarray]:
    """Targets of every kind that follow the rate."""
    return {name: target.draw(rng, rate) for name, target in TARGETS.items()}
