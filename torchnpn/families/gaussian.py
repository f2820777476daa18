"""The Gaussian family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch
from scipy import stats
from torch import Tensor

from torchnpn.families import checks
from torchnpn.families.base import ExponentialFamily, zero_if_point
from torchnpn.moments import Moments


@dataclass(frozen=True, eq=False)
class Gaussian(ExponentialFamily):
    """Normal distribution p(x | m, s) = (2πs)^(-½) exp(-(x - m)² / 2s) on the reals (paper, Section 3.2).

    Natural parameters η = (m/s, -1/2s), sufficient statistics u(x) = (x, x²). A variance of zero is a point.
    """

    m: Tensor  # mean
    s: Tensor  # variance ≥ 0

    domain = (checks.REAL, checks.NONNEGATIVE)

    @property
    def moments(self) -> Moments:
        return Moments(self.m, self.s)

    @classmethod
    def project(cls, x: Moments) -> Self:
        return cls.unchecked(x.mean, zero_if_point(x))

    @property
    def natural(self) -> tuple[Tensor, ...]:
        return self.m / self.s, -0.5 / self.s

    @staticmethod
    def log_partition(*eta: Tensor) -> Tensor:
        return -(eta[0] ** 2) / (4 * eta[1]) - 0.5 * torch.log(-2 * eta[1])

    def log_mean_exp(self, t: float) -> Tensor:
        return -t * self.m + 0.5 * t**2 * self.s

    def log_mean_exp_gap(self, t: float) -> Tensor:
        return t**2 * self.s + torch.zeros_like(self.m)

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.Normal:
        return torch.distributions.Normal(self.m, self.s.sqrt(), validate_args)

    def to_scipy(self) -> Any:
        m, s = self._numpy()
        return stats.norm(m, s**0.5)

    def cdf(self, y: Tensor | float) -> Tensor:
        """Φ((y - m) / √s), with gradients; a step where s = 0."""
        point = self.s == 0
        z = (self._like(y) - self.m) / torch.where(point, 1.0, self.s).sqrt()
        return torch.where(point, (z >= 0).to(z.dtype), torch.special.ndtr(z))

    def quantile(self, q: Tensor | float) -> Tensor:
        """m + √s Φ⁻¹(q), with gradients."""
        q = self._like(q)
        checks.require((q >= 0) & (q <= 1), q, "Gaussian.quantile expects probabilities in [0, 1]")
        point = self.s == 0
        std = torch.where(point, 1.0, self.s).sqrt()
        return torch.where(point, self.m, self.m + std * torch.special.ndtri(q))
