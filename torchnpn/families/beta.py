"""The beta family."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from scipy import special, stats
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import checks, gamma, stirling, tails
from torchnpn.families.base import ExponentialFamily, zero_if_point
from torchnpn.families.crps import NORMAL, rising_half
from torchnpn.families.deviance import deviance, excess
from torchnpn.families.gamma import log_draw
from torchnpn.families.limits import eps, stored, widened
from torchnpn.families.tails import Array, Tails
from torchnpn.finite import clamped, entering
from torchnpn.metrics import normal_crps
from torchnpn.moments import Moments


@dataclass(frozen=True, eq=False)
class Beta(ExponentialFamily):
    """Beta distribution p(x | c, d) = x^(c-1) (1-x)^(d-1) / B(c, d) on [0, 1] (paper, Section 2.3).

    Natural parameters η = (c - 1, d - 1), sufficient statistics u(x) = (log x, log(1 - x)). Theorem 1 takes
    u = -log x, so that `saturating(p, tau, r=0, q=-1)` is x^τ.
    """

    c: Tensor  # > 0
    d: Tensor  # > 0

    domain = (checks.POSITIVE, checks.POSITIVE)
    support = constraints.unit_interval

    @property
    def moments(self) -> Moments:
        c, d = 0.5 * entering(self.c), 0.5 * entering(self.d)  # their sum would overflow
        mean = torch.where(c + d > 0, c / (c + d), 0.5)  # of two denormal numbers that were halved to zero
        return Moments(mean, mean * torch.where(c + d > 0, d / (c + d), 0.5) / (2 * (0.5 + c + d)))

    @classmethod
    def project(cls, x: Moments) -> Self:
        """c = m ν, d = (1 - m) ν with ν = m(1 - m)/s - 1.

        m is kept within [eps^1.5, 1 - eps] and s/m(1 - m) within [eps, 1 - eps], so that every pair of moments that a
        network may hand over has finite parameters and gradients.
        """
        unit, wide = eps(x.mean.dtype), widened(x)
        mean = wide.mean.clamp(unit**1.5, 1 - unit)
        ratio = (zero_if_point(wide).clamp_max(1.0) / (mean * (1 - mean))).clamp(unit, 1 - unit)
        nu = (1 - ratio) / ratio
        return cls.unchecked(stored(mean * nu, x), stored((1 - mean) * nu, x))

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

    @staticmethod
    def in_natural_space(*eta: Tensor) -> Tensor:
        return (eta[0] > -1) & (eta[1] > -1)

    def _log_mean_exp(self, t: float) -> Tensor:
        """log E x^t = log Γ(c+t)/Γ(c) - log Γ(c+d+t)/Γ(c+d), in float64."""
        c, d = _enlarged(*torch.broadcast_tensors(self.c.double(), self.d.double()))
        return (_by_recurrence(c, d, t) if t < _LARGE else _by_stirling(c, d, t)).to(self.dtype)

    def _log_mean_exp_gap(self, t: float) -> Tensor:
        """log Γ(c)Γ(c+2t)/Γ(c+t)² - log Γ(c+d)Γ(c+d+2t)/Γ(c+d+t)², in float64."""
        c, d = _enlarged(*torch.broadcast_tensors(self.c.double(), self.d.double()))
        return (_gap_by_recurrence(c, d, t) if t < _LARGE else _gap_by_stirling(c, d, t)).to(self.dtype)

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.Beta:
        return torch.distributions.Beta(self.c, self.d, validate_args)

    def to_scipy(self) -> Any:
        return stats.beta(*self._numpy())

    def _inside(self, y: Tensor) -> Tensor:
        return (y >= 0) & (y <= 1) & ~((y == 0) & (self.c > 1)) & ~((y == 1) & (self.d > 1))

    def _pole(self, y: Tensor) -> Tensor:
        return ((y == 0) & (self.c < 1)) | ((y == 1) & (self.d < 1))

    def _log_density(self, y: Tensor) -> Tensor:
        """-D(c, n y) - D(d, n (1-y)) + μ(n) - μ(c) - μ(d) + ½ log cd/2πn - log y (1-y), n = c + d."""
        smallest = torch.finfo(y.dtype).smallest_normal  # at the ends only a density that is finite there is asked for
        x, rest = y.clamp_min(smallest), (1 - y).clamp_min(smallest)
        log_x, log_rest = (
            torch.log(x),
            torch.where(y < 0.5, torch.log1p(-torch.where(y < 0.5, y, 0.0)), torch.log(rest)),
        )
        n = clamped(self.c + self.d)
        log_n = torch.log(n)
        lack = deviance(self.c, n * x, log_n + log_x) + deviance(self.d, n * rest, log_n + log_rest)
        rest_of_stirling = stirling.remainder(n) - stirling.remainder(self.c) - stirling.remainder(self.d)
        lead = 0.5 * (torch.log(self.c) + torch.log(self.d) - log_n - math.log(2 * math.pi))
        return rest_of_stirling + lead - lack - log_x - log_rest

    def _draw(self, shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        """x/(x + y) of two gamma variables, from their logarithms."""
        c, d = _enlarged(self.c, self.d)
        return torch.sigmoid(log_draw(c, shape, generator) - log_draw(d, shape, generator))

    def _tails(self, y: Array) -> Tails:
        c, d = self._numpy()
        return tails.beta(c, d, y, 1 - y)

    def _quantile(self, q: Array) -> Array:
        c, d, q = np.broadcast_arrays(*self._numpy(), q)
        regular = (np.minimum(c, d) >= _LEAST) & (np.maximum(c, d) <= _MOST)
        value = special.betaincinv(np.where(regular, c, 1.0), np.where(regular, d, 1.0), q)
        regular &= np.isfinite(value)
        return value if regular.all() else np.where(regular, value, super()._quantile(q))

    def _crps(self, y: Array) -> Array:
        """y (2F_c(y) - 1) - m (2F_(c+1)(y) - 1) - ½ E|X - X'|, with m = c/(c + d).

        ½ E|X - X'| = (c)_½ (d)_½ / (√π (c + d) (c + d)_½), where (x)_½ = Γ(x + ½)/Γ(x): Legendre's duplication formula
        in 2 B(2c, 2d)/((c + d) B(c, d)²), which is 0/0 in floating point for c + d ≥ 600.
        """
        c, d = self._numpy()
        near_zero, near_one = d > _GAMMA * np.maximum(c, 1), c > _GAMMA * np.maximum(d, 1)
        n = 0.5 * c + 0.5 * d  # half of the sum, which may overflow
        mean, rest = 0.5 * c / n, 0.5 * d / n
        std = np.sqrt(mean) * np.sqrt(rest) / np.sqrt(2 * n + 1)
        score = _crps(np.clip(c, _LEAST_PARAMETER, NORMAL), np.clip(d, _LEAST_PARAMETER, NORMAL), y)
        score = np.where(np.minimum(c, d) > NORMAL, normal_crps(mean, std, y), score)
        score = np.where(near_zero, gamma.crps(c, d, y), score)
        return np.asarray(np.where(near_one, gamma.crps(d, c, 1 - y), score))


_GAMMA = 1e15  # ratio of the parameters from which on a beta variable is gamma, to all digits
_LEAST_PARAMETER = 1e-300  # denormal numbers have no ratio


def _crps(c: Array, d: Array, y: Array) -> Array:
    x = np.clip(y, 0, 1)  # F is 0 below and 1 above
    half_spread = rising_half(c) / (c + d) * (rising_half(d) / rising_half(c + d)) / math.sqrt(math.pi)
    to_y = y * (2 * special.betainc(c, d, x) - 1) - c / (c + d) * (2 * special.betainc(c + 1, d, x) - 1)
    return np.asarray(np.maximum(to_y - half_spread, 0.0))


_LARGE = 16.0  # from here on t has its own formulas, whose work does not grow with t
_LEAST, _MOST = 1e-2, 1e4  # parameters for which scipy's inverse is fast and has its digits
_FAR = 1e3  # c/t from which on the gap is taken from ψ', because its difference would cancel


def _enlarged(c: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
    """Tiny parameters, which say only how likely 0 and 1 are, as numbers that are no denormal ones."""
    tiny = torch.maximum(c, d) < 1e-290
    return torch.where(tiny, c * 1e200, c), torch.where(tiny, d * 1e200, d)


def _by_recurrence(c: Tensor, d: Tensor, t: float) -> Tensor:
    """log E x^t for t < 16, in factors of the recurrence and Stirling's series."""
    N, series = _plan(t)
    first = _log1p_ratio(t * (d / (c + d + t)), c)
    near = sum((torch.log1p(d / (c + d + t + i) * (t / (c + i))) for i in range(1, N)), first)
    w = c + N + 0.5 * (t - 1)  # Γ(z+t)/Γ(z) ~ w^t exp(-Σ …/w^2j): the middle point leaves even powers only
    u, v = 1 / w, 1 / (w + d)
    terms = [_bernoulli(2 * j + 1, t / 2) / (j * (2 * j + 1)) for j in range(1, series + 1)]
    far = _difference([0.0, *terms], u**2, v**2, d * u * v * (u + v))[1]
    return -near - t * torch.log1p(d * u) - far


