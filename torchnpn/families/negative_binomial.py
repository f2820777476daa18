"""The negative binomial family."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import torch
from scipy import stats
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import checks
from torchnpn.families.base import ExponentialFamily, zero_if_point
from torchnpn.families.limits import eps, positive_moments
from torchnpn.families.stirling import log_rising
from torchnpn.moments import Moments


@dataclass(frozen=True, eq=False)
class NegativeBinomial(ExponentialFamily):
    """Negative binomial distribution p(x | n, p) = Γ(n+x)/(Γ(n) x!) p^x (1-p)^n on x = 0, 1, 2, …

    The count of successes, each of probability p, before the n-th failure (torch's convention), for real n > 0; a
    Poisson count whose rate is gamma(n, (1-p)/p). For a known n: natural parameter η = log p, statistic u(x) = x.
    """

    n: Tensor  # number of failures > 0
    p: Tensor  # probability of a success, in [0, 1)

    domain = (checks.POSITIVE, checks.PROBABILITY_BELOW_1)
    support = constraints.nonnegative_integer
    interior = 0.0

    @property
    def moments(self) -> Moments:
        mean = self.n * (self.p / (1 - self.p))
        return Moments(mean, mean / (1 - self.p))

    @classmethod
    def project(cls, x: Moments, n: Tensor | float | None = None) -> Self:
        """n = m²/(s - m), then p = m/(n + m) = 1 - m/s; with a known n the mean alone gives p."""
        mean, v = positive_moments(Moments(x.mean, zero_if_point(x) - x.mean))
        n = 1 / v if n is None else n + torch.zeros_like(mean)
        return cls.unchecked(n, (mean / (n + mean)).clamp_max(1 - eps(mean.dtype)))

    @classmethod
    def check_moments(cls, x: Moments, n: Tensor | float | None = None) -> None:
        super().check_moments(x)
        checks.check_positive_mean(cls, x)
        if n is None:
            s = zero_if_point(x)
            hint = "Use Poisson, or pass a known n: from_moments(x, n=...)."
            checks.require(s > x.mean, s, f"{cls.__name__}.from_moments expects a variance > the mean", hint)

    @property
    def natural(self) -> tuple[Tensor, ...]:
        return (torch.log(self.p),)

    def log_partition(self, *eta: Tensor) -> Tensor:
        return -self.n * torch.log1p(-torch.exp(eta[0]))

    def log_mean_exp(self, t: float) -> Tensor:
        """-n log(1 + (1 - e^-t) p/(1-p))."""
        return -self.n * torch.log1p(-math.expm1(-t) * (self.p / (1 - self.p)))

    def log_mean_exp_gap(self, t: float) -> Tensor:
        """n log(1 + (1 - e^-t)² p/((1-p)(1 - p e^-2t)))."""
        below = 1 - self.p * math.exp(-2 * t)
        return self.n * torch.log1p(math.expm1(-t) ** 2 * (self.p / (1 - self.p)) / below)

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.NegativeBinomial:
        return torch.distributions.NegativeBinomial(self.n, self.p, validate_args=validate_args)

    def to_scipy(self) -> Any:
        n, p = self._numpy()
        return stats.nbinom(n, 1 - p)

    def _log_density(self, y: Tensor) -> Tensor:
        """Own formula: torch keeps p away from 0, and for large n its difference of log Γ has no digits left."""
        y_log_p = torch.where(y == 0, 0.0, y * torch.log(torch.where(y == 0, 0.5, self.p)))
        return y_log_p + self.n * torch.log1p(-self.p) + log_rising(self.n, y) - torch.lgamma(y + 1)
