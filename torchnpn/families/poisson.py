"""The Poisson family."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from scipy import special, stats
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import checks, stirling, tails
from torchnpn.families.base import ExponentialFamily, zero_if_point
from torchnpn.families.deviance import deviance
from torchnpn.families.limits import widened
from torchnpn.families.tails import Array, Tails
from torchnpn.finite import clamped, entering
from torchnpn.metrics import normal_crps
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
        c = entering(self.c)
        return Moments(c, c)

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
        """c = (R - b)/2 with b = ½ - m, R² = b² + 2s, as s/(b + R) where R - b cancels; singular at m = ½, s = 0."""
        wide = widened(x)
        s, b = zero_if_point(wide), 0.5 - wide.mean
        # 2s and b + R may overflow where c does not
        R = clamped(torch.hypot(b, s.clamp_min(torch.finfo(b.dtype).tiny).sqrt() * math.sqrt(2)))
        small = b > 0
        c = torch.where(small, 0.5 * s / (torch.where(small, 0.5 * b, 1.0) + 0.5 * R), (R - b) / 2)
        return cls.unchecked(clamped(c, x.mean.dtype))

    @classmethod
    def check_moments(cls, x: Moments) -> None:
        super().check_moments(x)
        checks.require(x.mean >= 0, x.mean, f"{cls.__name__}.from_moments expects a mean ≥ 0", checks.POSITIVE_HINT)

    @property
    def natural(self) -> tuple[Tensor, ...]:
        return (torch.log(entering(self.c)),)

    @staticmethod
    def log_partition(*eta: Tensor) -> Tensor:
        return torch.exp(eta[0])

    def _log_mean_exp(self, t: float) -> Tensor:
        return self.c * math.expm1(-t)

    def _log_mean_exp_gap(self, t: float) -> Tensor:
        return self.c * math.expm1(-t) ** 2

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.Poisson:
        return torch.distributions.Poisson(self.c, validate_args)

    def to_scipy(self) -> Any:
        return stats.poisson(*self._numpy())

    def _inside(self, y: Tensor) -> Tensor:
        return super()._inside(y) & ((self.c > 0) | (y == 0))

    def _log_density(self, y: Tensor) -> Tensor:
        """-D(y, c) - μ(y) - ½ log 2πy, or -c for y = 0."""
        zero = y == 0
        y, c = torch.where(zero, 1.0, y), torch.where(zero, 1.0, self.c)
        log_prob = -deviance(y, c) - stirling.remainder(y) - 0.5 * (torch.log(y) + math.log(2 * math.pi))
        return torch.where(zero, -self.c, log_prob)

    def _draw(self, shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        return draw(self.c.expand(shape), generator)

    def _tails(self, y: Array) -> Tails:
        (c,) = self._numpy()
        return tails.gamma(y + 1, c, np.log(c)).swapped

    def _extremes(self) -> tuple[Array | float, Array | float]:
        (c,) = self._numpy()
        return 0.0, np.where(c > 0, np.inf, 0.0)

    def _crps(self, y: Array) -> Array:
        """y (2F(y) - 1) - c (2F(y - 1) - 1) - c e^-2c (I₀(2c) + I₁(2c)), with Bessel's functions."""
        c, y = np.broadcast_arrays(*self._numpy(), y)
        above = tails.gamma(y + 1, c, np.log(c)).below
        next_ = np.where(y > 0, tails.gamma(np.maximum(y, 1), c, np.log(c)).below, 1.0)
        score = y * (1 - 2 * above) - c * (1 - 2 * next_) - c * (special.i0e(2 * c) + special.i1e(2 * c))
        return np.where(c > _NORMAL, normal_crps(c, np.sqrt(c), y), score)


_NORMAL = 1e12  # a count of a larger rate is normal, to six digits of its distribution function


def draw(rate: Tensor, generator: torch.Generator | None) -> Tensor:
    """A count for each rate ≥ 0; from the normal limit where whole numbers of 64 bits could overflow."""
    rate = clamped(rate)
    large = rate > _NORMAL
    counts = torch.poisson(torch.where(large, 0.0, rate), generator=generator)
    normal = torch.randn(rate.shape, dtype=rate.dtype, device=rate.device, generator=generator)
    return torch.where(large, torch.round(clamped(rate + rate.sqrt() * normal)), counts)
