"""The log-normal family."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from scipy import special, stats
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import checks
from torchnpn.families.base import ExponentialFamily
from torchnpn.families.gaussian import Gaussian
from torchnpn.families.limits import positive_moments
from torchnpn.families.masses import normal_log_mass
from torchnpn.families.tails import Array, Tails
from torchnpn.finite import clamped, positive
from torchnpn.metrics import normal_crps, saturated
from torchnpn.moments import Moments

_NEARLY_NORMAL = 1e-12  # variance of log x below which x is normal to more digits than the closed form of CRPS leaves


@dataclass(frozen=True, eq=False)
class LogNormal(ExponentialFamily):
    """Log-normal distribution p(x | m, s) = (2πs)^(-½) exp(-(log x - m)² / 2s) / x on x > 0: log x is N(m, s).

    Natural parameters η = (m/s, -1/2s), sufficient statistics u(x) = (log x, log² x). For targets, not for neurons:
    x^-τ, the activation of Theorem 1, is not bounded.
    """

    m: Tensor  # mean of log x
    s: Tensor  # variance of log x > 0

    domain: ClassVar[tuple[checks.Domain, ...]] = (checks.REAL, checks.POSITIVE)
    support = constraints.positive

    @property
    def moments(self) -> Moments:
        """E x = exp(m + s/2), Var x = (E x)² (e^s - 1) = exp(2m + 2s) (1 - e^-s)."""
        log_variance = 2 * (self.m + self.s) + torch.log(-torch.expm1(-self.s))
        return Moments(saturating_exp(self.m + 0.5 * self.s), saturating_exp(log_variance))

    @classmethod
    def project(cls, x: Moments) -> Self:
        """s = log(1 + v), m = log mean - s/2, with v the relative variance of `x`."""
        mean, v = positive_moments(x)
        s = torch.log1p(v)
        return cls.unchecked((torch.log(mean) - 0.5 * s).to(x.mean.dtype), positive(s, x.mean.dtype))

    @property
    def natural(self) -> tuple[Tensor, ...]:
        return self._logarithm.natural

    @staticmethod
    def log_partition(*eta: Tensor) -> Tensor:
        return Gaussian.log_partition(*eta)

    def _log_mean_exp(self, t: float) -> Tensor:
        return self._logarithm._log_mean_exp(t)

    def _log_mean_exp_gap(self, t: float) -> Tensor:
        return self._logarithm._log_mean_exp_gap(t)

    @property
    def _logarithm(self) -> Gaussian:
        """The distribution of log x."""
        return Gaussian.unchecked(self.m, self.s)

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.LogNormal:
        return torch.distributions.LogNormal(self.m, self.s.sqrt(), validate_args)

    def to_scipy(self) -> Any:
        m, s = self._numpy()
        return stats.lognorm(s**0.5, scale=np.exp(m))

    def _log_density(self, y: Tensor) -> Tensor:
        log_y = torch.log(y)
        return self._logarithm._log_density(log_y) - log_y

    def log_mass(self, lower: Tensor, upper: Tensor) -> Tensor:
        """log P(lower < x ≤ upper), in float64 and with gradients; 0 and infinity are ends, too."""
        m, s = self.m.double(), self.s.double()
        none, endless = lower <= 0, upper == torch.inf
        logs = (torch.log(torch.where(odd, 1.0, end.double())) for odd, end in ((none, lower), (endless, upper)))
        a, b = ((log - m) * torch.rsqrt(s) for log in logs)
        return normal_log_mass(torch.where(none, -torch.inf, a), torch.where(endless, torch.inf, b))

    def _draw(self, shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        return positive(torch.exp(self._logarithm._draw(shape, generator)), self.dtype)

    def _tails(self, y: Array) -> Tails:
        return self._logarithm._tails(np.log(y))

    def _quantile(self, q: Array) -> Array:
        m, s = self._numpy()
        return np.asarray(np.exp(m + np.sqrt(s) * special.ndtri(q)))

    def _crps(self, y: Array) -> Array:
        """y (2Φ(ω) - 1) + 2 E x (Φ(-σ/√2) - Φ(ω - σ)), with σ = √s and ω = (log y - m)/σ."""
        m, s = self._numpy()
        std, log_mean = np.sqrt(s), saturated(m + 0.5 * s)
        omega = np.where(y > 0, (np.log(np.maximum(y, np.finfo(np.float64).tiny)) - m) / std, -np.inf)
        spread = np.exp(log_mean + special.log_ndtr(-std / math.sqrt(2)))
        near = np.minimum(np.exp(log_mean + special.log_ndtr(omega - std)), np.maximum(y, 0.0))  # E x 1{x ≤ y}
        score = y * (special.ndtr(omega) - special.ndtr(-omega)) + 2 * (spread - near)
        mean = saturated(np.exp(log_mean))
        return np.where(s < _NEARLY_NORMAL, normal_crps(mean, std * mean, y), score)

    def scaled(self, shift: Tensor, scale: Tensor) -> Self:
        if bool((shift != 0).any()):
            raise ValueError("A log-normal variable can be scaled, not shifted: its support begins at zero.")
        return self.unchecked(self.m + torch.log(scale), self.s)


@dataclass(frozen=True, eq=False)
class LimitedLogNormal(LogNormal):
    """A log-normal distribution whose mean is the limited expected value E min(x, c), as insurers call it.

    The mean of a wide log-normal variable is made by amounts far above all that were ever seen, and may be absurd where
    its density is good. Amounts above `c` count as `c` in the mean; the density and the variance are those of x.
    """

    c: Tensor  # > 0

    domain = (checks.REAL, checks.POSITIVE, checks.POSITIVE)

    @property
    def moments(self) -> Moments:
        """E min(x, c) = exp(m + s/2) Φ((log c - m - s)/√s) + c Φ((m - log c)/√s), and Var x."""
        std, log_c = self.s.sqrt(), torch.log(self.c)
        below = self.m + 0.5 * self.s + torch.special.log_ndtr((log_c - self.m - self.s) / std)
        above = log_c + torch.special.log_ndtr((self.m - log_c) / std)
        return Moments(saturating_exp(below) + saturating_exp(above), super().moments.variance)

    def _numpy(self) -> list[Array]:
        return LogNormal.unchecked(self.m, self.s)._numpy()

    def scaled(self, shift: Tensor, scale: Tensor) -> Self:
        free = LogNormal.unchecked(self.m, self.s).scaled(shift, scale)
        return self.unchecked(free.m, free.s, self.c * scale)


def saturating_exp(x: Tensor) -> Tensor:
    """e^x, at most about the largest number of the type, and with a gradient of zero there."""
    return torch.exp(clamped(x).clamp_max(math.log(torch.finfo(x.dtype).max) * (1 - 2 * torch.finfo(x.dtype).eps)))
