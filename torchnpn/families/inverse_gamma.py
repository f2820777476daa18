"""The inverse gamma family."""

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
from torchnpn.families.limits import positive_moments
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
        mean = torch.where(self.a > 1, self.b / torch.where(self.a > 1, self.a - 1, 1.0), torch.inf)
        return Moments(mean, torch.where(self.a > 2, mean**2 / torch.where(self.a > 2, self.a - 2, 1.0), torch.inf))

    @classmethod
    def project(cls, x: Moments) -> Self:
        """a = m²/s + 2, b = m (a - 1)."""
        mean, v = positive_moments(x)
        return cls.unchecked(1 / v + 2, mean * (1 / v + 1))

    @classmethod
    def check_moments(cls, x: Moments) -> None:
        super().check_moments(x)
        checks.check_positive_mean(cls, x)

    @property
    def natural(self) -> tuple[Tensor, ...]:
        return -self.a - 1, -self.b

    @staticmethod
    def log_partition(*eta: Tensor) -> Tensor:
        a, b = -eta[0] - 1, -eta[1]
        return torch.lgamma(a) - a * torch.log(b)

    def log_mean_exp(self, t: float) -> Tensor:
        return log_mean_exp(self.a, t / self.b)

    def log_mean_exp_gap(self, t: float) -> Tensor:
        return log_mean_exp_gap(self.a, t / self.b)

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.InverseGamma:
        return torch.distributions.InverseGamma(self.a, self.b, validate_args)

    def to_scipy(self) -> Any:
        a, b = self._numpy()
        return stats.invgamma(a, scale=b)

    def _log_density(self, y: Tensor) -> Tensor:
        return self.a * torch.log(self.b) - torch.lgamma(self.a) - (self.a + 1) * torch.log(y) - self.b / y
