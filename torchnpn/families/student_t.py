"""Student's t distribution: a bell with heavy tails. Not an exponential family; for targets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from scipy import special, stats
from torch import Tensor
from torch.distributions import constraints

from torchnpn._torch import standard_gamma
from torchnpn.families import checks, stirling, tails
from torchnpn.families.base import zero_if_point
from torchnpn.families.crps import rising_half
from torchnpn.families.parametric import Parametric
from torchnpn.families.tails import Array, Tails
from torchnpn.finite import clamped, difference, entering, positive
from torchnpn.metrics import saturated
from torchnpn.moments import Moments

_ABOVE_1 = checks.Domain("> 1 and finite", constraints.greater_than(1.0), "With fewer degrees there is no mean.")
_ABOVE_2 = checks.Domain("> 2 and finite", constraints.greater_than(2.0), "With fewer degrees there is no variance.")
_USUAL = 4.0  # degrees of freedom where moments are all that is known
_LARGE = 1e10  # where 1 + x² is x²
_NORMAL = 1e15  # degrees of freedom from which on it is the normal distribution, to all digits
_RIGHT = 1e-9  # relative error of a tail from which on scipy's quantile is not taken


@dataclass(frozen=True, eq=False)
class StudentT(Parametric):
    """Student's t distribution p(x | m, s, ν) = Γ((ν+1)/2)/(Γ(ν/2) √(νπs)) (1 + (x-m)²/νs)^(-(ν+1)/2) on the reals.

    A Gaussian with mean m whose precision is uncertain, gamma(ν/2, νs/2). Its tails fall as |x|^-(ν+1). The variance
    νs/(ν-2) is infinite for ν ≤ 2; for ν ≤ 1 there would be no mean.
    """

    m: Tensor  # centre
    s: Tensor  # squared scale > 0
    nu: Tensor  # degrees of freedom > 1

    domain = (checks.REAL, checks.POSITIVE, _ABOVE_1)

    @property
    def moments(self) -> Moments:
        m, s, nu = torch.broadcast_tensors(entering(self.m), entering(self.s), entering(self.nu))
        finite = nu > 2
        excess = torch.where(finite, nu - 2, 1.0)
        return Moments(m, torch.where(finite, clamped(s + 2 * (s / excess)), torch.inf))

    @classmethod
    def project(cls, x: Moments, nu: Tensor | float = _USUAL) -> Self:
        """s = (1 - 2/ν) · variance, for a known ν > 2."""
        s = zero_if_point(x)
        nu = torch.as_tensor(nu, dtype=x.mean.dtype, device=x.mean.device)
        return cls.unchecked(x.mean, positive(s - 2 * (s / nu), x.mean.dtype), nu)

    @classmethod
    def check_moments(cls, x: Moments, nu: Tensor | float = _USUAL) -> None:
        super().check_moments(x)
        value = torch.as_tensor(nu)
        checks.require(_ABOVE_2.constraint.check(value), value, f"StudentT.from_moments expects nu {_ABOVE_2.words}")

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.StudentT:
        return torch.distributions.StudentT(self.nu, self.m, self.s.sqrt(), validate_args)

    def to_scipy(self) -> Any:
        m, s, nu = self._numpy()
        return stats.t(nu, m, s**0.5)

    def _log_density(self, y: Tensor) -> Tensor:
        return log_density(difference(y, self.m, self.s.sqrt()), self.nu) - 0.5 * torch.log(self.s)

    def _draw(self, shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        z = torch.randn(shape, dtype=self.dtype, device=self.device, generator=generator)
        half = 0.5 * self.nu.expand(shape)
        precision = standard_gamma(half, generator) / half
        return clamped(self.m + (self.s.sqrt() * z) * torch.rsqrt(precision))

    def _tails(self, y: Array) -> Tails:
        m, s, nu = self._numpy()
        return standard_tails(2 * ((0.5 * y - 0.5 * m) / np.sqrt(s)), nu)

    def _quantile(self, q: Array) -> Array:
        """By scipy's inverse of the smaller tail, which is tried, and by search where it is not right."""
        m, s, nu = (np.broadcast_to(part, q.shape) for part in self._numpy())
        least = np.minimum(q, 1 - q)
        z = special.stdtrit(np.minimum(nu, _NORMAL), least)
        y = m - np.sign(0.5 - q) * np.sqrt(s) * np.abs(z)
        right = np.abs(standard_tails(z, nu).below - least) <= _RIGHT * least
        return np.asarray(y) if right.all() else np.where(right, y, super()._quantile(q))

    def _crps(self, y: Array) -> Array:
        """√s (z (2F(z) - 1) + 2 f(z) (ν + z²)/(ν - 1) - 2√ν/(ν - 1) · B(½, ν - ½)/B(½, ν/2)²), z = (y - m)/√s."""
        m, s, nu = self._numpy()
        std, nu = np.sqrt(s), np.minimum(nu, _NORMAL)
        z = np.abs(saturated(2 * ((0.5 * y - 0.5 * m) / std)))
        below, above = standard_tails(z, nu)
        half_spread = rising_half(nu / 2) ** 2 / rising_half(nu - 0.5) * np.sqrt(nu / np.pi)
        log_rest = (
            log_density(torch.tensor(z), torch.tensor(nu)).numpy()
            + np.log(nu)
            + 2 * np.log(np.hypot(1, z / np.sqrt(nu)))
        )
        return np.asarray(std * (z * (below - above) + 2 * (np.exp(log_rest) - half_spread) / (nu - 1)))

    def scaled(self, shift: Tensor, scale: Tensor) -> Self:
        s = positive(scale**2 * self.s, self.dtype)
        return self.unchecked(*torch.broadcast_tensors(shift + scale * self.m, s, self.nu))


def log_density(z: Tensor, nu: Tensor) -> Tensor:
    """log p(z) for centre 0 and scale 1, with log Γ((ν+1)/2)/Γ(ν/2) √(ν/2) formed from Stirling's remainders μ:

    ½ν log(1 + 1/ν) - ½ + μ(½ν + ½) - μ(½ν).
    """
    half = 0.5 * nu
    ratio = half * torch.log1p(1 / nu) - 0.5 + stirling.remainder(half + 0.5) - stirling.remainder(half)
    x = z.abs() / nu.sqrt()
    far = x > _LARGE
    near = torch.where(far, 1.0, x)
    log = torch.where(far, 2 * torch.log(torch.where(far, x, 1.0)), torch.log1p(near * near))
    return ratio - 0.5 * math.log(2 * math.pi) - (half + 0.5) * log


def standard_tails(z: Array, nu: Array) -> Tails:
    """For centre 0 and scale 1: P(|x| > |z|) is the distribution function of beta(ν/2, ½) at ν/(ν + z²)."""
    with np.errstate(all="ignore"):
        x2 = (z / np.sqrt(nu)) ** 2
        inner, outer = np.where(np.isinf(x2), 1.0, x2 / (1 + x2)), 1 / (1 + x2)
    outside = 0.5 * tails.beta(0.5 * nu, np.full_like(nu, 0.5), outer, inner).below
    least, most = outside, 1 - outside
    return Tails(np.where(z < 0, least, most), np.where(z < 0, most, least))
