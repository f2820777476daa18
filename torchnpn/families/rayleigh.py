"""The Rayleigh family."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from scipy import stats
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import checks
from torchnpn.families.base import ExponentialFamily, zero_if_point
from torchnpn.families.gamma import log_mean_exp, log_mean_exp_gap
from torchnpn.families.limits import eps, positive_mean, stored, widened
from torchnpn.families.tails import Array, Tails
from torchnpn.finite import clamped, entering, positive
from torchnpn.moments import Moments


@dataclass(frozen=True, eq=False)
class Rayleigh(ExponentialFamily):
    """Rayleigh distribution p(x | σ²) = x/σ² exp(-x²/2σ²) on x > 0 (paper, Section 2.3).

    Natural parameter η = -1/2σ², sufficient statistic u(x) = x², which is exponential with mean 2σ².
    """

    sigma2: Tensor  # σ² > 0

    domain = (checks.POSITIVE,)
    support = constraints.positive
    keeps_mean = False

    @property
    def moments(self) -> Moments:
        sigma2 = entering(self.sigma2)
        return Moments(math.sqrt(0.5 * math.pi) * sigma2.sqrt(), (2 - 0.5 * math.pi) * sigma2)

    @classmethod
    def project(cls, x: Moments) -> Self:
        """σ² = (m² + s)/2: the moment projection, which keeps E x²; one parameter cannot keep both moments."""
        square = positive_mean(x) ** 2 + zero_if_point(widened(x))
        return cls.unchecked(stored(0.5 * square.clamp_max(eps(x.mean.dtype) ** -4), x))

    @property
    def natural(self) -> tuple[Tensor, ...]:
        return (clamped(-0.5 / entering(self.sigma2)),)

    @staticmethod
    def log_partition(*eta: Tensor) -> Tensor:
        return -torch.log(-2 * eta[0])

    def _log_mean_exp(self, t: float) -> Tensor:
        return log_mean_exp(1.0, 2 * (t * self.sigma2), math.log(t) + torch.log(self.sigma2) + math.log(2))

    def _log_mean_exp_gap(self, t: float) -> Tensor:
        return log_mean_exp_gap(1.0, 2 * (t * self.sigma2), math.log(t) + torch.log(self.sigma2) + math.log(2))

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.Weibull:
        """A Weibull distribution of shape 2 and scale √2 σ."""
        return torch.distributions.Weibull((2 * self.sigma2).sqrt(), torch.full_like(self.sigma2, 2.0), validate_args)

    def to_scipy(self) -> Any:
        (sigma2,) = self._numpy()
        return stats.rayleigh(scale=sigma2**0.5)

    def _log_density(self, y: Tensor) -> Tensor:
        z = y / self.sigma2.sqrt()
        return torch.log(y) - torch.log(self.sigma2) - z * (0.5 * z)  # z² alone may overflow

    def _draw(self, shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        u = torch.rand(shape, dtype=self.dtype, device=self.device, generator=generator)
        return positive(self.sigma2.sqrt() * torch.sqrt(-2 * torch.log1p(-u)), self.dtype)

    def _tails(self, y: Array) -> Tails:
        (sigma2,) = self._numpy()
        return Tails.of_log_above(-0.5 * (y / np.sqrt(sigma2)) ** 2)

    def _quantile(self, q: Array) -> Array:
        (sigma2,) = self._numpy()
        return np.asarray(np.sqrt(sigma2) * np.sqrt(-2 * np.log1p(-q)))
