"""The table of families that the tests run over; a new family is one more row.

References share no code with the library: a frozen scipy distribution, and log E exp(-t u(x)) written anew for mpmath.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
import torch
from scipy import stats

from torchnpn import families
from torchnpn.families import ExponentialFamily


class Case(NamedTuple):
    """One family: a member of moderate size with its twin in scipy, and grids far wider than that."""

    name: str
    family: type[ExponentialFamily]
    parameters: tuple[float, ...]
    scipy: Any
    u: tuple[Callable[..., Any], ...]  # sufficient statistics, in the order of `natural`
    activation_u: Callable[..., Any]  # the statistic of Theorem 1
    delta: Callable[..., Any]  # (t, *parameters) -> log E exp(-t u(x)) for mpmath numbers
    wide: tuple[np.ndarray, ...]  # one grid per parameter
    both_moments: bool = True  # whether from_moments keeps mean and variance
    known: tuple[str, ...] = ()  # parameters that from_moments must be told

    @property
    def member(self) -> ExponentialFamily:
        """The moderate member, in float64."""
        return self.family(*(torch.tensor(value, dtype=torch.float64) for value in self.parameters))

    def grid(self, dtype: torch.dtype) -> ExponentialFamily:
        """Members over the wide grids, in one flat tensor per parameter."""
        mesh = np.meshgrid(*self.wide, indexing="ij")
        return self.family(*(torch.tensor(axis.ravel()).to(dtype) for axis in mesh))

    def known_of(self, member: ExponentialFamily) -> dict[str, Any]:
        return {name: getattr(member, name) for name in self.known}


def powers(low: int, high: int, step: float = 1.0) -> np.ndarray:
    return 10.0 ** np.arange(low, high + 1e-9, step)


def identity(x: Any) -> Any:
    return x


def _beta_delta(t, c, d):
    return mp.loggamma(c + t) - mp.loggamma(c) - mp.loggamma(c + d + t) + mp.loggamma(c + d)


_PROBABILITIES = np.concatenate([[0.0], powers(-8, -1), [0.3, 0.5, 0.7], 1 - powers(-6, -1)])

FAMILIES = [
    Case(
        "gamma",
        families.Gamma,
        (2.5, 1.5),
        stats.gamma(2.5, scale=1 / 1.5),
        (np.log, identity),
        identity,
        lambda t, c, d: -c * mp.log(1 + t / d),
        (powers(-3, 5), powers(-4, 5)),
    ),
    Case(
        "poisson",
        families.Poisson,
        (3.2,),
        stats.poisson(3.2),
        (identity,),
        identity,
        lambda t, c: c * (mp.exp(-t) - 1),
        (np.concatenate([[0.0], powers(-8, 5, 0.25)]),),
        both_moments=False,
    ),
    Case(
        "beta",
        families.Beta,
        (2.0, 3.5),
        stats.beta(2.0, 3.5),
        (np.log, lambda x: np.log1p(-x)),
        lambda x: -np.log(x),
        _beta_delta,
        (powers(-2, 5), powers(-2, 5)),
    ),
    Case(
        "rayleigh",
        families.Rayleigh,
        (1.7,),
        stats.rayleigh(scale=1.7**0.5),
        (np.square,),
        np.square,
        lambda t, sigma2: -mp.log(1 + 2 * t * sigma2),
        (powers(-8, 6, 0.25),),
        both_moments=False,
    ),
    Case(
        "bernoulli",
        families.Bernoulli,
        (0.3,),
        stats.bernoulli(0.3),
        (identity,),
        identity,
        lambda t, p: mp.log(1 - p + p * mp.exp(-t)),
        (np.concatenate([_PROBABILITIES, [1.0]]),),
    ),
    Case(
        "inverse_gaussian",
        families.InverseGaussian,
        (1.3, 2.1),
        stats.invgauss(1.3 / 2.1, scale=2.1),
        (identity, lambda x: 1 / x),
        identity,
        lambda t, mu, lam: lam / mu * (1 - mp.sqrt(1 + 2 * mu**2 * t / lam)),
        (powers(-4, 5), powers(-4, 5)),
    ),
    Case(
        "inverse_gamma",
        families.InverseGamma,
        (4.5, 2.0),
        stats.invgamma(4.5, scale=2.0),
        (np.log, lambda x: 1 / x),
        lambda x: 1 / x,
        lambda t, a, b: -a * mp.log(1 + t / b),
        (powers(-3, 5), powers(-4, 5)),
    ),
    Case(
        "weibull",
        families.Weibull,
        (1.4, 1.8),
        stats.weibull_min(1.8, scale=1.4),
        (lambda x: x**1.8,),
        lambda x: x**1.8,
        lambda t, lam, k: -mp.log(1 + t * lam**k),
        (powers(-4, 4, 0.5), np.array([0.5, 1.0, 2.0, 5.0])),
        both_moments=False,
        known=("shape",),
    ),
    Case(
        "pareto",
        families.Pareto,
        (3.5, 1.2),
        stats.pareto(3.5, scale=1.2),
        (lambda x: np.log(x / 1.2),),
        lambda x: np.log(x / 1.2),
        lambda t, alpha, x_min: -mp.log(1 + t / alpha),
        (powers(-3, 5, 0.25), np.array([0.5, 2.0])),
        both_moments=False,
        known=("x_min",),
    ),
    Case(
        "gumbel",
        families.Gumbel,
        (0.4, 1.3),
        stats.gumbel_r(0.4, 1.3),
        (lambda x: np.exp(-x / 1.3),),
        lambda x: np.exp(-x / 1.3),
        lambda t, mu, scale: -mp.log(1 + t * mp.exp(-mu / scale)),
        (np.linspace(-30, 30, 25), np.array([0.5, 1.0, 3.0])),
        both_moments=False,
        known=("scale",),
    ),
    Case(
        "negative_binomial",
        families.NegativeBinomial,
        (2.5, 0.4),
        stats.nbinom(2.5, 0.6),
        (identity,),
        identity,
        lambda t, n, p: n * mp.log((1 - p) / (1 - p * mp.exp(-t))),
        (powers(-3, 5), _PROBABILITIES),
    ),
]

GAUSSIAN = Case(  # no bounded activation, so apart from the laws of Theorem 1
    "gaussian",
    families.Gaussian,
    (0.7, 2.3),
    stats.norm(0.7, 2.3**0.5),
    (identity, np.square),
    identity,
    lambda t, m, s: -t * m + t**2 * s / 2,
    (np.linspace(-30, 30, 13), np.concatenate([[0.0], powers(-8, 4)])),
)
LOG_NORMAL = Case(  # no bounded activation either
    "log_normal",
    families.LogNormal,
    (0.3, 0.6),
    stats.lognorm(0.6**0.5, scale=np.exp(0.3)),
    (np.log, lambda x: np.log(x) ** 2),
    np.log,
    lambda t, m, s: -t * m + t**2 * s / 2,
    (np.linspace(-30, 30, 13), powers(-8, 1)),
)
ALL = [GAUSSIAN, LOG_NORMAL, *FAMILIES]


def exact_moments(case, member, tau):
    """1 - E e^(-τu) and Var e^(-τu) at 80 digits, for the parameters as the type rounded them."""
    rows = zip(*(value.tolist() for value in vars(member).values()), strict=True)
    means, variances = [], []
    with mp.workdps(80):
        for row in rows:
            once, twice = (case.delta(k * mp.mpf(tau), *map(mp.mpf, row)) for k in (1, 2))
            means.append(float(1 - mp.exp(once)))
            variances.append(float(mp.exp(twice) - mp.exp(2 * once)))
    return np.array(means), np.array(variances)
