"""The inverse gamma family."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from scipy import stats
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import checks, gamma, tails
from torchnpn.families.base import ExponentialFamily
from torchnpn.families.limits import positive_moments, stored
from torchnpn.families.tails import Array, Tails
from torchnpn.finite import clamped, entering, positive
from torchnpn.moments import Moments


@dataclass(frozen=True, eq=False)
class InverseGamma(ExponentialFamily):
    """Inverse gamma distribution p(x | a, b) = b^a x^(-a-1) exp(-b/x) / Γ(a) on x > 0: 1/x is gamma(a, b).

    Natural parameters η = (-a - 1, -b), sufficient statistics u(x) = (log x, 1/x). Theorem 1 takes u = 1/x, so that
    `saturating(p, tau, r=0, q=-1)` is exp(-τ/x), which increases from 0 to 1.
    """

    a: Tensor  # shape > 0
    b: Tensor  # scale > 0

    domain = (checks.POSITIVE, checks.POSITIVE)
    support = constraints.positive
    statistic = 1

    @property
    def moments(self) -> Moments:
        """b/(a - 1), infinite for a ≤ 1, and b²/((a - 1)² (a - 2)), infinite for a ≤ 2."""
        a, b = entering(self.a), entering(self.b)
        one, two = a > 1, a > 2
        mean = clamped(b / torch.where(one, a - 1, 1.0))
        std = mean / torch.where(two, a - 2, 1.0).sqrt()  # its square may overflow, as mean² may before it shrinks
        return Moments(torch.where(one, mean, torch.inf), torch.where(two, clamped(std**2), torch.inf))

    @classmethod
    def project(cls, x: Moments) -> Self:
        """a = m²/s + 2, b = m (a - 1)."""
        mean, v = positive_moments(x)
        return cls.unchecked(stored(1 / v + 2, x), stored(mean * (1 / v + 1), x))

    @property
    def natural(self) -> tuple[Tensor, ...]:
        return -self.a - 1, -self.b

    @staticmethod
    def log_partition(*eta: Tensor) -> Tensor:
        a, b = -eta[0] - 1, -eta[1]
        return torch.lgamma(a) - a * torch.log(b)

    @staticmethod
    def in_natural_space(*eta: Tensor) -> Tensor:
        return (eta[0] < -1) & (eta[1] < 0)

    def _log_mean_exp(self, t: float) -> Tensor:
        return gamma.log_mean_exp(self.a, t / self.b, math.log(t) - torch.log(self.b))

    def _log_mean_exp_gap(self, t: float) -> Tensor:
        return gamma.log_mean_exp_gap(self.a, t / self.b, math.log(t) - torch.log(self.b))

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.InverseGamma:
        return torch.distributions.InverseGamma(self.a, self.b, validate_args)

    def to_scipy(self) -> Any:
        a, b = self._numpy()
        return stats.invgamma(a, scale=b)

    def _log_density(self, y: Tensor) -> Tensor:
        log_z = torch.log(self.b) - torch.log(y)
        return gamma.log_density(self.a, clamped(self.b / y), log_z) - torch.log(y)

    def _draw(self, shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        return positive(torch.exp(torch.log(self.b) - gamma.log_draw(self.a, shape, generator)), self.dtype)

    def _tails(self, y: Array) -> Tails:
        a, b = self._numpy()
        return tails.gamma(a, b / y, np.log(b) - np.log(y)).swapped

    def _quantile(self, q: Array) -> Array:
        a, b = self._numpy()
        z = gamma.standard_quantile(a, 1 - q)
        value = b / z
        regular = (q > 1e-3) & gamma.in_range(z) & gamma.in_range(value)  # 1 - q has lost the digits of a small q
        return value if regular.all() else np.where(regular, value, super()._quantile(q))
