"""What every exponential family offers: p(x | η) = h(x) exp(η·u(x) - A(η)) (paper, Section 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from torchnpn.families import natural
from torchnpn.families.parametric import Parametric
from torchnpn.finite import clamped
from torchnpn.moments import Moments

_ORDINARY = 1e-15  # a t between it and its inverse is computed with in float32


@dataclass(frozen=True, eq=False)
class ExponentialFamily(Parametric):
    """Base of all exponential families: independent variables, one per element of the broadcast parameter tensors.

    A family of your own is a frozen dataclass with `natural`, `log_partition` and `from_moments`. Its moments, its
    activation (Theorem 1) and its KL then follow from derivatives and differences of A(η), in float64.
    """

    statistic: ClassVar[int] = 0  # index i of the u_i(x) of Theorem 1; u_i(x) = x where `moments` is inherited

    @property
    def moments(self) -> Moments:
        """Mean and variance: ∂A/∂η_i and ∂²A/∂η_i², where u_i(x) = x."""
        first, second = natural.derivatives(self.log_partition, natural.in_float64(self.natural), self.statistic)
        return Moments(first.to(self.dtype), second.to(self.dtype))

    @property
    def natural(self) -> tuple[Tensor, ...]:
        """Natural parameters η."""
        raise NotImplementedError(f"{type(self).__name__} needs a property `natural`: the tuple of its η.")

    def log_partition(self, *eta: Tensor) -> Tensor:
        """Log-partition function A(η); a static method where the family has no known constants."""
        raise NotImplementedError(f"{type(self).__name__} needs a method `log_partition(*eta)`.")

    def log_mean_exp(self, t: float) -> Tensor:
        """Δ(t) = log E exp(-t u_i(x)) = A(η - t e_i) - A(η) for t > 0, all that Theorem 1 asks for."""
        return clamped(self._wide_enough(t)._log_mean_exp(t), self.dtype)

    def log_mean_exp_gap(self, t: float) -> Tensor:
        """δ(t) = Δ(2t) - 2Δ(t) ≥ 0, the log of E exp(-2t u) / (E exp(-t u))²."""
        return clamped(self._wide_enough(t)._log_mean_exp_gap(t), self.dtype)

    def _wide_enough(self, t: float) -> Self:
        """The same member in a type in which t, its square and its root are ordinary numbers."""
        if not 0 < t < math.inf:
            raise ValueError(f"log_mean_exp and log_mean_exp_gap expect a finite t > 0, got {t!r}.")
        return (self.widened() if _ORDINARY < t < 1 / _ORDINARY else self.to(torch.float64)).entered()

    def _log_mean_exp(self, t: float) -> Tensor:
        eta = natural.in_float64(self.natural)
        return (self.log_partition(*natural.shifted(eta, self.statistic, t)) - self.log_partition(*eta)).to(self.dtype)

    def _log_mean_exp_gap(self, t: float) -> Tensor:
        eta, i = natural.in_float64(self.natural), self.statistic
        once, twice = (self.log_partition(*natural.shifted(eta, i, k * t)) for k in (1, 2))
        gap = twice - 2 * once + self.log_partition(*eta)
        return gap.clamp_min(0.0).to(self.dtype)  # A is convex: what falls below zero is rounding


def zero_if_point(x: Moments) -> Tensor:
    """The variance of `x` as a tensor: zeros for a point."""
    return torch.zeros_like(x.mean) if x.variance is None else x.variance
