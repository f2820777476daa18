"""The probabilistic linear transformation on a CPU as one autograd function: no product twice, nothing large kept.

Forward (paper, Eqs. 1-2), with q = a_s + a_m²:

    o_m = a_m W_mᵀ + b_m,    o_s = q W_sᵀ + a_s (W_m²)ᵀ + b_s.

Backward, for gradients g_m, g_s of the outputs and v = g_s W_s:

    ∂W_m = g_mᵀ a_m + 2 W_m ∘ (g_sᵀ a_s),    ∂W_s = g_sᵀ q,
    ∂a_m = g_m W_m + 2 a_m ∘ v,              ∂a_s = v + g_s W_m².

Three products forward and six backward, two and two where the input is a point. The squares of the weights live only
while a product needs them; each product is accumulated onto the other terms in place. For Gaussian weights that are
learnt as W_s = exp(2ℓ), the backward pass goes on to ∂ℓ = 2 W_s ∘ ∂W_s in the same memory.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor

from torchnpn.finite import cast, entering, exp, finite
from torchnpn.kernels.cpu.products import add_product_, product
from torchnpn.maps import careful_linear, check_linear, saturated_sum
from torchnpn.moments import Moments


def linear(a: Moments, W: Moments, b: Moments | None = None) -> Moments:
    """See `maps.linear`."""
    check_linear(a, W, b)
    arguments = *_input(a), *W, *(b or (None, None))
    return Moments(*(_Linear.apply(*arguments, None) if torch.is_grad_enabled() else forward(*arguments)))


def gaussian_linear(
    a: Moments, W: Moments, W_log_std: Tensor, b: Moments | None = None, b_log_std: Tensor | None = None
) -> Moments:
    """The same for variances W_s = exp(2ℓ) that are given as numbers, with gradients to ℓ in place of W_s."""
    check_linear(a, W, b)
    b_m, b_s = b or (None, None)
    return Moments(*_Linear.apply(*_input(a), W.mean, W_log_std, b_m, b_log_std, (W.variance, b_s)))


def _input(a: Moments) -> tuple[Tensor, Tensor | None]:
    return a.mean, None if a.variance is None else a.variance.expand_as(a.mean)


class _Linear(torch.autograd.Function):
    """Of W_m, W_v, b_m, b_v: variances, or with their numbers as the last argument log standard deviations."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        a_m, a_s, W_m, W_v, b_m, b_v, variances = arguments
        ctx.save_for_backward(a_m, a_s, W_m, W_v, b_v)
        ctx.variances = variances  # functions of ℓ alone: whoever fills their memory anew writes the same numbers
        W_s, b_s = (W_v, b_v) if variances is None else variances
        return forward(a_m, a_s, W_m, W_s, b_m, b_s)

    @staticmethod
    def backward(ctx: Any, g_m: Tensor, g_s: Tensor) -> tuple[Tensor | None, ...]:
        a_m, a_s, W_m, W_v, b_v = ctx.saved_tensors
        with_graph = torch.is_grad_enabled()
        W_s, b_s = W_v, b_v
        if ctx.variances is not None:
            W_s, b_s = (_variance(W_v), _variance(b_v)) if with_graph else ctx.variances
        known = a_m, a_s, W_m, W_s, g_m, g_s
        gradients = (backward_with_graph if with_graph else backward)(known, ctx.needs_input_grad[:6])
        if ctx.variances is None:
            return *gradients, None
        by_log_std = _by_log_std_with_graph if with_graph else _by_log_std
        *others, by_W_s, by_b_m, by_b_s = gradients
        return *others, by_log_std(by_W_s, W_s), by_b_m, by_log_std(by_b_s, b_s), None


def _variance(log_std: Tensor | None) -> Tensor | None:
    return None if log_std is None else exp(2 * entering(log_std))


def _by_log_std(gradient: Tensor | None, variance: Tensor) -> Tensor | None:
    """∂ℓ = 2 W_s ∘ ∂W_s, in the memory of ∂W_s."""
    if gradient is None:
        return None
    largest = torch.finfo(gradient.dtype).max
    return gradient.mul_(variance).mul_(2).clamp_(-largest, largest)


def _by_log_std_with_graph(gradient: Tensor | None, variance: Tensor) -> Tensor | None:
    return None if gradient is None else finite(2 * (variance * gradient))


def forward(
    a_m: Tensor, a_s: Tensor | None, W_m: Tensor, W_s: Tensor, b_m: Tensor | None, b_s: Tensor | None
) -> tuple[Tensor, Tensor]:
    """o_m and o_s; by `careful_linear` where a sum of products overflows."""
    q = a_m * a_m if a_s is None else torch.addcmul(a_s, a_m, a_m)
    o_m, o_s = product(a_m, W_m, b_m), product(q, W_s, b_s)
    if a_s is not None:
        add_product_(o_s, a_s, squared(W_m))
    if careful_linear.are_finite(o_m, o_s):
        return o_m, o_s
    if not careful_linear.can_help(a_m, a_s, W_m, W_s):
        return o_m, o_s
    o = careful_linear.linear(Moments(a_m, a_s), Moments(W_m, W_s))
    return saturated_sum(o, None if b_m is None else Moments(b_m, b_s))  # type: ignore[return-value]