def _gap_by_recurrence(c: Tensor, d: Tensor, t: float) -> Tensor:
    N, series = _plan(2 * t)
    first = _log1p_ratio(_gap_numerator(c, d, t), c)
    near = sum((torch.log1p(_gap_numerator(c + i, d, t) / (c + i)) for i in range(1, N)), first)
    w = c + N + t - 0.5
    u, v = 1 / w, 1 / (w + d)
    terms = [_bernoulli(2 * j, t) / (j * (2 * j - 1)) for j in range(1, series + 1)]
    value, difference = _difference(terms, u**2, v**2, d * u * v * (u + v))
    return near + d * u * v * value + v * difference


def _by_stirling(c: Tensor, d: Tensor, t: float) -> Tensor:
    """log E x^t, which is symmetric in t and d; with a the smaller and b the larger of them, M = c + b, it is

    -a log(1 + b/(c+a)) - c F(1 + a/c) + M F(1 + a/M) - ½ log (1 + a/c)/(1 + a/M) + μ(c+a) - μ(c) - μ(M+a) + μ(M).
    """
    a, b = d.clamp_max(t), d.clamp_min(t)
    M = clamped(c + b)
    main = -a * _log1p_ratio(b, clamped(c + a)) - _scaled_excess(a, c) + _scaled_excess(a, M)
    rest = _remainder_step(c, a) - _remainder_step(M, a)
    return main - 0.5 * (_log1p_ratio(a, c) - _log1p_ratio(a, M)) + rest


