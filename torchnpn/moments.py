"""The pair that flows through a natural-parameter network: mean and variance of independent variables.

`JointMoments` has their covariances, too; `TiedMoments` are those of weights in half the numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from torchnpn._torch import is_tracing, is_transforming
from torchnpn.finite import Pair, Slopes, broadcast, differentiable, entering, saturated


class Moments(NamedTuple):
    """Mean and variance of independent random variables, element by element.

    `variance=None` says that the values are known exactly (a point); no variance is then computed from them.
    `+`, `-` and `*` are the sum, difference and product of *independent* variables; a tensor or a number counts
    as a point. Beware that `x - x` and `x * x` are therefore not what they look like: a variable is not independent
    of itself (`maps.square` gives the square). Under `torch.func.vmap` pass an explicit zero variance.

    A variance is a number ≥ 0. On a CPU maps, networks (`nn.Sequential`) and likelihoods refuse a negative one. Nobody
    looks on a GPU, which would have to wait, nor under `torch.compile` and `torch.func.vmap`, nor do `+`, `-`, `*` and
    a layer that is called on its own (`nn.Linear`, `nn.ReLU`, `nn.Dropout`): results are then undefined. Estimators and
    the constructors of families check everything they take.
    For finite means and variances ≥ 0 every result is finite: what is beyond the largest number of the type is that
    number. A NaN that comes in stays a NaN.

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
        return Moments(_added(self.mean, b.mean), _sum(self.variance, b.variance))

    def __sub__(self, other: Moments | Tensor | float) -> Moments:
        """Difference of independent variables: means subtract, variances still add."""
        return self + -_as_moments(other)

    def __mul__(self, other: Moments | Tensor | float) -> Moments:  # type: ignore[override]  # not tuple repetition
        """Product of independent variables: mean m₁m₂, variance s₁s₂ + s₁m₂² + s₂m₁² (paper, Eq. 2)."""
        b = _as_moments(other)
        if self.variance is None and b.variance is None:
            factor = entering(b.mean) if isinstance(b.mean, Tensor) else b.mean
            return Moments(saturated(entering(self.mean) * factor))
        if not isinstance(b.mean, Tensor):
            return Moments(*_times_number(*broadcast(self.mean, self.variance), b.mean))
        if self.variance is None or b.variance is None:
            x, factor = (b, self.mean) if self.variance is None else (self, b.mean)
            return Moments(*_times_known(*broadcast(*x, factor.to(x.mean))))  # type: ignore[arg-type]
        return Moments(*_times(*broadcast(*self, *b)))  # type: ignore[arg-type]

    def __neg__(self) -> Moments:
        return Moments(-self.mean, self.variance)

    def __rsub__(self, other: Tensor | float) -> Moments:
        return -self + other

    def __radd__(self, other: Tensor | float) -> Moments:
        return self + other

    def __rmul__(self, other: Tensor | float) -> Moments:  # type: ignore[override]  # not tuple repetition
        return self * other


class TiedMoments(NamedTuple):
    """Means of weights, and variances that are an outer product, s_ij = by_output_i · by_input_j."""

    mean: Tensor  # (*replicas, out, in)
    by_output: Tensor  # (*replicas, out, 1)
    by_input: Tensor  # (*replicas, 1, in)

    @property
    def variance(self) -> Tensor:  # (*replicas, out, in)
        """The whole of them."""
        return saturated(self.by_output * self.by_input)


class JointMoments(NamedTuple):
    """Mean and covariance of random variables that may depend on each other."""

    mean: Tensor  # (..., n)
    covariance: Tensor  # (..., n, n)

    @property
    def variance(self) -> Tensor:  # (..., n)
        """The diagonal of the covariance."""
        return self.covariance.diagonal(dim1=-2, dim2=-1)


def check_variance(name: str, x: Moments | TiedMoments) -> None:
    """Raise for a negative variance, where a look costs next to nothing: on a CPU, neither traced nor transformed."""
    for s in x[1:]:
        if s is None or torch.compiler.is_compiling() or not s.is_cpu or is_transforming():
            continue
        if s.numel() and not is_tracing() and (least := s.detach().amin().item()) < 0:
            raise ValueError(f"{name} expects input variances ≥ 0, got {least:g}. Pass variances, e.g. std ** 2.")


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
    return _added(s, t)


def _added(x: Tensor, y: Tensor) -> Tensor:
    if isinstance(y, Tensor):
        x, y = broadcast(x, y)
    return saturated(x + y)


# Products: (s m) m, not s m², overflows only where the result does, and is never 0 · inf ------------------------------


def _product_values(m_1: Tensor, s_1: Tensor, m_2: Tensor, s_2: Tensor) -> Pair:
    return m_1 * m_2, s_1 * s_2 + (s_1 * m_2) * m_2 + (s_2 * m_1) * m_1


def _product_partials(m_1: Tensor, s_1: Tensor, m_2: Tensor, s_2: Tensor) -> Slopes:
    by_means = m_2, None, m_1, None
    return *by_means, 2 * (s_2 * m_1), s_2 + m_2 * m_2, 2 * (s_1 * m_2), s_1 + m_1 * m_1


def _known_values(m: Tensor, s: Tensor, factor: Tensor | float) -> Pair:
    return m * factor, (s * factor) * factor


def _known_partials(m: Tensor, s: Tensor, factor: Tensor) -> Slopes:
    return factor, None, m, None, factor * factor, 2 * (s * factor)


def _number_partials(m: Tensor, s: Tensor, factor: float) -> Slopes:
    largest = torch.finfo(m.dtype).max
    known = torch.full_like(m, min(max(factor, -largest), largest))
    return known, None, None, known * known


_times = differentiable(_product_values, _product_partials, inputs=4)
_times_known = differentiable(_known_values, _known_partials, inputs=3)
_times_number = differentiable(_known_values, _number_partials)
