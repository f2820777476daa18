"""The inverse Gaussian (Wald) family."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import torch
from scipy import stats
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import checks
from torchnpn.families.base import ExponentialFamily
from torchnpn.families.limits import positive_moments
from torchnpn.moments import Moments


@dataclass(frozen=True, eq=False)
class InverseGaussian(ExponentialFamily):
    """Inverse Gaussian distribution p(x | μ, λ) = (λ/2πx³)^½ exp(-λ(x - μ)² / 2μ²x) on x > 0.

    Natural parameters η = (-λ/2μ², -λ/2), sufficient statistics u(x) = (x, 1/x).
    """

    mu: Tensor  # mean > 0
    lam: Tensor  # shape > 0

    domain = (checks.POSITIVE, checks.POSITIVE)
    support = constraints.positive

    @property
    def moments(self) -> Moments:
        return Moments(self.mu + torch.zeros_like(self.lam), self.mu**2 * (self.mu / self.lam))

    @classmethod
    def project(cls, x: Moments) -> Self:
        """μ = m, λ = m³/s."""
        mean, v = positive_moments(x)
        return cls.unchecked(mean, mean / v)

    @classmethod
    def check_moments(cls, x: Moments) -> None:
        super().check_moments(x)
        checks.check_positive_mean(cls, x)

    @property
    def natural(self) -> tuple[Tensor, ...]:
        return -0.5 * self.lam / self.mu**2, -0.5 * self.lam

    @staticmethod
    def log_partition(*eta: Tensor) -> Tensor:
        return -2 * torch.sqrt(eta[0] * eta[1]) - 0.5 * torch.log(-2 * eta[1])

    def log_mean_exp(self, t: float) -> Tensor:
        """λ/μ (1 - √(1+y)) with y = 2μ²t/λ, rationalised."""
        return -2 * t * self.mu / (1 + torch.sqrt(1 + self._y(t)))

    def log_mean_exp_gap(self, t: float) -> Tensor:
        """λ/μ (2R₁ - 1 - R₂) with R_k = √(1+ky), rationalised twice: 4y² / ((1+R₂)² (1+2R₁+R₂))."""
        y = self._y(t)
        R1, R2 = torch.sqrt(1 + y), torch.sqrt(1 + 2 * y)
        return 4 * (self.lam / self.mu) * (y / (1 + R2)) ** 2 / (1 + 2 * R1 + R2)

    def _y(self, t: float) -> Tensor:
        return 2 * t * self.mu * (self.mu / self.lam)

    def to_scipy(self) -> Any:
        mu, lam = self._numpy()
        return stats.invgauss(mu / lam, scale=lam)

    def _log_density(self, y: Tensor) -> Tensor:
        z = (y - self.mu) / self.mu
        return 0.5 * torch.log(self.lam / y) - torch.log(y) - 0.5 * math.log(2 * math.pi) - 0.5 * self.lam * z * (z / y)

    def _draw(self, n: int) -> Tensor:
        """Michael, Schucany and Haas (1976): a root of (x - μ)² λ = μ² x z², or μ² over it."""
        wide = self.widened().detach()
        mu, lam = torch.broadcast_tensors(wide.mu, wide.lam)
        w = torch.randn((n, *wide.batch_shape), dtype=mu.dtype, device=mu.device) ** 2 * (mu / lam)
        root = 2 / (2 + w + torch.sqrt(w * (w + 4)))  # the smaller one, in units of μ
        smaller = torch.rand_like(root) <= 1 / (1 + root)
        draws: Tensor = mu * torch.where(smaller, root, 1 / root)
        return draws.to(self.dtype)