def _gap_by_stirling(c: Tensor, d: Tensor, t: float) -> Tensor:
    """The difference of two of these; for c far above t, t² (ψ'(w) - ψ'(w+d) + t²/12 (…)''), w = c + t."""
    direct = (_by_stirling(c, d, min(2 * t, _MOST_T)) - 2 * _by_stirling(c, d, t)).clamp_min(0.0)
    w = clamped(c + t)
    u, v = 1 / w, 1 / clamped(w + d)
    squares = (u * u + u * v + v * v) + ((t * u) ** 2 + (t * u) * (t * v) + (t * v) ** 2)
    far = (t * u) * (t * (d * v)) * (1 + 0.5 * (u + v) + squares / 6)
    return torch.where(c > _FAR * t, far, direct)


_MOST_T = torch.finfo(torch.float64).max


def _log1p_ratio(a: Tensor, b: Tensor) -> Tensor:
    """log(1 + a/b), also where the quotient overflows."""
    ratio = a / b
    large = ratio > 1e300
    return torch.where(large, torch.log(a) - torch.log(b), torch.log1p(torch.where(large, 0.0, ratio)))


def _scaled_excess(a: Tensor, c: Tensor) -> Tensor:
    """c F(1 + a/c) = a - c log(1 + a/c)."""
    x = (a / c).clamp_max(1e300)
    return torch.where(x < 1, c * excess(x, 1 + x), a - c * _log1p_ratio(a, c))


def _remainder_step(c: Tensor, a: Tensor) -> Tensor:
    """μ(c + a) - μ(c), by the slope where a is small."""
    small = a < 1e-4 * c
    whole = stirling.remainder(clamped(c + a)) - stirling.remainder(c)
    return torch.where(small, a * stirling.slope(c + 0.5 * torch.where(small, a, 0.0)), whole)


def _gap_numerator(c: Tensor, d: Tensor, t: float) -> Tensor:
    """c times t² d (a+b) / (b² (a-t) (a+t)) with a = c + t, b = a + d, in ratios that do not overflow."""
    a, b = c + t, c + t + d
    return t * (t / (a + t)) * (d / b) * (a / b + 1)


def _plan(t: float) -> tuple[int, int]:
    """Factors taken from the recurrence and terms from the series, which needs arguments well above t."""
    return 8 + int(t), 9


_BERNOULLI = [(2.0 ** (1 - k) - 1) * float(b) for k, b in enumerate(special.bernoulli(20))]  # B_k(½)


def _bernoulli(n: int, h: float) -> float:
    """B_n(½ + h) - B_n(½) of the Bernoulli polynomial B_n; B_n(½) = 0 for odd n."""
    return sum(math.comb(n, k) * _BERNOULLI[k] * h ** (n - k) for k in range(0, n, 2))


def _difference(terms: list[float], x: Tensor, y: Tensor, x_minus_y: Tensor) -> tuple[Tensor, Tensor]:
    """P(x) and P(x) - P(y) of the polynomial with these coefficients; the difference keeps its digits."""
    value, quotient = torch.zeros_like(x), torch.zeros_like(x)
    for a in reversed(terms):
        value, quotient = value * x + a, quotient * y + value
    return value, quotient * x_minus_y
