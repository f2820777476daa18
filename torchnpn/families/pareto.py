"""The Pareto family."""

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
from torchnpn.families.base import ExponentialFamily
from torchnpn.families.deviance import log_ratio
from torchnpn.families.gamma import log_mean_exp, log_mean_exp_gap
from torchnpn.families.limits import eps, stored, widened
from torchnpn.families.tails import Array, Tails
from torchnpn.finite import clamped
from torchnpn.moments import Moments


@dataclass(frozen=True, eq=False)
class Pareto(ExponentialFamily):
    """Pareto distribution p(x | α) = α x_min^α / x^(α+1) on x ≥ x_min, for a known x_min.

    Natural parameter η = -α with h(x) = 1/x, sufficient statistic u(x) = log(x/x_min), exponential with mean 1/α.
    """

    alpha: Tensor  # tail index > 0
    x_min: Tensor | float = 1.0  # > 0, known

    domain = (checks.POSITIVE, checks.POSITIVE)
    support = constraints.positive  # and, element by element, from x_min on

    @property
    def moments(self) -> Moments:
        """α x_min/(α - 1), infinite for α ≤ 1, and x_min² α/((α - 1)² (α - 2)), infinite for α ≤ 2."""
        wide = self.widened().entered()
        alpha, x_min = wide.alpha, wide._like(wide.x_min)
        one, two = alpha > 1, alpha > 2
        above = torch.where(one, alpha - 1, 1.0)
        mean = clamped(x_min * (alpha / above), self.dtype)
        std = x_min / above * torch.sqrt(alpha / torch.where(two, alpha - 2, 1.0))
        infinite = torch.full_like(mean, torch.inf)
        return Moments(torch.where(one, mean, infinite), torch.where(two, clamped(std**2, self.dtype), infinite))

    @classmethod
    def project(cls, x: Moments, x_min: Tensor | float = 1.0) -> Self:
        """α = m/(m - x_min): keeps the mean. E log x, which the moment projection would keep, needs more than m, s."""
        mean = widened(x).mean
        unit, mean = eps(mean.dtype), mean.clamp_min(torch.finfo(mean.dtype).smallest_normal)
        return cls.unchecked(stored(1 / ((mean - x_min) / mean).clamp(unit, 1 - unit), x), x_min)

    @classmethod
    def check_moments(cls, x: Moments, x_min: Tensor | float = 1.0) -> None:
        super().check_moments(x)
        hint = "Pass a smaller one: from_moments(x, x_min=...)."
        checks.require(x.mean > x_min, x.mean, f"{cls.__name__}.from_moments expects a mean > x_min", hint)

    @property
    def natural(self) -> tuple[Tensor, ...]:
        return (-self.alpha,)

    @staticmethod
    def log_partition(*eta: Tensor) -> Tensor:
        return -torch.log(-eta[0])

    def _log_mean_exp(self, t: float) -> Tensor:
        return log_mean_exp(1.0, t / self.alpha, math.log(t) - torch.log(self.alpha))

    def _log_mean_exp_gap(self, t: float) -> Tensor:
        return log_mean_exp_gap(1.0, t / self.alpha, math.log(t) - torch.log(self.alpha))

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.Pareto:
        return torch.distributions.Pareto(self._like(self.x_min), self.alpha, validate_args)

    def to_scipy(self) -> Any:
        alpha, x_min = self._numpy()
        return stats.pareto(alpha, scale=x_min)

    def _inside(self, y: Tensor) -> Tensor:
        return y >= self.x_min

    def _log_density(self, y: Tensor) -> Tensor:
        x_min = self._like(self.x_min)
        y = torch.maximum(y, x_min)  # the point that stands for all outside the support
        return torch.log(self.alpha) - torch.log(y) - self.alpha * log_ratio(y, x_min)

    def _draw(self, shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        u = torch.rand(shape, dtype=self.dtype, device=self.device, generator=generator)
        return self.x_min * torch.exp(-torch.log1p(-u) / self.alpha)

    def _tails(self, y: Array) -> Tails:
        alpha, x_min = self._numpy()
        ratio = np.maximum(y, x_min) / x_min
        logs = np.where(ratio < 2, np.log1p((np.maximum(y, x_min) - x_min) / x_min), np.log(y) - np.log(x_min))
        return Tails.of_log_above(-alpha * logs)

    def _quantile(self, q: Array) -> Array:
        alpha, x_min = self._numpy()
        return np.asarray(np.exp(np.log(x_min) - np.log1p(-q) / alpha).clip(x_min))

    def _extremes(self) -> tuple[Array | float, Array | float]:
        return self._numpy()[1], np.inf
