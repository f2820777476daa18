"""The Gaussian family."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from scipy import special, stats
from torch import Tensor

from torchnpn.families import checks, tails
from torchnpn.families.base import ExponentialFamily, zero_if_point
from torchnpn.families.tails import Array, Tails
from torchnpn.finite import clamped, difference, entering
from torchnpn.metrics import normal_crps
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
        """Infinite for a point, but for m/s = 0 where m = 0."""
        m, s = entering(self.m), entering(self.s)
        point, s = s == 0, torch.where(s == 0, 1.0, s)
        m = torch.where(point & (m != 0), torch.copysign(torch.full_like(m, torch.inf), m), m)
        return torch.where(point, m, clamped(m / s)), torch.where(point, -torch.inf, clamped(-0.5 / s))

    @staticmethod
    def log_partition(*eta: Tensor) -> Tensor:
        return -(eta[0] ** 2) / (4 * eta[1]) - 0.5 * torch.log(-2 * eta[1])

    def _log_mean_exp(self, t: float) -> Tensor:
        return clamped(t * (0.5 * t * self.s - self.m))

    def _log_mean_exp_gap(self, t: float) -> Tensor:
        return t * (t * self.s) + torch.zeros_like(self.m)

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.Normal:
        return torch.distributions.Normal(self.m, self.s.sqrt(), validate_args)

    def to_scipy(self) -> Any:
        m, s = self._numpy()
        return stats.norm(m, s**0.5)

    def _inside(self, y: Tensor) -> Tensor:
        return y.isfinite() & ((self.s > 0) | (y == self.m))

    def _pole(self, y: Tensor) -> Tensor:
        return (self.s == 0) & (y == self.m)

    def _log_density(self, y: Tensor) -> Tensor:
        s = torch.where(self.s == 0, 1.0, self.s)
        return -0.5 * difference(y, self.m, s.sqrt()) ** 2 - 0.5 * (torch.log(s) + math.log(2 * math.pi))

    def _draw(self, shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        return self.m + self.s.sqrt() * torch.randn(shape, dtype=self.dtype, device=self.device, generator=generator)

    def cdf(self, y: Tensor | float) -> Tensor:
        """Φ((y - m) / √s), with gradients; a step where s = 0."""
        wide = self.entered(torch.float64)
        y, point = entering(wide._like(y)), wide.s == 0
        z = difference(y, wide.m, torch.where(point, 1.0, wide.s).sqrt())
        return torch.where(point, (y >= wide.m).to(z.dtype), torch.special.ndtr(z)).to(self.dtype)

    def quantile(self, q: Tensor | float) -> Tensor:
        """m + √s Φ⁻¹(q), with gradients; infinite for q = 0 and 1, unless s = 0."""
        wide, levels = self.entered(torch.float64), torch.as_tensor(self._levels(q), device=self.device)
        point, end = wide.s == 0, (levels == 0) | (levels == 1)
        std, z = torch.where(point, 1.0, wide.s).sqrt(), torch.special.ndtri(levels)
        inner = clamped(torch.where(point, wide.m, wide.m + std * torch.where(end, 0.0, z)), self.dtype)
        return torch.where(end & ~point, z.to(self.dtype), inner)

    def _crps(self, y: Array) -> Array:
        m, s = self._numpy()
        return normal_crps(m, np.sqrt(s), y)

    def scaled(self, shift: Tensor, scale: Tensor) -> Self:
        return self.unchecked(shift + scale * self.m, clamped(scale**2 * self.s))

    def _tails(self, y: Array) -> Tails:
        m, s = self._numpy()
        z = 2 * ((0.5 * y - 0.5 * m) / (s + (s == 0)) ** 0.5)
        above, below = (y < m).astype(float), (y >= m).astype(float)
        return tails.chosen(s == 0, Tails(below, above), Tails(special.ndtr(z), special.ndtr(-z)))
