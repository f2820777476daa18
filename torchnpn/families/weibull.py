"""The Weibull family."""

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
from torchnpn.families.gumbel import log_mean_exp, log_mean_exp_gap
from torchnpn.families.limits import positive_mean
from torchnpn.moments import Moments


@dataclass(frozen=True, eq=False)
class Weibull(ExponentialFamily):
    """Weibull distribution p(x | λ) = k/λ (x/λ)^(k-1) exp(-(x/λ)^k) on x > 0, for a known shape k.

    Natural parameter η = -λ^-k, sufficient statistic u(x) = x^k, which is exponential with mean λ^k.
    """

    lam: Tensor  # scale > 0
    shape: Tensor | float = 1.0  # k > 0, known

    domain = (checks.POSITIVE, checks.POSITIVE)
    support = constraints.positive

    @property
    def moments(self) -> Moments:
        """λ Γ(1 + 1/k) and λ² (Γ(1 + 2/k) - Γ(1 + 1/k)²)."""
        k = self._like(self.shape)
        mean = self.lam * _gamma(1 + 1 / k)
        return Moments(mean, mean**2 * torch.expm1(torch.lgamma(1 + 2 / k) - 2 * torch.lgamma(1 + 1 / k)))

    @classmethod
    def project(cls, x: Moments, shape: Tensor | float = 1.0) -> Self:
        """λ = m / Γ(1 + 1/k): keeps the mean. E x^k, which the moment projection would keep, is no function of m, s."""
        mean = positive_mean(x)
        return cls.unchecked(mean / _gamma(1 + 1 / torch.as_tensor(shape, dtype=mean.dtype, device=mean.device)), shape)

    @classmethod
    def check_moments(cls, x: Moments, shape: Tensor | float = 1.0) -> None:
        super().check_moments(x)
        checks.check_positive_mean(cls, x)

    @property
    def natural(self) -> tuple[Tensor, ...]:
        return (-(self.lam**-self.shape),)

    @staticmethod
    def log_partition(*eta: Tensor) -> Tensor:
        return -torch.log(-eta[0])

    def log_mean_exp(self, t: float) -> Tensor:
        return log_mean_exp(self._log_x(t))

    def log_mean_exp_gap(self, t: float) -> Tensor:
        return log_mean_exp_gap(self._log_x(t))

    def _log_x(self, t: float) -> Tensor:
        return math.log(t) + self.shape * torch.log(self.lam)  # x = t λ^k itself may overflow

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.Weibull:
        return torch.distributions.Weibull(self.lam, self._like(self.shape), validate_args)

    def to_scipy(self) -> Any:
        lam, shape = self._numpy()
        return stats.weibull_min(shape, scale=lam)

    def _log_density(self, y: Tensor) -> Tensor:
        z, k = y / self.lam, self._like(self.shape)
        return torch.log(k / self.lam) + (k - 1) * torch.log(z) - z**k


def _gamma(x: Tensor) -> Tensor:
    return torch.exp(torch.lgamma(x))
