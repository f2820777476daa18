"""The beta family."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import torch
from scipy import special, stats
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import checks
from torchnpn.families.base import ExponentialFamily, zero_if_point
from torchnpn.families.limits import eps
from torchnpn.moments import Moments


@dataclass(frozen=True, eq=False)
class Beta(ExponentialFamily):
    """Beta distribution p(x | c, d) = x^(c-1) (1-x)^(d-1) / B(c, d) on [0, 1] (paper, Section 2.1).

    Natural parameters η = (c - 1, d - 1), sufficient statistics u(x) = (log x, log(1 - x)). Theorem 1 takes
    u = -log x, so that `saturating(p, tau, r=0, q=-1)` is x^τ.
    """

    c: Tensor  # > 0
    d: Tensor  # > 0

    domain = (checks.POSITIVE, checks.POSITIVE)
    support = constraints.unit_interval

    @property
    def moments(self) -> Moments:
        total = self.c + self.d
        return Moments(self.c / total, (self.c / total) * (self.d / total) / (total + 1))

    @classmethod
    def project(cls, x: Moments) -> Self:
        """c = m ν, d = (1 - m) ν with ν = m(1 - m)/s - 1.

        m is kept within [eps^1.5, 1 - eps] and s/m(1 - m) within [eps, 1 - eps], so that every pair of moments that a
        network may hand over has finite parameters and gradients.
        """
        dtype = x.mean.dtype
        unit, wide = eps(dtype), torch.promote_types(dtype, torch.float32)
        mean = x.mean.to(wide).clamp(unit**1.5, 1 - unit)
        ratio = (zero_if_point(x).to(wide).clamp_max(1.0) / (mean * (1 - mean))).clamp(unit, 1 - unit)
        nu = (1 - ratio) / ratio
        return cls.unchecked((mean * nu).to(dtype), ((1 - mean) * nu).to(dtype))

    @classmethod
    def check_moments(cls, x: Moments) -> None:
        super().check_moments(x)
        name, s = f"{cls.__name__}.from_moments", zero_if_point(x)
        valid = (x.mean > 0) & (x.mean < 1)
        checks.require(valid, x.mean, f"{name} expects a mean in (0, 1)", checks.UNIT_HINT)
        hint = "No variable on [0, 1] has a larger variance."
        checks.require(s < x.mean * (1 - x.mean), s, f"{name} expects a variance < mean · (1 - mean)", hint)

    @property
    def natural(self) -> tuple[Tensor, ...]:
        return self.c - 1, self.d - 1

    @staticmethod
    def log_partition(*eta: Tensor) -> Tensor:
        c, d = eta[0] + 1, eta[1] + 1
        return torch.lgamma(c) + torch.lgamma(d) - torch.lgamma(c + d)

    def log_mean_exp(self, t: float) -> Tensor:
        """log E x^t = log Γ(c+t)/Γ(c) - log Γ(c+d+t)/Γ(c+d), in factors of the recurrence and Stirling's series."""
        c, d = self.c, self.d
        N, series = _plan(t, c.dtype)
        near = sum((torch.log1p(d / (c + i) * (t / (c + d + t + i))) for i in range(N)), torch.zeros_like(c))
        w = c + N + 0.5 * (t - 1)  # Γ(z+t)/Γ(z) ~ w^t exp(-Σ …/w^2j): the middle point leaves even powers only
        u, v = 1 / w, 1 / (w + d)
        terms = [_bernoulli(2 * j + 1, t / 2) / (j * (2 * j + 1)) for j in range(1, series + 1)]
        far = _difference([0.0, *terms], u**2, v**2, d * u * v * (u + v))[1]
        return -near - t * torch.log1p(d * u) - far

    def log_mean_exp_gap(self, t: float) -> Tensor:
        """The same for log Γ(c)Γ(c+2t)/Γ(c+t)² - log Γ(c+d)Γ(c+d+2t)/Γ(c+d+t)²."""
        c, d = self.c, self.d
        N, series = _plan(2 * t, c.dtype)
        near = sum((torch.log1p(_gap_factor(c + i, d, t)) for i in range(N)), torch.zeros_like(c))
        w = c + N + t - 0.5
        u, v = 1 / w, 1 / (w + d)
        terms = [(_bernoulli(2 * j, t) - _bernoulli(2 * j, 0.0)) / (j * (2 * j - 1)) for j in range(1, series + 1)]
        value, difference = _difference(terms, u**2, v**2, d * u * v * (u + v))
        return near + d * u * v * value + v * difference

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.Beta:
        return torch.distributions.Beta(self.c, self.d, validate_args)

    def to_scipy(self) -> Any:
        return stats.beta(*self._numpy())


def _gap_factor(c: Tensor, d: Tensor, t: float) -> Tensor:
    """t² d (a+b) / (b² (a-t) (a+t)) with a = c + t, b = a + d, in ratios that do not overflow."""
    a, b = c + t, c + t + d
    return (t / c) * (t / (a + t)) * (d / b) * ((a + b) / b)


def _plan(t: float, dtype: torch.dtype) -> tuple[int, int]:
    """Factors taken from the recurrence and terms from the series, which needs arguments well above t."""
    return 8 + int(t), 9 if dtype == torch.float64 else 4


_BERNOULLI = [(2.0 ** (1 - k) - 1) * float(b) for k, b in enumerate(special.bernoulli(20))]  # B_k(½)


def _bernoulli(n: int, h: float) -> float:
    """Bernoulli polynomial B_n(½ + h)."""
    return sum(math.comb(n, k) * _BERNOULLI[k] * h ** (n - k) for k in range(0, n + 1, 2))


def _difference(terms: list[float], x: Tensor, y: Tensor, x_minus_y: Tensor) -> tuple[Tensor, Tensor]:
    """P(x) and P(x) - P(y) of the polynomial with these coefficients; the difference keeps its digits."""
    value, quotient = torch.zeros_like(x), torch.zeros_like(x)
    for a in reversed(terms):
        value, quotient = value * x + a, quotient * y + value
    return value, quotient * x_minus_y
