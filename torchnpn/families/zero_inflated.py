"""A count or an amount with more zeros than its family has: a point at zero beside any distribution on x ≥ 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.constraints import Constraint

from torchnpn.families import checks
from torchnpn.families.parametric import Parametric, float64
from torchnpn.families.tails import Array, Tails
from torchnpn.finite import clamped, entering
from torchnpn.moments import Moments

_BASES = (constraints.nonnegative_integer, constraints.positive)


@dataclass(frozen=True, eq=False)
class ZeroInflated(Parametric):
    """0 with probability p, else a draw from `base`, a distribution of counts or of positive amounts.

    With G, μ, v the distribution function, mean and variance of the base: P(x ≤ t) = p + (1-p) G(t) for t ≥ 0, E x =
    (1-p) μ, Var x = (1-p) (v + p μ²). For counts `log_prob` is log P(x = y), with both sorts of zeros in P(x = 0); for
    amounts it is log p at y = 0, the logarithm of a probability, and log (1-p) g(y), that of a density, for y > 0.

    >>> from torchnpn.families import Gamma
    >>> claims = ZeroInflated(Gamma(2.0, 0.01), 0.9)
    >>> claims.mean, claims.cdf(0.0)
    (tensor(20.), tensor(0.9000))
    """

    base: Parametric
    p: Tensor  # probability of a zero that is not the base's own, in [0, 1]

    interior = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.base, Parametric) or self.base.support not in _BASES:
            raise TypeError(
                "ZeroInflated expects a base on the counts 0, 1, 2, … or on the positive numbers, such as Poisson or "
                f"Gamma, got {type(self.base).__name__}."
            )
        p = checks.as_tensor(self.p, "ZeroInflated(p=...)")
        checks.check_floating(p, "ZeroInflated's parameter p")
        checks.check_broadcast("ZeroInflated", {"base": self.base.mean, "p": p})
        checks.require((p >= 0) & (p <= 1), p, "ZeroInflated expects p in [0, 1]", checks.PROBABILITY_HINT)
        object.__setattr__(self, "p", p)

    @property
    def support(self) -> Constraint:  # type: ignore[override]  # that of a member, not of all
        return constraints.nonnegative_integer if self.base.support.is_discrete else constraints.nonnegative

    @property
    def moments(self) -> Moments:
        mean, variance = (entering(part) for part in self.base.moments if part is not None)
        p = entering(self.p)
        spread = clamped(variance + p * clamped(mean * mean))
        return Moments(*torch.broadcast_tensors((1 - p) * mean, (1 - p) * spread))

    def _inside(self, y: Tensor) -> Tensor:
        own = self.base._inside(y) & (self.p < 1)
        return own | ((y == 0) & (self.p > 0))

    def _log_density(self, y: Tensor) -> Tensor:
        zero = y == 0
        certain, log_p = self.p == 1, torch.log(self.p)
        log_rest = torch.log1p(-torch.where(certain, 0.0, self.p))
        own = log_rest + self.base._log_density(torch.where(zero, self.base.interior, y))
        if self.base.support.is_discrete:  # whose `interior` is 0
            at_zero = torch.where(certain, log_p, torch.logaddexp(log_p, own))
        else:
            at_zero = log_p.expand(own.shape)
        return torch.where(zero, at_zero, own)

    def _draw(self, shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        draws = self.base._draw(shape, generator)
        zero = torch.rand(shape, dtype=draws.dtype, device=draws.device, generator=generator) < self.p
        return torch.where(zero, 0.0, draws)

    def _tails(self, y: Array) -> Tails:
        p = float64(self.p)
        below, above = self.base.tails(y)
        return Tails(p + (1 - p) * below, (1 - p) * above)

    def _quantile(self, q: Array) -> Array:
        """0 up to q = p, then the quantile (q - p)/(1 - p) of the base."""
        p = np.broadcast_to(float64(self.p), q.shape)
        rest = np.clip(1 - (1 - q) / (1 - p), np.finfo(np.float64).tiny, 1 - np.finfo(np.float64).epsneg)
        above = self.base._quantile(np.where(q > p, rest, 0.5))
        return np.where(q > p, np.maximum(above, 0.0), 0.0)

    def _crps(self, y: Array) -> Array:
        """p |y| + (1 - p) C(y) - p (1 - p) C(0), with C the score of the base, as C(0) = ∫ (1 - G)² over x ≥ 0."""
        p = float64(self.p)
        zero = np.broadcast_to(np.zeros(()), y.shape)
        own, at_zero = (np.maximum(self.base._crps(x), 0.0) for x in (y, zero))
        return np.asarray(p * np.abs(y) + (1 - p) * (own - p * at_zero))

    def scaled(self, shift: Tensor, scale: Tensor) -> Self:
        return self.unchecked(self.base.scaled(shift, scale), self.p)
