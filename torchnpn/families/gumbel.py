"""The Gumbel family, and the two functions of Theorem 1 for an exponential variable given by its log mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from scipy import stats
from torch import Tensor
from torch.nn.functional import logsigmoid

from torchnpn.families import checks
from torchnpn.families.base import ExponentialFamily
from torchnpn.families.limits import widened
from torchnpn.families.tails import Array, Tails
from torchnpn.finite import clamped, difference
from torchnpn.moments import Moments

EULER = 0.5772156649015329  # γ, the mean of the standard Gumbel distribution


@dataclass(frozen=True, eq=False)
class Gumbel(ExponentialFamily):
    """Gumbel distribution p(x | μ) = e^-z exp(-e^-z) / β with z = (x - μ)/β on the reals, for a known scale β.

    Natural parameter η = -exp(μ/β), sufficient statistic u(x) = exp(-x/β). `saturating(p, tau, r=0, q=-1)` is
    exp(-τ e^(-x/β)), a sigmoidal unit on the reals whose mean is exactly a logistic function of μ/β - log τ.
    """

    mu: Tensor  # mode
    scale: Tensor | float = 1.0  # β > 0, known

    domain = (checks.REAL, checks.POSITIVE)

    @property
    def moments(self) -> Moments:
        """μ + γβ and π²β²/6."""
        wide = self.widened().entered()
        scale = wide._like(wide.scale)
        variance = (math.pi**2 / 6) * scale**2 + torch.zeros_like(wide.mu)
        return Moments(clamped(wide.mu + EULER * scale, self.dtype), clamped(variance, self.dtype))

    @classmethod
    def project(cls, x: Moments, scale: Tensor | float = 1.0) -> Self:
        """μ = m - γβ: keeps the mean. E exp(-x/β), which the moment projection would keep, needs more than m, s."""
        return cls.unchecked(clamped(widened(x).mean - EULER * scale, x.mean.dtype), scale)

    @property
    def natural(self) -> tuple[Tensor, ...]:
        p = self.entered()
        return (clamped(-torch.exp(p.mu / p.scale)),)

    @staticmethod
    def log_partition(*eta: Tensor) -> Tensor:
        return -torch.log(-eta[0])

    def _log_mean_exp(self, t: float) -> Tensor:
        return log_mean_exp(math.log(t) - clamped(self.mu / self.scale))

    def _log_mean_exp_gap(self, t: float) -> Tensor:
        return log_mean_exp_gap(math.log(t) - clamped(self.mu / self.scale))

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.Gumbel:
        return torch.distributions.Gumbel(self.mu, self.scale, validate_args)

    def to_scipy(self) -> Any:
        mu, scale = self._numpy()
        return stats.gumbel_r(mu, scale)

    def _inside(self, y: Tensor) -> Tensor:
        return y.isfinite()

    def _log_density(self, y: Tensor) -> Tensor:
        scale = self._like(self.scale)
        z = difference(y, self.mu, scale)
        return -z - torch.exp(-z) - torch.log(scale)

    def _draw(self, shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        u = torch.rand(shape, dtype=self.dtype, device=self.device, generator=generator)
        return self.mu - self.scale * torch.log(-torch.log1p(-u).clamp_max(-torch.finfo(u.dtype).tiny))

    def _tails(self, y: Array) -> Tails:
        mu, scale = self._numpy()
        return Tails.of_log_below(-np.exp(-2 * ((0.5 * y - 0.5 * mu) / scale)))

    def _quantile(self, q: Array) -> Array:
        mu, scale = self._numpy()
        exponent = -np.where(q <= 0.5, np.log(q), np.log1p(-(1 - q)))
        return np.asarray(mu - scale * np.log(exponent))


def log_mean_exp(log_x: Tensor) -> Tensor:
    """Δ = -log(1 + x): `gamma.log_mean_exp` of shape 1 for an x that may overflow."""
    return logsigmoid(-log_x)


def log_mean_exp_gap(log_x: Tensor) -> Tensor:
    """δ = log((1 + x)² / (1 + 2x)) = -log(1 - w²) = log(1 + x) - log(1 + w) with w = x/(1 + x)."""
    w = torch.sigmoid(log_x)
    small = log_x < 0
    return torch.where(small, -torch.log1p(-(torch.where(small, w, 0.0) ** 2)), -logsigmoid(-log_x) - torch.log1p(w))
