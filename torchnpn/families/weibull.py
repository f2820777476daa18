"""The Weibull family."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from scipy import special, stats
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import checks
from torchnpn.families.base import ExponentialFamily
from torchnpn.families.deviance import log_ratio
from torchnpn.families.gumbel import log_mean_exp, log_mean_exp_gap
from torchnpn.families.limits import positive_mean, stored
from torchnpn.families.log_normal import saturating_exp
from torchnpn.families.masses import exponential_log_mass
from torchnpn.families.tails import Array, Tails
from torchnpn.finite import clamped, positive
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
        wide = self.widened().entered()
        log_mean = torch.log(wide.lam) + _log_gamma(wide.shape, 1).to(wide.lam)
        log_std = log_mean + 0.5 * _log_relative_variance(wide.shape).to(wide.lam)
        mean, variance = torch.exp(log_mean), torch.exp(2 * log_std)
        return Moments(clamped(mean, self.dtype), clamped(variance, self.dtype))

    @classmethod
    def project(cls, x: Moments, shape: Tensor | float = 1.0) -> Self:
        """λ = m / Γ(1 + 1/k): keeps the mean. E x^k, which the moment projection would keep, is no function of m, s."""
        mean = positive_mean(x)
        return cls.unchecked(stored(mean / torch.exp(_log_gamma(shape, 1).to(mean)), x), shape)

    @property
    def natural(self) -> tuple[Tensor, ...]:
        p = self.entered()
        return (clamped(-(p.lam**-p.shape)),)

    @staticmethod
    def log_partition(*eta: Tensor) -> Tensor:
        return -torch.log(-eta[0])

    def _log_mean_exp(self, t: float) -> Tensor:
        return log_mean_exp(self._log_x(t))

    def _log_mean_exp_gap(self, t: float) -> Tensor:
        return log_mean_exp_gap(self._log_x(t))

    def _log_x(self, t: float) -> Tensor:
        return math.log(t) + clamped(self.shape * torch.log(self.lam))  # x = t λ^k itself may overflow

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.Weibull:
        return torch.distributions.Weibull(self.lam, self._like(self.shape), validate_args)

    def to_scipy(self) -> Any:
        lam, shape = self._numpy()
        return stats.weibull_min(shape, scale=lam)

    def _log_density(self, y: Tensor) -> Tensor:
        """log k - log y + w - e^w with w = k log(y/λ)."""
        k = self._like(self.shape)
        w = clamped(k * log_ratio(y, self.lam))
        return torch.log(k) - torch.log(y) + w - torch.exp(w)

    def log_mass(self, lower: Tensor, upper: Tensor) -> Tensor:
        """log P(lower < x ≤ upper) by the exponential variable (x/λ)^k, in float64 and with gradients."""
        log_lam, k = torch.log(self.lam.double()), torch.as_tensor(self.shape).double()
        none, endless = lower <= 0, upper == torch.inf
        logs = (torch.log(torch.where(odd, 1.0, end.double())) for odd, end in ((none, lower), (endless, upper)))
        a, b = (saturating_exp((log - log_lam) * k) for log in logs)
        return exponential_log_mass(torch.where(none, 0.0, a), torch.where(endless, torch.inf, b))

    def _draw(self, shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        u = torch.rand(shape, dtype=self.dtype, device=self.device, generator=generator)
        log_x = torch.log(-torch.log1p(-u)) / self.shape  # of an exponential variable
        return positive(torch.exp(torch.log(self.lam) + log_x), self.dtype)

    def _tails(self, y: Array) -> Tails:
        lam, k = self._numpy()
        near = np.abs(y - lam) < 0.3 * lam
        logs = np.where(near, np.log1p(np.where(near, (y - lam) / lam, 0.0)), np.log(y) - np.log(lam))
        return Tails.of_log_above(-np.exp(k * logs))

    def _quantile(self, q: Array) -> Array:
        lam, k = self._numpy()
        return np.asarray(np.exp(np.log(lam) + np.log(-np.log1p(-q)) / k))

    def _crps(self, y: Array) -> Array:
        """E |x - y| - ½ E |x - x'| with E |x - y| = y (1 - 2 e^-z) + μ - 2 λ γ(a, z), z = (y/λ)^k and a = 1 + 1/k.

        The smaller of two is Weibull with the scale 2^(-1/k) λ, so that ½ E |x - x'| = μ (1 - 2^(-1/k)): μ drops out.
        """
        lam, k = self._numpy()
        inverse = np.minimum(1 / k, _LARGEST_INVERSE)
        a = 1 + inverse
        log_mean = np.log(lam) + special.gammaln(a)
        z = np.exp(k * (np.log(np.maximum(y, np.finfo(np.float64).tiny)) - np.log(lam)))
        z = np.where(y > 0, z, 0.0)
        # The part of the mean below y, λ γ(a, z): where μ overflows, z < a, and y z e^-z 1F1(1; a + 1; z)/a holds.
        # It is asked there alone: scipy sums it term by term, for ever where z is large.
        huge = log_mean >= _OVERFLOWS
        few = np.where(huge, z, 0.0)
        below = np.where(
            huge,
            y * (few / a) * np.exp(-few) * special.hyp1f1(1.0, a + 1, few),
            np.exp(np.minimum(log_mean, _OVERFLOWS)) * special.gammainc(a, z),
        )
        # Sums of a quarter: the score may be finite where its parts are not.
        quarter = y / 4 * (1 - 2 * np.exp(-z)) + np.exp(log_mean - math.log(2) * (inverse + 2)) - below / 2
        return np.asarray(4 * np.minimum(quarter, np.finfo(np.float64).max / 4))

    def scaled(self, shift: Tensor, scale: Tensor) -> Self:
        if bool((shift != 0).any()):
            raise ValueError("A Weibull variable can be scaled, not shifted: its support begins at zero.")
        return self.unchecked(self.lam * scale, self.shape)


def _log_gamma(shape: Tensor | float, n: int) -> Tensor:
    """log Γ(1 + n/k), in float64."""
    return torch.lgamma(1 + n / torch.as_tensor(shape).double())


def _log_relative_variance(shape: Tensor | float) -> Tensor:
    """log(Γ(1 + 2/k)/Γ(1 + 1/k)² - 1), in float64; for large k by the series of log Γ(1 + e), e = 1/k."""
    e = (1 / torch.as_tensor(shape).double()).clamp_max(_LARGEST_INVERSE)
    series = torch.zeros_like(e)
    for n in range(24, 1, -1):  # log Γ(1 + e) = -γ e + Σ ζ(n) (-e)^n/n, whose first term drops out
        series = series * -e.clamp_max(_SERIES) + float(special.zeta(n)) / n * (2.0**n - 2)
    near = e < _SERIES
    gap = torch.where(near, e**2 * series, torch.lgamma(1 + 2 * e) - 2 * torch.lgamma(1 + e))
    log_gap = torch.where(near, 2 * torch.log(e) + torch.log(torch.where(near, series, 1.0)), torch.log(gap))
    return log_gap + torch.log(_exp_excess(gap))


def _exp_excess(x: Tensor) -> Tensor:
    """(e^x - 1)/x for x ≥ 0, 1 at zero."""
    zero = x == 0
    return torch.where(zero, 1.0, torch.expm1(x) / torch.where(zero, 1.0, x))


_SERIES = 0.02  # of 1/k, within which the series holds
_OVERFLOWS = 700.0  # logs above
_LARGEST_INVERSE = 1e300  # of shapes, whose log Γ is finite
