"""The gamma family, and the two functions of Theorem 1 that its relatives share."""

from __future__ import annotations

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
        return Moments(self.c / self.d, self.c / self.d / self.d)  # d² may overflow

    @classmethod
    def project(cls, x: Moments) -> Self:
        """c = m²/s, d = m/s. The supplement prints (m/s, m² s), which does not invert `moments`."""
        mean, v = positive_moments(x)
        return cls.unchecked(1 / v, 1 / (v * mean))

    @classmethod
    def check_moments(cls, x: Moments) -> None:
        super().check_moments(x)
        checks.check_positive_mean(cls, x)

    @property
    def natural(self) -> tuple[Tensor, ...]:
        return self.c - 1, -self.d

    @staticmethod
    def log_partition(*eta: Tensor) -> Tensor:
        c, d = eta[0] + 1, -eta[1]
        return torch.lgamma(c) - c * torch.log(d)

    def log_mean_exp(self, t: float) -> Tensor:
        return log_mean_exp(self.c, t / self.d)

    def log_mean_exp_gap(self, t: float) -> Tensor:
        return log_mean_exp_gap(self.c, t / self.d)

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.Gamma:
        return torch.distributions.Gamma(self.c, self.d, validate_args)

    def to_scipy(self) -> Any:
        c, d = self._numpy()
        return stats.gamma(c, scale=1 / d)


def log_mean_exp(c: Tensor | float, x: Tensor) -> Tensor:
    """Δ = log (1 + x)^(-c), with x = t/d: a gamma variable of shape c; c = 1 is the exponential distribution."""
    return -c * torch.log1p(x)


def log_mean_exp_gap(c: Tensor | float, x: Tensor) -> Tensor:
    """δ = c log((1 + x)² / (1 + 2x)), formed without the difference that cancels."""
    return c * torch.log1p(x * (x / (1 + 2 * x)))
