"""How an element-wise map of Gaussian moments is written: values and partial derivatives, each as plain formulas.

For x ~ N(m, s) and any f,

    ∂mean/∂m = E f'    ∂mean/∂s = ½ E f''    ∂var/∂m = 2 Cov(f, f')    ∂var/∂s = E f'² + Cov(f, f'').

Autograd would go through √s instead, which is wrong in float32 for small s and NaN at s = 0. So each such map brings
its own partial derivatives, and `differentiable` ties the two together.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from torchnpn.moments import Moments

Pair = tuple[Tensor, Tensor]  # (a_m, a_s)
Partials = tuple[Tensor, ...]  # the derivatives of a_m by each input, then those of a_s


def differentiable(
    values: Callable[..., Pair], partials: Callable[..., Partials], inputs: int = 2
) -> Callable[..., Pair]:
    """Join `values(*tensors, *constants)` and `partials(*tensors, *constants)` into one function that autograd can use.

    The function works under `torch.compile`, `torch.func.vmap` and `torch.export`. It is once differentiable: the
    partial derivatives are recomputed from the inputs in the backward pass, which keeps the inputs and nothing else.

    Args:
        values: Gives (a_m, a_s).
        partials: Gives ∂a_m/∂(each input), then ∂a_s/∂(each input); for inputs (m, s) that is m_m, m_s, s_m, s_s.
        inputs: How many of the arguments are tensors.
    """

    class Map(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*arguments: Any) -> Pair:  # the tensors, then the tuple of constants
            return values(*arguments[:inputs], *arguments[inputs])

        @staticmethod
        def setup_context(ctx: Any, arguments: tuple[Any, ...], output: Pair) -> None:
            ctx.save_for_backward(*arguments[:inputs])
            ctx.constants = arguments[inputs]

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, grad_m: Tensor, grad_s: Tensor) -> tuple[Tensor | None, ...]:
            slopes = partials(*ctx.saved_tensors, *ctx.constants)
            return *(grad_m * slopes[i] + grad_s * slopes[inputs + i] for i in range(inputs)), None

    names = [inspect.Parameter(f"x{i}", inspect.Parameter.POSITIONAL_OR_KEYWORD) for i in range(inputs + 1)]
    Map.forward.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]  # torch.compile counts them

    def function(*arguments: Any) -> Pair:
        pair: Pair = Map.apply(*arguments[:inputs], arguments[inputs:])
        return pair

    return function


def apply(
    name: str, o: Moments, point: Callable[..., Tensor], function: Callable[..., Pair], *constants: float
) -> Moments:
    """`function(m, s, *constants)` on the moments `o`, or `point(m, *constants)` where they are a point.

    Mean and variance are broadcast, taken in at least float32, and the result comes back in the type that came.
    """
    check(name, o)
    if o.variance is None:
        return Moments(point(o.mean, *constants))
    dtype = torch.promote_types(o.mean.dtype, o.variance.dtype)
    wide = torch.promote_types(dtype, torch.float32)
    a_m, a_s = function(*torch.broadcast_tensors(o.mean.to(wide), o.variance.to(wide)), *constants)
    return Moments(a_m.to(dtype), a_s.to(dtype))


def check(name: str, o: Moments) -> None:
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
    """Raise unless the shapes of two arguments broadcast together."""
    _check_shapes(name, {"a.mean": a.mean, "b.mean": b.mean})


def _check_shapes(name: str, parts: dict[str, Tensor]) -> None:
    try:
        torch.broadcast_shapes(*(part.shape for part in parts.values()))
    except RuntimeError as error:
        shapes = " and ".join(f"{part} of shape {tuple(value.shape)}" for part, value in parts.items())
        raise ValueError(f"{name} expects shapes that broadcast together, got {shapes}.") from error