Tensors = tuple[Tensor | None, ...]  # a_m, a_s, W_m, W_s, g_m, g_s; or gradients by a_m, a_s, W_m, W_s, b_m, b_s


def backward(known: Tensors, needs: tuple[bool, ...]) -> Tensors:
    """The gradients; None where not needed."""
    gradients = _backward(*known, needs)  # type: ignore[call-arg, arg-type]
    return gradients if _are_sound(gradients, known) else careful_backward(known, needs)


def _are_sound(gradients: Tensors, known: Tensors) -> bool:
    """Whether they are finite, or no care could make them so."""
    return careful_linear.is_finite(*gradients) or not careful_linear.can_help(*known)


def careful_backward(known: Tensors, needs: tuple[bool, ...]) -> Tensors:
    """The same, term by term."""
    dtype = known[2].dtype  # type: ignore[union-attr]
    wide = [None if x is None else x.to(torch.promote_types(dtype, torch.float32)) for x in known]
    careful = *careful_linear.backward(*wide), *(careful_linear.total(g, 0) for g in wide[-2:])  # type: ignore[arg-type]
    return tuple(cast(x, dtype) if x is not None and need else None for x, need in zip(careful, needs, strict=True))


def _backward(
    a_m: Tensor, a_s: Tensor | None, W_m: Tensor, W_s: Tensor, g_m: Tensor, g_s: Tensor, needs: tuple[bool, ...]
) -> Tensors:
    need_m, need_s, need_W_m, need_W_s, need_b_m, need_b_s = needs
    d_m = d_s = d_W_m = d_W_s = None
    if need_W_s:
        d_W_s = product(g_s.T, (a_m * a_m if a_s is None else torch.addcmul(a_s, a_m, a_m)).T)
    if need_W_m:
        d_W_m = by_W_m(a_m, a_s, W_m, g_m, g_s)
    if need_m or need_s:
        v = product(g_s, W_s.T)
        if need_m:
            d_m = add_product_((v * a_m).mul_(2), g_m, W_m.T)
        if need_s:
            d_s = add_product_(v, g_s, squared(W_m).T)
    return d_m, d_s, d_W_m, d_W_s, g_m.sum(0) if need_b_m else None, g_s.sum(0) if need_b_s else None


def by_W_m(a_m: Tensor, a_s: Tensor | None, W_m: Tensor, g_m: Tensor, g_s: Tensor) -> Tensor:
    """∂W_m = g_mᵀ a_m + 2 W_m ∘ (g_sᵀ a_s)."""
    if a_s is None:
        return product(g_m.T, a_m.T)
    return add_product_(product(g_s.T, a_s.T).mul_(W_m).mul_(2), g_m.T, a_m.T)


def backward_with_graph(known: Tensors, needs: tuple[bool, ...]) -> Tensors:
    """The same gradients, by operations that autograd can go through once more; not where they overflow."""
    known = tuple(None if x is None else entering(x) for x in known)
    found = zip(_backward_with_graph(*known), needs, strict=True)  # type: ignore[arg-type]
    gradients = tuple(gradient if need else None for gradient, need in found)
    return gradients if _are_sound(gradients, known) else _careful_once(None, *known, needs)


_careful_once = careful_linear.once(lambda _, *arguments: careful_backward(arguments[:-1], arguments[-1]))


def _backward_with_graph(
    a_m: Tensor, a_s: Tensor | None, W_m: Tensor, W_s: Tensor, g_m: Tensor, g_s: Tensor
) -> tuple[Tensor, ...]:
    v, q, d_W_m = g_s @ W_s, a_m * a_m, g_m.T @ a_m
    if a_s is not None:
        q, d_W_m = q + a_s, d_W_m + 2 * W_m * (g_s.T @ a_s)
    return g_m @ W_m + 2 * a_m * v, v + g_s @ (W_m * W_m), d_W_m, g_s.T @ q, g_m.sum(0), g_s.sum(0)


def squared(W: Tensor) -> Tensor:
    """W², in memory for a moment."""
    return torch.mul(W.detach(), W.detach(), out=_scratch(W))


_local = threading.local()  # one buffer a thread: fresh memory as large as the weights costs more than filling it


def _scratch(like: Tensor) -> Tensor:
    """An uninitialised tensor of the shape and type of `like`, valid until the next call in this thread."""
    if like.device.type != "cpu":
        return torch.empty_like(like)
    buffer: Tensor | None = getattr(_local, "buffer", None)
    if buffer is None or buffer.numel() < like.numel() or buffer.dtype != like.dtype:
        with torch.inference_mode(False):
            buffer = _local.buffer = torch.empty(like.numel(), dtype=like.dtype)
    return buffer[: like.numel()].view(like.shape)
