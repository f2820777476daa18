"""The negative binomial family."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from scipy import special, stats
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import checks, poisson, stirling, tails
from torchnpn.families.base import ExponentialFamily, zero_if_point
from torchnpn.families.crps import NORMAL
from torchnpn.families.deviance import deviance
from torchnpn.families.gamma import log_draw
from torchnpn.families.limits import eps, positive_moments, stored, widened
from torchnpn.families.tails import Array, Tails
from torchnpn.finite import clamped, entering
from torchnpn.metrics import normal_crps, saturated
from torchnpn.moments import Moments

_POISSON = 1e15  # n over the mean from which on counts are Poisson, to all digits
_STEP, _REACH = 1 / 8, 37.0  # of the trapezoid rule in log t: errors e^(-π²/2 / step) and e^-reach, below 1e-15
_ROWS_AT_ONCE = 4096  # 600 nodes each: 20 MB


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
        n, p = entering(self.n), entering(self.p)
        mean = clamped(n * (p / (1 - p)))
        return Moments(mean, clamped(mean / (1 - p)))

    @classmethod
    def project(cls, x: Moments, n: Tensor | float | None = None) -> Self:
        """n = m²/(s - m), then p = m/(n + m) = 1 - m/s; with a known n the mean alone gives p."""
        wide = widened(x)
        mean, v = positive_moments(Moments(wide.mean, zero_if_point(wide) - wide.mean))
        n = 1 / v if n is None else n + torch.zeros_like(mean)
        below_one = 1 - max(eps(mean.dtype), torch.finfo(x.mean.dtype).eps)
        return cls.unchecked(stored(n, x), stored((mean / (n + mean)).clamp_max(below_one), x))

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
        return (torch.log(entering(self.p)),)

    def log_partition(self, *eta: Tensor) -> Tensor:
        return -self.n * torch.log1p(-torch.exp(eta[0]))

    def _log_mean_exp(self, t: float) -> Tensor:
        """-n log(1 + (1 - e^-t) p/(1-p))."""
        return -self.n * torch.log1p(-math.expm1(-t) * (self.p / (1 - self.p)))

    def _log_mean_exp_gap(self, t: float) -> Tensor:
        """n log(1 + (1 - e^-t)² p/((1-p)(1 - p e^-2t)))."""
        below = 1 - self.p * math.exp(-2 * t)
        return self.n * torch.log1p(math.expm1(-t) ** 2 * (self.p / (1 - self.p)) / below)

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.NegativeBinomial:
        return torch.distributions.NegativeBinomial(self.n, self.p, validate_args=validate_args)

    def to_scipy(self) -> Any:
        n, p = self._numpy()
        return stats.nbinom(n, 1 - p)

    def _inside(self, y: Tensor) -> Tensor:
        return super()._inside(y) & ((self.p > 0) | (y == 0))

    def _log_density(self, y: Tensor) -> Tensor:
        """n log(1-p) for y = 0, else with N = n + y

        log n/N - D(n, N (1-p)) - D(y, N p) + μ(N) - μ(n) - μ(y) - ½ log 2π n y/N.
        """
        zero = y == 0
        y, p = torch.where(zero, 1.0, y), torch.where(zero, 0.5, self.p)
        N = clamped(self.n + y)
        lack = deviance(self.n, N * (1 - p)) + deviance(y, N * p, torch.log(N) + torch.log(p))
        rest = stirling.remainder(N) - stirling.remainder(self.n) - stirling.remainder(y)
        lead = 0.5 * (torch.log(self.n) - torch.log(N) - torch.log(y) - math.log(2 * math.pi))
        return torch.where(zero, self.n * torch.log1p(-self.p), lead + rest - lack)

    def _draw(self, shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        """A Poisson count whose rate is gamma(n, (1-p)/p)."""
        log_rate = log_draw(self.n, shape, generator) + torch.log(self.p) - torch.log1p(-self.p)
        return poisson.draw(torch.exp(log_rate), generator)

    def _tails(self, y: Array) -> Tails:
        n, p = self._numpy()
        return tails.beta(y + 1, n, p, 1 - p).swapped

    def _extremes(self) -> tuple[Array | float, Array | float]:
        _, p = self._numpy()
        return 0.0, np.where(p > 0, np.inf, 0.0)

    def _crps(self, y: Array) -> Array:
        """y (2F_n(y) - 1) - m (2F_(n+1)(y - 1) - 1) - ½ E|X - X'|, with m = n p/(1 - p) and 1 - F_n(k) = I_p(k + 1, n),

        which keeps the digits of a small p: with n = 10⁸ the distribution is nearly Poisson, from 10¹⁵ on it is.
        """
        n, p, y = np.broadcast_arrays(*self._numpy(), y)
        mean = saturated(n * (p / (1 - p)))
        is_poisson, is_normal = (n > _POISSON) & (mean < n / _POISSON), (n > NORMAL) & (mean > NORMAL)
        plain = ~(is_poisson | is_normal)
        n_, p_, m_ = np.where(plain, n, 1.0), np.where(plain, p, 0.0), np.where(is_poisson, mean, 1.0)
        above = np.where(plain, special.betainc(y + 1, n_, p_), special.gammainc(y + 1, m_))
        next_ = np.where(plain, special.betainc(np.maximum(y, 1), n_ + 1, p_), special.gammainc(np.maximum(y, 1), m_))
        to_y = y * (1 - 2 * above) - mean * (1 - 2 * np.where(y > 0, next_, 1.0))
        counts = np.maximum(to_y - _half_spread(n, p), 0.0)
        return np.asarray(np.where(is_normal, normal_crps(mean, np.sqrt(mean) * np.sqrt(1 + mean / n), y), counts))


def _half_spread(n: Array, p: Array) -> Array:
    """½ E|X - X'| for independent X, X' ~ NegativeBinomial(n, p), to all digits for any n.

    For an integer D, |D| = 1/π ∫_0^π (1 - cos Dθ)/(1 - cos θ) dθ. For D = X - X' the mean of cos Dθ is the squared
    characteristic function, (1 + c sin²(θ/2))^-n with c = 4p/(1 - p)². With t = tan(θ/2):
        ½ E|D| = 1/(2π) ∫_0^∞ (1 - (1 + c t²/(1 + t²))^-n) / t² dt.
    In log t the integrand is smooth and falls off like exp(-|log t - centre|), so the trapezoid rule is enough.
    """
    c = 4 * p / (1 - p) ** 2
    centre = -0.5 * np.log(np.maximum(1.0, c * np.maximum(n, 1.0)))
    offsets = np.arange(-_REACH, _REACH + _STEP, _STEP)

    def integral(n: Array, c: Array, centre: Array) -> Array:  # (rows, 1) each -> (rows,)
        t = np.exp(centre + offsets)  # (rows, nodes)
        kept = -np.expm1(-n * np.log1p(c * (t**2 / (1 + t**2))))
        return np.asarray(np.sum(kept / t, axis=-1) * _STEP / (2 * np.pi))

    rows = np.stack([a.ravel() for a in (n, c, centre)])[..., None]  # (3, rows, 1)
    parts = [integral(*rows[:, i : i + _ROWS_AT_ONCE]) for i in range(0, rows.shape[1], _ROWS_AT_ONCE)]
    return np.concatenate(parts).reshape(n.shape) if parts else np.zeros(n.shape)
