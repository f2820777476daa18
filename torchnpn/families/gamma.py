"""The gamma family, and the two functions of Theorem 1 that its relatives share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from scipy import special, stats
from torch import Tensor
from torch.distributions import constraints

from torchnpn._torch import standard_gamma
from torchnpn.families import checks, stirling, tails
from torchnpn.families.base import ExponentialFamily
from torchnpn.families.crps import NORMAL, rising_half
from torchnpn.families.deviance import deviance
from torchnpn.families.limits import positive_moments, stored
from torchnpn.families.tails import Array, Tails
from torchnpn.finite import clamped, entering, positive
from torchnpn.metrics import normal_crps, saturated
from torchnpn.moments import Moments

_LARGE = 1e20  # from here on 1 + x is x in every type
_LEAST_SHAPE, _MOST_SHAPE = 1e-3, 1e12  # of scipy's inverse; beyond, a search takes its place


@dataclass(frozen=True, eq=False)
class Gamma(ExponentialFamily):
    """Gamma distribution p(x | c, d) = d^c x^(c-1) exp(-d x) / Γ(c) on x > 0 (paper, Section 3.1).

    Natural parameters η = (c - 1, -d), sufficient statistics u(x) = (log x, x).
    """

    c: Tensor  # shape > 0
    d: Tensor  # rate > 0

    domain = (checks.POSITIVE, checks.POSITIVE)
    support = constraints.positive
    statistic = 1

    @property
    def moments(self) -> Moments:
        c, d = entering(self.c), entering(self.d)
        mean = c / d
        return Moments(clamped(mean), clamped(mean / d))  # d² may overflow

    @classmethod
    def project(cls, x: Moments) -> Self:
        """c = m²/s, d = m/s. The supplement prints (m/s, m² s), which does not invert `moments`."""
        mean, v = positive_moments(x)
        return cls.unchecked(stored(1 / v, x), stored(1 / v / mean, x))

    @property
    def natural(self) -> tuple[Tensor, ...]:
        return self.c - 1, -self.d

    @staticmethod
    def log_partition(*eta: Tensor) -> Tensor:
        c, d = eta[0] + 1, -eta[1]
        return torch.lgamma(c) - c * torch.log(d)

    @staticmethod
    def in_natural_space(*eta: Tensor) -> Tensor:
        return (eta[0] > -1) & (eta[1] < 0)

    def _log_mean_exp(self, t: float) -> Tensor:
        return log_mean_exp(self.c, t / self.d, math.log(t) - torch.log(self.d))

    def _log_mean_exp_gap(self, t: float) -> Tensor:
        return log_mean_exp_gap(self.c, t / self.d, math.log(t) - torch.log(self.d))

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.Gamma:
        return torch.distributions.Gamma(self.c, self.d, validate_args)

    def to_scipy(self) -> Any:
        c, d = self._numpy()
        return stats.gamma(c, scale=1 / d)

    def _log_density(self, y: Tensor) -> Tensor:
        return log_density(self.c, clamped(self.d * y), torch.log(self.d) + torch.log(y)) - torch.log(y)

    def _draw(self, shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        return positive(torch.exp(log_draw(self.c, shape, generator) - torch.log(self.d)), self.dtype)

    def _tails(self, y: Array) -> Tails:
        c, d = self._numpy()
        return tails.gamma(c, d * y, np.log(d) + np.log(y))

    def _quantile(self, q: Array) -> Array:
        c, d = self._numpy()
        z = standard_quantile(c, q)
        regular = in_range(z) & in_range(z / d)
        return z / d if regular.all() else np.where(regular, z / d, super()._quantile(q))

    def _crps(self, y: Array) -> Array:
        c, d = self._numpy()
        return crps(c, d, y)

    def scaled(self, shift: Tensor, scale: Tensor) -> Self:
        if bool((shift != 0).any()):
            raise ValueError("A gamma variable can be scaled, not shifted: its support begins at zero.")
        return self.unchecked(self.c, self.d / scale)


def crps(c: Array, d: Array, y: Array) -> Array:
    """y (2F_c(y) - 1) - (c/d)(2F_(c+1)(y) - 1) - 1/(d B(½, c)), with F_c for shape c; the normal limit for large c."""
    x, shape = np.maximum(saturated(d * y), 0), np.minimum(c, NORMAL)
    F, F_next, half_spread = (
        special.gammainc(shape, x),
        special.gammainc(shape + 1, x),
        rising_half(shape) / math.sqrt(math.pi),
    )
    score = y * (2 * F - 1) - shape / d * (2 * F_next - 1) - half_spread / d
    in_units = (saturated(d * y) * (2 * F - 1) - shape * (2 * F_next - 1) - half_spread) / d
    score = np.where(np.isfinite(score), score, in_units)  # where the mean overflows
    return np.where(c > NORMAL, normal_crps(saturated(c / d), saturated(np.sqrt(c) / d), y), np.maximum(score, 0.0))


def standard_quantile(c: Array, q: Array) -> Array:
    """Quantiles for rate 1 by scipy's inverse, NaN for shapes where it has not its digits."""
    z = np.where(q <= 0.5, special.gammaincinv(c, q), special.gammainccinv(c, 1 - q))
    return np.where((c >= _LEAST_SHAPE) & (c <= _MOST_SHAPE), z, np.nan)


def in_range(z: Array) -> Array:
    """Whether z is a number far from both ends of float64."""
    return np.asarray((z > 1e-290) & (z < 1e290))


def log_density(c: Tensor, z: Tensor, log_z: Tensor) -> Tensor:
    """log p(z) + log z of the gamma distribution of shape c and rate 1, for z > 0 that may underflow."""
    return -deviance(c, z, log_z) - stirling.remainder(c) + 0.5 * (torch.log(c) - math.log(2 * math.pi))


def log_draw(c: Tensor, shape: torch.Size, generator: torch.Generator | None) -> Tensor:
    """Logarithms of gamma variables of rate 1; for shapes below 1, x = x' U^(1/c) with x' of shape c + 1."""
    c = c.expand(shape)
    small = c < 1
    log_x = torch.log(standard_gamma(torch.where(small, c + 1, c), generator))
    u = torch.rand(shape, dtype=c.dtype, device=c.device, generator=generator)
    return clamped(log_x + torch.where(small, torch.log1p(-u) / c, 0.0))


def log_mean_exp(c: Tensor | float, x: Tensor, log_x: Tensor) -> Tensor:
    """Δ = log (1 + x)^(-c), with x = t/d: a gamma variable of shape c; c = 1 is the exponential distribution."""
    large = x > _LARGE  # or infinite: its logarithm is not
    return -c * torch.where(large, log_x, torch.log1p(torch.where(large, 0.0, x)))


def log_mean_exp_gap(c: Tensor | float, x: Tensor, log_x: Tensor) -> Tensor:
    """δ = c log((1 + x)² / (1 + 2x)), formed without the difference that cancels."""
    large = x > _LARGE
    x = torch.where(large, 0.0, x)
    return c * torch.where(large, log_x - math.log(2), torch.log1p(x * (x / (1 + 2 * x))))
