"""The linear transformation of numbers so large that sums of their products overflow: term by term, never inf - inf.

As `maps.linear`, one output feature after the other: slow, and only for numbers that the matrix products cannot take.
Terms of a variance are ≥ 0 and multiplied such that they overflow only where they are beyond the largest number; sums
are taken of terms that are scaled down, and come back at most as that number.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from torchnpn._torch import is_transformed
from torchnpn.finite import cast, finite
from torchnpn.maps.once import once_differentiable
from torchnpn.moments import Moments, TiedMoments

once = once_differentiable("linear of numbers whose products overflow", "Scale the inputs or the weights down.")
_TERMS = 2.0**-24  # sums of up to 2²⁴ numbers stay finite if each is scaled by this


def is_finite(*tensors: Tensor | None) -> bool:
    """Whether no number is inf or NaN; may say no where a sum of finite numbers overflows. It looks: for CPUs."""
    known = [tensor for tensor in tensors if tensor is not None]
    if any(is_transformed(tensor) for tensor in known):
        return True  # nobody can look
    return math.isfinite(sum(tensor.sum().item() for tensor in known))


def are_finite(x: Tensor, y: Tensor) -> bool:
    """`is_finite` of two tensors of one shape, by one product."""
    return math.isfinite(x.view(-1).dot(y.view(-1)).item()) or is_finite(x, y)


def can_help(*tensors: Tensor | None) -> bool:
    """Whether all numbers are finite, so that results which are not can be mended: a NaN that comes in stays one."""
    return all(bool(tensor.isfinite().all()) for tensor in tensors if tensor is not None)


def is_moderate(a: Moments, W: Moments | TiedMoments, b: Moments | None) -> bool:
    """Whether no sum of products, in values or gradients, comes near the largest number. Looks at values: for CPUs."""
    A, V = (_largest_square(x) for x in (a, W))
    terms = 8 * (a.mean.numel() + W.mean.numel())
    return terms * max(A * V, A, V, 0.0 if b is None else _largest_square(b)) < torch.finfo(a.mean.dtype).max


def _largest_square(x: Moments | TiedMoments) -> float:
    if x.mean.numel() == 0:
        return 0.0
    low, high = x.mean.detach().aminmax()
    largest = [part.detach().amax().item() for part in x[1:] if part is not None and part.numel()]
    return max(low.item() * low.item(), high.item() * high.item(), *largest, math.prod(largest) if largest else 0.0)


def linear(a: Moments, W: Moments) -> Moments:
    """`maps.linear` without a bias, of dense inputs (*replicas, batch, in)."""
    dtype = W.mean.dtype
    if dtype in (torch.float16, torch.bfloat16):
        return _cast(linear(_cast(a, torch.float32), _cast(W, torch.float32)), dtype)
    lead = torch.broadcast_shapes(a.mean.shape[:-2], W.mean.shape[:-2])
    a, W = (_expanded(x, lead) for x in (a, W))
    o_m, o_s = _Linear.apply(*a, *W)
    return Moments(o_m, None if a.variance is None and W.variance is None else o_s)


def _cast(x: Moments, dtype: torch.dtype) -> Moments:
    return Moments(cast(x.mean, dtype), None if x.variance is None else cast(x.variance, dtype))


def _expanded(x: Moments, lead: torch.Size) -> Moments:
    mean = x.mean.expand(*lead, *x.mean.shape[-2:])
    return Moments(mean, None if x.variance is None else x.variance.expand_as(mean))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(*tensors)
        return forward(*tensors)

    @staticmethod
    @once
    def backward(ctx: Any, g_m: Tensor, g_s: Tensor) -> tuple[Tensor | None, ...]:
        a_m, a_s, W_m, W_s = ctx.saved_tensors
        return backward(a_m, a_s, W_m, W_s, g_m, g_s)


def forward(a_m: Tensor, a_s: Tensor | None, W_m: Tensor, W_s: Tensor | None) -> tuple[Tensor, Tensor]:
    """o_m and o_s of a (*replicas, batch, in) and W (*replicas, out, in)."""
    small = 2.0 ** -(math.frexp(torch.finfo(a_m.dtype).max)[1] // 2 + 12)  # the square of it scales any product to < 1
    means, variances = [], []
    for j in range(W_m.shape[-2]):
        w_m = W_m[..., j, None, :]
        plain, scaled = (a_m * w_m).sum(-1), ((a_m * small) * (w_m * small)).sum(-1)
        means.append(torch.where(plain.isfinite(), plain, _grown(scaled, small, small)))
        variances.append(total(_variance_terms(a_m, a_s, w_m, None if W_s is None else W_s[..., j, None, :]), -1))
    return torch.stack(means, -1), torch.stack(variances, -1)


def _variance_terms(a_m: Tensor, a_s: Tensor | None, w_m: Tensor, w_s: Tensor | None) -> Tensor:
    """(a_s + a_m²) w_s + a_s w_m², (…, batch, in)."""
    terms = torch.zeros_like(a_m)
    if w_s is not None:
        terms = finite(a_m * finite(a_m * w_s))
        terms = terms if a_s is None else finite(terms + finite(a_s * w_s))
    return terms if a_s is None else finite(terms + finite(finite(a_s * w_m) * w_m))


def backward(
    a_m: Tensor, a_s: Tensor | None, W_m: Tensor, W_s: Tensor | None, g_m: Tensor, g_s: Tensor
) -> tuple[Tensor | None, ...]:
    """Gradients by a_m, a_s, W_m, W_s; the formulas are those of `kernels.cpu.linear`."""
    d_m, d_s = torch.zeros_like(a_m), torch.zeros_like(a_m)
    d_W_m, d_W_s = [], []
    square = finite(a_m * a_m) if a_s is None else finite(finite(a_m * a_m) + a_s)
    for j in range(W_m.shape[-2]):
        w_m, h_m, h_s = W_m[..., j, None, :], g_m[..., j, None], g_s[..., j, None]
        by_a, by_W = finite(h_m * w_m), finite(h_m * a_m)
        if a_s is not None:
            by_W = by_W * 0.25 + finite(h_s * finite(a_s * w_m)) * 0.5  # a quarter: the sum of two may overflow
            d_s += _TERMS * finite(h_s * finite(w_m * w_m))
        if W_s is not None:
            w_s = W_s[..., j, None, :]
            by_a = by_a * 0.25 + finite(h_s * finite(a_m * w_s)) * 0.5
            d_s += _TERMS * finite(h_s * w_s)
            d_W_s.append(total(finite(h_s * square), -2))
        d_m += by_a * (_TERMS if W_s is None else 4 * _TERMS)
        d_W_m.append(total(by_W, -2, 1.0 if a_s is None else 4.0))
    return (
        finite(d_m / _TERMS),
        None if a_s is None else finite(d_s / _TERMS),
        torch.stack(d_W_m, -2),
        torch.stack(d_W_s, -2) if W_s is not None else None,
    )


def total(terms: Tensor, dim: int, factor: float = 1.0) -> Tensor:
    """factor · Σ terms, at most the largest number."""
    return finite((terms * _TERMS).sum(dim) * (factor / _TERMS))


def _grown(x: Tensor, *scales: float) -> Tensor:
    for scale in scales:
        x = finite(x / scale)
    return x
