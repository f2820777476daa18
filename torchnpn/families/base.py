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

    @staticmethod
    def in_natural_space(*eta: Tensor) -> Tensor:
        """Whether there is a member with these η, element by element."""
        return torch.ones_like(eta[0], dtype=torch.bool)

    def log_mean_exp(self, t: float, statistic: int | None = None) -> Tensor:
        """Δ(t) = log E exp(-t u_i(x)) = A(η - t e_i) - A(η) for t > 0, all that Theorem 1 asks for.

        i is the `statistic`, by default the family's own. Where there is no such mean, Δ is the largest number.
        """
        wide = self._wide_enough(t)
        return clamped(wide._log_mean_exp(t) if statistic is None else wide._shifted(statistic, t), self.dtype)

    def log_mean_exp_gap(self, t: float, statistic: int | None = None) -> Tensor:
        """δ(t) = Δ(2t) - 2Δ(t) ≥ 0, the log of E exp(-2t u) / (E exp(-t u))²."""
        wide = self._wide_enough(t)
        if statistic is None:
            return clamped(wide._log_mean_exp_gap(t), self.dtype)
        once, twice = (wide._shifted(statistic, k * t) for k in (1, 2))
        return clamped(torch.where(twice.isinf(), torch.inf, (twice - 2 * once).clamp_min(0.0)), self.dtype)

    def _wide_enough(self, t: float) -> Self:
        """The same member in a type in which t, its square and its root are ordinary numbers."""
        if not 0 < t < math.inf:
            raise ValueError(f"log_mean_exp and log_mean_exp_gap expect a finite t > 0, got {t!r}.")
        return (self.widened() if _ORDINARY < t < 1 / _ORDINARY else self.to(torch.float64)).entered()

    def _log_mean_exp(self, t: float) -> Tensor:
        return self._shifted(self.statistic, t).to(self.dtype)

    def _shifted(self, i: int, t: float) -> Tensor:
        """A(η - t e_i) - A(η) in float64; infinite where there is no such member."""
        eta = natural.in_float64(self.natural)
        if not 0 <= i < len(eta):
            raise ValueError(
                f"{type(self).__name__} has {len(eta)} sufficient statistics, counted from 0, got statistic={i!r}."
            )
        there = natural.shifted(eta, i, t)
        exists = self.in_natural_space(*there)
        safe = tuple(torch.where(exists, moved, own) for moved, own in zip(there, eta, strict=True))
        return torch.where(exists, self.log_partition(*safe) - self.log_partition(*eta), torch.inf)

    def _log_mean_exp_gap(self, t: float) -> Tensor:
        eta, i = natural.in_float64(self.natural), self.statistic
        once, twice = (self.log_partition(*natural.shifted(eta, i, k * t)) for k in (1, 2))
        gap = twice - 2 * once + self.log_partition(*eta)
        return gap.clamp_min(0.0).to(self.dtype)  # A is convex: what falls below zero is rounding


def zero_if_point(x: Moments) -> Tensor:
    """The variance of `x` as a tensor: zeros for a point."""
    return torch.zeros_like(x.mean) if x.variance is None else x.variance
