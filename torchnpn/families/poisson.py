"""The Poisson family."""

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
from torchnpn.moments import Moments


@dataclass(frozen=True, eq=False)
class Poisson(ExponentialFamily):
    """Poisson distribution p(x | c) = c^x exp(-c) / x! on x = 0, 1, 2, … (paper, Section 3.3).

    Natural parameter η = log c, sufficient statistic u(x) = x. A rate of zero is the count zero for certain.
    """

    c: Tensor  # rate ≥ 0

    domain = (checks.NONNEGATIVE,)
    support = constraints.nonnegative_integer
    interior = 0.0

    @property
    def moments(self) -> Moments:
        return Moments(self.c, self.c)

    @classmethod
    def project(cls, x: Moments) -> Self:
        """c = m: the moment projection, which keeps the mean."""
        return cls.unchecked(x.mean.clamp_min(0.0))

    @classmethod
    def from_moments_kl(cls, x: Moments) -> Self:
        """The paper's map: the c whose Gaussian proxy N(c, c) is nearest to N(m, s) in KL; checks `x` first.

        It keeps c where m = s = c, but for small variances and m < ½ it gives c ≈ s/(1 - 2m): the mean is lost.
        """
        super().check_moments(x)
        member = cls.project_kl(x)
        checks.check_parameters(member)
        return member

    @classmethod
    def project_kl(cls, x: Moments) -> Self:
        """c = (R - b)/4 with b = 1 - 2m, R² = b² + 8s, as 2s/(b + R) where R - b cancels; singular at m = ½, s = 0."""
        s, b = zero_if_point(x), 1 - 2 * x.mean
        R = (b**2 + 8 * s).clamp_min(torch.finfo(b.dtype).tiny).sqrt()
        small = b > 0
        return cls.unchecked(torch.where(small, 2 * s / (torch.where(small, b, 1.0) + R), (R - b) / 4))

    @classmethod
    def check_moments(cls, x: Moments) -> None:
        super().check_moments(x)
        checks.require(x.mean >= 0, x.mean, f"{cls.__name__}.from_moments expects a mean ≥ 0", checks.POSITIVE_HINT)

    @property
    def natural(self) -> tuple[Tensor, ...]:
        return (torch.log(self.c),)

    @staticmethod
    def log_partition(*eta: Tensor) -> Tensor:
        return torch.exp(eta[0])

    def log_mean_exp(self, t: float) -> Tensor:
        return self.c * math.expm1(-t)

    def log_mean_exp_gap(self, t: float) -> Tensor:
        return self.c * math.expm1(-t) ** 2

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.Poisson:
        return torch.distributions.Poisson(self.c, validate_args)

    def to_scipy(self) -> Any:
        return stats.poisson(*self._numpy())

    def _log_density(self, y: Tensor) -> Tensor:
        y_log_c = torch.where(y == 0, 0.0, y * torch.log(torch.where(y == 0, 1.0, self.c)))  # torch: NaN slope at c = 0
        return y_log_c - self.c - torch.lgamma(y + 1)
