"""Arithmetic that stays finite: what lies beyond a type's largest number is that number, in values and in gradients.

A NaN that comes in stays a NaN: `clamp` passes it on.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchnpn._torch import is_transforming

Pair = tuple[Tensor, Tensor]  # (a_m, a_s)
Partials = tuple[Tensor, ...]  # the derivatives of a_m by each input, then those of a_s
Slopes = tuple[Tensor | None, ...]  # the same; None is zero


def finite(x: Tensor) -> Tensor:
    """`x`, with ±inf as the largest numbers of its type; for functions that bring their own derivatives."""
    largest = torch.finfo(x.dtype).max
    return x.clamp(-largest, largest)


def _combined(gradients: Pair, slopes: list[Tensor | None]) -> Tensor:
    """Σ gradient · slope, each product and the sum kept finite: inf - inf does not arise."""
    first, *others = (finite(g * slope) for g, slope in zip(gradients, slopes, strict=True) if slope is not None)
    return finite(first + others[0]) if others else first


class _Saturated(torch.autograd.Function):
    """`finite` for plain autograd: the gradient passes as it is, without the comparisons of clamp's own."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return finite(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class _Cast(torch.autograd.Function):
    """`x` in another type, kept finite there, as its gradient is in the type of `x`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, dtype: torch.dtype) -> Tensor:
        return _in(dtype, x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, torch.dtype], output: Tensor) -> None:
        ctx.dtype = inputs[0].dtype

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return cast(gradient, ctx.dtype), None


class _Entering(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return torch.nan_to_num(gradient)


def applied(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """`function.apply(*arguments)`, without torch's look at the signature: that takes longer than a small operation."""
    if torch.compiler.is_compiling() or is_transforming():
        return function.apply(*arguments)
    return super(torch.autograd.Function, function).apply(*arguments)  # type: ignore[misc]


def _in(dtype: torch.dtype, x: Tensor) -> Tensor:
    largest = torch.finfo(dtype).max
    return (x if largest >= torch.finfo(x.dtype).max else x.clamp(-largest, largest)).to(dtype)


def saturated(x: Tensor) -> Tensor:
    """`x`, with ±inf as the largest numbers of its type, for formulas that autograd goes through."""
    if not (torch.is_grad_enabled() and x.requires_grad):
        return finite(x)
    y: Tensor = applied(_Saturated, x)
    return y


def cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    """`x` in the type `dtype`; what is beyond its largest number is that number, likewise for gradients."""
    if x.dtype == dtype:
        return x
    if not (torch.is_grad_enabled() and x.requires_grad):
        return _in(dtype, x)
    y: Tensor = applied(_Cast, x, dtype)
    return y


def entering(x: Tensor) -> Tensor:
    """`x` itself, where it enters a formula that autograd goes through.

    A gradient that overflows on its way back is the largest number, one that is undefined there (0 · ∞, ∞ - ∞) is zero.
    """
    if not (torch.is_grad_enabled() and x.requires_grad):
        return x
    y: Tensor = applied(_Entering, x)
    return y


def broadcast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in one shape; the gradient of one that is repeated, a sum, is finite."""
    if torch.compiler.is_compiling():  # to compare sizes that are still open would fix them
        return tuple(torch.broadcast_tensors(*tensors))
    first, *others = (tensor.shape for tensor in tensors)
    if all(other == first for other in others):
        return tensors
    shape = torch.broadcast_shapes(first, *others)
    return tuple(tensor if tensor.shape == shape else entering(tensor).expand(shape) for tensor in tensors)


def largest_log(dtype: torch.dtype) -> float:
    """What exp can take without overflow."""
    return math.log(torch.finfo(dtype).max) - 1e-2


def exp(x: Tensor) -> Tensor:
    """exp(x), with a gradient of zero where it would be beyond the type's largest number."""
    return torch.exp(x.clamp_max(largest_log(x.dtype)))


def clamped(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """`x` in the given type (its own by default), at the largest number where it is beyond, with a gradient of zero."""
    dtype = dtype or x.dtype
    most = torch.finfo(dtype).max
    return x.clamp(-most, most).to(dtype)


def positive(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x > 0 in the given type, between its smallest normal and its largest finite number."""
    limits = torch.finfo(dtype)
    return x.clamp(limits.tiny, limits.max).to(dtype)


def difference(a: Tensor, b: Tensor, scale: Tensor) -> Tensor:
    """(a - b)/scale, also where a - b itself is beyond the type."""
    return clamped(2 * ((0.5 * a - 0.5 * b) / scale))


def differentiable(
    values: Callable[..., Pair], partials: Callable[..., Slopes], inputs: int = 2
) -> Callable[..., Pair]:
    """Join `values(*tensors, *constants)` and `partials(*tensors, *constants)` into one function that autograd can use.

    Values and gradients are kept finite, provided that `values` and `partials` never give NaN. The function works under
    `torch.compile`, `torch.func.vmap` and `torch.export`. The partial derivatives are recomputed from the inputs in the
    backward pass, which keeps the inputs and nothing else; where a graph of that pass is asked for (`create_graph`),
    autograd goes through the formulas of `partials`: second derivatives are finite as gradients of `entering` are.

    Args:
        values: Gives (a_m, a_s).
        partials: Gives ∂a_m/∂(each input), then ∂a_s/∂(each input); for inputs (m, s) that is m_m, m_s, s_m, s_s.
        inputs: How many of the arguments are tensors.
    """

    def finite_values(*arguments: Any) -> Pair:
        a_m, a_s = values(*arguments)
        return finite(a_m), finite(a_s)

    class Map(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*arguments: Any) -> Pair:  # the tensors, then the tuple of constants
            return finite_values(*arguments[:inputs], *arguments[inputs])

        @staticmethod
        def setup_context(ctx: Any, arguments: tuple[Any, ...], output: Pair) -> None:
            ctx.save_for_backward(*arguments[:inputs])
            ctx.constants = arguments[inputs]

        @staticmethod
        def backward(ctx: Any, grad_m: Tensor, grad_s: Tensor) -> tuple[Tensor | None, ...]:
            grad_m, grad_s, *tensors = (entering(x) for x in (grad_m, grad_s, *ctx.saved_tensors))
            slopes = [x if x is None else finite(x) for x in partials(*tensors, *ctx.constants)]
            wanted = [i for i in range(inputs) if ctx.needs_input_grad[i]]
            found = {i: _combined((grad_m, grad_s), slopes[i::inputs]) for i in wanted}
            return *(found.get(i) for i in range(inputs)), None

    names = [inspect.Parameter(f"x{i}", inspect.Parameter.POSITIONAL_OR_KEYWORD) for i in range(inputs + 1)]
    Map.forward.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]  # torch.compile counts them

    def function(*arguments: Any) -> Pair:
        if not torch.is_grad_enabled():
            return finite_values(*arguments)
        pair: Pair = applied(Map, *arguments[:inputs], arguments[inputs:])
        return pair

    return function
