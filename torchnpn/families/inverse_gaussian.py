"""The inverse Gaussian (Wald) family."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import torch
from scipy import stats
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import checks, tails
from torchnpn.families.base import ExponentialFamily
from torchnpn.families.limits import positive_moments, stored
from torchnpn.families.tails import Array, Tails
from torchnpn.finite import clamped, entering, positive
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
        mu, lam = torch.broadcast_tensors(entering(self.mu), entering(self.lam))
        return Moments(mu, clamped((mu * (mu.sqrt() / lam.sqrt())) ** 2))

    @classmethod
    def project(cls, x: Moments) -> Self:
        """μ = m, λ = m³/s."""
        mean, v = positive_moments(x)
        return cls.unchecked(stored(mean, x), stored(mean / v, x))

    @property
    def natural(self) -> tuple[Tensor, ...]:
        mu, lam = entering(self.mu), entering(self.lam)
        return clamped(-0.5 * (lam.sqrt() / mu) ** 2), -0.5 * lam

    @staticmethod
    def log_partition(*eta: Tensor) -> Tensor:
        return -2 * torch.sqrt(eta[0] * eta[1]) - 0.5 * torch.log(-2 * eta[1])

    def _log_mean_exp(self, t: float) -> Tensor:
        """λ/μ (1 - √(1+y)) with y = 2μ²t/λ, rationalised; -√(2tλ) for large y, which may overflow."""
        root = self._root(t)
        large = root > _LARGE
        R1 = torch.sqrt(1 + torch.where(large, 0.0, root) ** 2)
        return torch.where(large, -math.sqrt(2 * t) * self.lam.sqrt(), -2 * t * (self.mu / (1 + R1)))

    def _log_mean_exp_gap(self, t: float) -> Tensor:
        """λ/μ (2R₁ - 1 - R₂) with R_k = √(1+ky), rationalised twice: 4y² / ((1+R₂)² (1+2R₁+R₂))."""
        root = self._root(t)
        large = root > _LARGE
        y = torch.where(large, 0.0, root) ** 2
        R1, R2 = torch.sqrt(1 + y), torch.sqrt(1 + 2 * y)
        gap = 4 * (2 * t * (self.mu / (1 + R2))) * (y / (1 + R2)) / (1 + 2 * R1 + R2)
        return torch.where(large, math.sqrt(2 * t) * (2 - math.sqrt(2)) * self.lam.sqrt(), gap)

    def _root(self, t: float) -> Tensor:
        """√y."""
        return math.sqrt(2 * t) * (self.mu / self.lam.sqrt())

    def to_scipy(self) -> Any:
        mu, lam = self._numpy()
        return stats.invgauss(mu / lam, scale=lam)

    def _log_density(self, y: Tensor) -> Tensor:
        z = self.lam.sqrt() / y.sqrt() * ((y - self.mu) / self.mu)
        return 0.5 * (torch.log(self.lam) - math.log(2 * math.pi)) - 1.5 * torch.log(y) - 0.5 * z**2

    def _draw(self, shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        """Michael, Schucany and Haas (1976): a root of (x - μ)² λ = μ² x z², or μ² over it."""
        z2 = torch.randn(shape, dtype=self.dtype, device=self.device, generator=generator) ** 2
        w = clamped(z2 * (self.mu / self.lam))
        large = w > _LARGE
        safe = torch.where(large, 0.0, w)
        root = 2 / (2 + safe + torch.sqrt(safe * (safe + 4)))  # the smaller one, in units of μ; λ/z² for large w
        low = torch.where(large, self.lam / z2, self.mu * root)
        high = torch.where(large, clamped(self.mu * w), self.mu / root)
        u = torch.rand(shape, dtype=self.dtype, device=self.device, generator=generator)
        return positive(torch.where(u <= 1 / (1 + torch.where(large, 0.0, root)), low, high), self.dtype)

    def _tails(self, y: Array) -> Tails:
        mu, lam = self._numpy()
        return tails.inverse_gaussian(mu, lam, y)


_LARGE = 1e15  # from here on √(1 + x²) is x in every type
