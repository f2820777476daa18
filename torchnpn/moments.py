"""The pair that flows through a natural-parameter network: mean and variance of independent variables."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Moments(NamedTuple):
    """Mean and variance of independent random variables, element by element.

    `variance=None` says that the values are known exactly (a point); no variance is then computed from them.
    `+`, `-` and `*` are the sum, difference and product of *independent* variables; a tensor or a number counts
    as a point. Beware that `x - x` and `x * x` are therefore not what they look like: a variable is not independent
    of itself (`maps.square` gives the square). Under `torch.func.vmap` pass an explicit zero variance.

    >>> a, b = Moments(torch.tensor(1.0), torch.tensor(0.5)), Moments(torch.tensor(3.0), torch.tensor(2.0))
    >>> a * b
    Moments(mean=tensor(3.), variance=tensor(7.5000))
    >>> 2 * a + 1
    Moments(mean=tensor(3.), variance=tensor(2.))
    """

    mean: Tensor
    variance: Tensor | None = None

    @property
    def std(self) -> Tensor:
        """Standard deviation; zeros for a point."""
        return torch.zeros_like(self.mean) if self.variance is None else self.variance.sqrt()

    def __add__(self, other: Moments | Tensor | float) -> Moments:  # type: ignore[override]  # not tuple concatenation
        """Sum of independent variables: means add, variances add."""
        b = _as_moments(other)
        return Moments(self.mean + b.mean, _sum(self.variance, b.variance))

    def __sub__(self, other: Moments | Tensor | float) -> Moments:
        """Difference of independent variables: means subtract, variances still add."""
        b = _as_moments(other)
        return Moments(self.mean - b.mean, _sum(self.variance, b.variance))

    def __mul__(self, other: Moments | Tensor | float) -> Moments:  # type: ignore[override]  # not tuple repetition
        """Product of independent variables: mean m₁m₂, variance s₁s₂ + s₁m₂² + s₂m₁² (paper, Eq. 2)."""
        b = _as_moments(other)
        variance = _sum(_scaled(self.variance, b), None if b.variance is None else b.variance * self.mean**2)
        return Moments(self.mean * b.mean, variance)

    def __neg__(self) -> Moments:
        return Moments(-self.mean, self.variance)

    def __rsub__(self, other: Tensor | float) -> Moments:
        return -self + other

    def __radd__(self, other: Tensor | float) -> Moments:
        return self + other

    def __rmul__(self, other: Tensor | float) -> Moments:  # type: ignore[override]  # not tuple repetition
        return self * other


def _as_moments(value: object) -> Moments:
    if isinstance(value, Moments):
        return value
    if isinstance(value, (Tensor, int, float)):
        return Moments(value)  # type: ignore[arg-type]  # a number broadcasts like a tensor
    raise TypeError(
        f"Moments combine with Moments, a tensor or a number, got {type(value).__name__}. "
        "Wrap pairs as npn.Moments(mean, variance)."
    )


def _sum(s: Tensor | None, t: Tensor | None) -> Tensor | None:
    if s is None or t is None:
        return t if s is None else s
    return s + t


def _scaled(s: Tensor | None, b: Moments) -> Tensor | None:
    """s₁ (m₂² + s₂): the part of a product's variance that comes from the first factor's variance."""
    if s is None:
        return None
    return s * (b.mean**2 if b.variance is None else b.mean**2 + b.variance)
