"""The linear transformation on a CPU where the variances of weights are tied, W_s = r cᵀ, as one autograd function.

Forward, with q = a_s + a_m² and t = q c, one number for each row:

    o_m = a_m W_mᵀ + b_m,    o_s = t rᵀ + a_s (W_m²)ᵀ + b_s.

Backward, for gradients g_m, g_s of the outputs, v = g_s r and u = g_sᵀ t:

    ∂W_m = g_mᵀ a_m + 2 W_m ∘ (g_sᵀ a_s),     ∂r = u,    ∂c = qᵀ v,
    ∂a_m = g_m W_m + 2 a_m ∘ (v cᵀ),          ∂a_s = v cᵀ + g_s W_m².

Two products forward and four backward, one and one where the input is a point: what a plain layer costs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchnpn.finite import entering, finite
from torchnpn.kernels.cpu import linear as mean_field
from torchnpn.kernels.cpu.products import add_product_, product
from torchnpn.maps import careful_linear, check_linear, saturated_sum
from torchnpn.moments import Moments, TiedMoments

Tensors = tuple[Tensor | None, ...]


def linear(a: Moments, W: TiedMoments, b: Moments | None = None) -> Moments:
    """See `maps.linear`."""
    check_linear(a, W, b)
    a_s = None if a.variance is None else a.variance.expand_as(a.mean)
    arguments = a.mean, a_s, *W, *(b or (None, None))
    return Moments(*(_Linear.apply(*arguments) if torch.is_grad_enabled() else forward(*arguments)))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(*arguments[:5])
        return forward(*arguments)

    @staticmethod
    def backward(ctx: Any, g_m: Tensor, g_s: Tensor) -> Tensors:
        known, needs = (*ctx.saved_tensors, g_m, g_s), ctx.needs_input_grad
        if not torch.is_grad_enabled():
            return backward(known, needs)
        known = tuple(None if x is None else entering(x) for x in known)
        return _sound(_backward_with_graph(*known), known, needs, _careful_once)


def forward(
    a_m: Tensor, a_s: Tensor | None, W_m: Tensor, r: Tensor, c: Tensor, b_m: Tensor | None, b_s: Tensor | None
) -> tuple[Tensor, Tensor]:
    """o_m and o_s; by `careful_linear` where a sum of products overflows."""
    o_m = product(a_m, W_m, b_m)
    t = _second(a_m, a_s) @ c.T
    o_s = t @ r.T if b_s is None else torch.addmm(b_s, t, r.T)
    if a_s is not None:
        add_product_(o_s, a_s, mean_field.squared(W_m))
    if careful_linear.are_finite(o_m, o_s) or not careful_linear.can_help(a_m, a_s, W_m, r, c):
        return o_m, o_s
    o = careful_linear.linear(Moments(a_m, a_s), Moments(W_m, finite(r * c)))
    return saturated_sum(o, None if b_m is None else Moments(b_m, b_s))  # type: ignore[return-value]


def backward(known: Tensors, needs: tuple[bool, ...]) -> Tensors:
    """Gradients by a_m, a_s, W_m, r, c, b_m, b_s, of these tensors but the biases, and of g_m, g_s."""
    return _sound(_backward(*known, needs), known, needs, _carefully)  # type: ignore[arg-type, call-arg]


def _sound(gradients: Tensors, known: Tensors, needs: tuple[bool, ...], careful: Any) -> Tensors:
    """Gradients that are needed; taken with care where they are not finite and could be."""
    if not careful_linear.is_finite(*gradients) and careful_linear.can_help(*known):
        gradients = careful(None, *known)
    return tuple(gradient if need else None for gradient, need in zip(gradients, needs, strict=True))


def _backward(
    a_m: Tensor, a_s: Tensor | None, W_m: Tensor, r: Tensor, c: Tensor, g_m: Tensor, g_s: Tensor, needs: Any
) -> Tensors:
    d_m = d_s = d_W_m = None
    q, v = _second(a_m, a_s), g_s @ r
    if needs[2]:
        d_W_m = mean_field.by_W_m(a_m, a_s, W_m, g_m, g_s)
    if needs[0] or needs[1]:
        by_q = v * c
        if needs[0]:
            d_m = add_product_((by_q * a_m).mul_(2), g_m, W_m.T)
        if needs[1]:
            d_s = add_product_(by_q, g_s, mean_field.squared(W_m).T)
    return d_m, d_s, d_W_m, g_s.T @ (q @ c.T), v.T @ q, g_m.sum(0), g_s.sum(0)


def _backward_with_graph(
    a_m: Tensor, a_s: Tensor | None, W_m: Tensor, r: Tensor, c: Tensor, g_m: Tensor, g_s: Tensor
) -> Tensors:
    """The same gradients, by operations that autograd can go through once more; not where they overflow."""
    q, v, d_W_m = a_m * a_m, g_s @ r, g_m.T @ a_m
    if a_s is not None:
        q, d_W_m = q + a_s, d_W_m + 2 * W_m * (g_s.T @ a_s)
    by_q = v * c
    d_m, d_s = g_m @ W_m + 2 * a_m * by_q, by_q + g_s @ (W_m * W_m)
    return d_m, d_s, d_W_m, g_s.T @ (q @ c.T), v.T @ q, g_m.sum(0), g_s.sum(0)


def _carefully(
    _: Any, a_m: Tensor, a_s: Tensor, W_m: Tensor, r: Tensor, c: Tensor, g_m: Tensor, g_s: Tensor
) -> Tensors:
    """By the gradient of each variance r_i c_j."""
    known = a_m, a_s, W_m, finite(r * c), g_m, g_s
    d_m, d_s, d_W_m, d_W_s, d_b_m, d_b_s = mean_field.careful_backward(known, (True,) * 6)
    assert d_W_s is not None
    d_r, d_c = (careful_linear.total(finite(d_W_s * other), dim).unsqueeze(dim) for other, dim in ((c, -1), (r, -2)))
    return d_m, d_s, d_W_m, d_r, d_c, d_b_m, d_b_s


_careful_once = careful_linear.once(_carefully)


def _second(a_m: Tensor, a_s: Tensor | None) -> Tensor:
    """q = E a²."""
    return a_m * a_m if a_s is None else torch.addcmul(a_s, a_m, a_m)
