"""The Pareto family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch
from scipy import stats
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import checks
from torchnpn.families.base import ExponentialFamily
from torchnpn.families.gamma import log_mean_exp, log_mean_exp_gap
from torchnpn.families.limits import eps, positive_mean
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
        one, two = self.alpha > 1, self.alpha > 2
        mean = torch.where(one, self.x_min * (self.alpha / torch.where(one, self.alpha - 1, 1.0)), torch.inf)
        below, narrow = torch.where(two, self.alpha - 1, 1.0), torch.where(two, self.alpha - 2, 1.0)
        return Moments(mean, torch.where(two, (self.x_min / below) ** 2 * (self.alpha / narrow), torch.inf))

    @classmethod
    def project(cls, x: Moments, x_min: Tensor | float = 1.0) -> Self:
        """α = m/(m - x_min): keeps the mean. E log x, which the moment projection would keep, needs more than m, s."""
        unit, mean = eps(x.mean.dtype), positive_mean(x)
        return cls.unchecked(1 / ((mean - x_min) / mean).clamp(unit, 1 - unit), x_min)

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

    def log_mean_exp(self, t: float) -> Tensor:
        return log_mean_exp(1.0, t / self.alpha)

    def log_mean_exp_gap(self, t: float) -> Tensor:
        return log_mean_exp_gap(1.0, t / self.alpha)

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.Pareto:
        return torch.distributions.Pareto(self._like(self.x_min), self.alpha, validate_args)

    def to_scipy(self) -> Any:
        alpha, x_min = self._numpy()
        return stats.pareto(alpha, scale=x_min)

    def _inside(self, y: Tensor) -> Tensor:
        return y >= self.x_min

    def _log_density(self, y: Tensor) -> Tensor:
        return torch.log(self.alpha / y) - self.alpha * torch.log(y / self.x_min)
