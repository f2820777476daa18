"""How an element-wise map of Gaussian moments is written: values and partial derivatives, each as plain formulas.

For x ~ N(m, s) and any f,

    ∂mean/∂m = E f'    ∂mean/∂s = ½ E f''    ∂var/∂m = 2 Cov(f, f')    ∂var/∂s = E f'² + Cov(f, f'').

Autograd would go through √s instead, which is wrong in float32 for small s and NaN at s = 0. So each such map brings
its own partial derivatives, and `differentiable` ties the two together.

Every map promises: for finite m and s ≥ 0 of the type, values and gradients are finite and the variance is ≥ 0. Where
the true value is beyond the type's largest number, that number is given. So no intermediate result of a formula may be
inf - inf or 0 · inf: factors are ordered such that a product overflows only where the result does, and what is merely
not selected stays finite too. A variance below zero is refused on a CPU; a GPU would have to wait for the look.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from torchnpn.finite import Pair, Partials, broadcast, cast, differentiable, entering, saturated
from torchnpn.moments import Moments, check_variance

__all__ = ["Pair", "Partials", "apply", "by_autograd", "check_moments", "check_together", "differentiable"]


def apply(
    name: str, o: Moments, point: Callable[..., Tensor], function: Callable[..., Pair], *constants: float
) -> Moments:
    """`function(m, s, *constants)` on the moments `o`, or `point(m, *constants)` where they are a point.

    Mean and variance are broadcast, taken in at least float32, and the result comes back in the type that came, at most
    its largest number.
    """
    check_moments(name, o)
    check_variance(name, o)
    if o.variance is None:
        return Moments(saturated(point(o.mean, *constants)))
    dtype = torch.promote_types(o.mean.dtype, o.variance.dtype)
    wide = torch.promote_types(dtype, torch.float32)
    a_m, a_s = function(*broadcast(cast(o.mean, wide), cast(o.variance, wide)), *constants)
    return Moments(cast(a_m, dtype), cast(a_s, dtype))


def by_autograd(function: Callable[[Tensor, Tensor], Pair]) -> Callable[[Tensor, Tensor], Pair]:
    """`function(m, s)`, a plain formula, with gradients that are finite whatever gradient comes in."""

    @functools.wraps(function)
    def entered(m: Tensor, s: Tensor) -> Pair:
        return function(entering(m), entering(s))

    return entered


def check_moments(name: str, o: Moments) -> None:
    """Raise unless `o` is a pair of floating-point tensors that broadcast together (types and shapes: free)."""
    if not isinstance(o, Moments):
        raise TypeError(
            f"{name} expects npn.Moments(mean, variance), got {type(o).__name__}. "
            "Wrap a tensor that is known exactly as npn.Moments(x)."
        )
    for tensor in o:
        if tensor is not None and not tensor.is_floating_point():
            raise TypeError(f"{name} expects floating-point moments, got {tensor.dtype}. Convert them with .float().")
    if o.variance is not None and o.variance.shape != o.mean.shape:
        _check_shapes(name, {"mean": o.mean, "variance": o.variance})


def check_together(name: str, a: Moments, b: Moments) -> None:
    """Raise unless two arguments broadcast together, with variances ≥ 0."""
    check_variance(name, a)
    check_variance(name, b)
    _check_shapes(name, {"a.mean": a.mean, "b.mean": b.mean})


def _check_shapes(name: str, parts: dict[str, Tensor]) -> None:
    try:
        torch.broadcast_shapes(*(part.shape for part in parts.values()))
    except RuntimeError as error:
        shapes = " and ".join(f"{part} of shape {tuple(value.shape)}" for part, value in parts.items())
        raise ValueError(f"{name} expects shapes that broadcast together, got {shapes}.") from error
