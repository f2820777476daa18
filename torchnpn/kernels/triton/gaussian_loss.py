"""The loss of `likelihoods.GaussianNoise` in one kernel, its gradients in another: no temporary as large as the output.

With r = y - m, t = s + σ² and e the share of the ELBO, the loss of a row is the sum over its targets of

    ½ ((1 - e) (r²/t + log t) + e ((r² + s)/σ² + log σ²) + log 2π),

and for an upstream gradient g of the row, by t alone ∂t = ½ g (1 - e) (1 - r²/t)/t,

    ∂m = -g r ((1 - e)/t + e/σ²),    ∂s = ∂t + ½ g e/σ²,    ∂σ² = ∂t + ½ g e (1 - (r² + s)/σ²)/σ².

Both are formed in float64, in which squares of float32 numbers are ordinary numbers, and saturate on the way out.
"""

# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from torchnpn.kernels.triton.signals import fused_once

_TARGETS = 1024  # of a row, for one program
_ROOM = 2.0**-34  # of the largest number: a gradient of σ² is still to be multiplied by σ² ≤ 5e9


def rows(m: Tensor, s: Tensor, y: Tensor, noise: Tensor, elbo: float) -> Tensor:  # -> (*replicas, batch)
    """Loss of each row, with gradients to m, s and σ².

    Args:
        m: Latent means (*replicas, batch, targets).
        s: Latent variances, of the same shape.
        y: Targets (batch, targets), or of the shape of m.
        noise: σ² (*replicas, 1, targets), or (*replicas, 1, 1) for one shared by all targets.
        elbo: The share e.
    """
    own = y.dim() > 2  # rows of each replica, not the same for all
    y = y.expand(m.shape).flatten(0, -3) if own else y[None]
    y = y if y.stride(-1) == 1 else y.contiguous()
    shape = m.shape[:-2].numel(), *m.shape[-2:]
    noise = noise.expand(*m.shape[:-2], 1, noise.shape[-1]).reshape(shape[0], 1, -1)
    return _Rows.apply(m.reshape(shape), s.reshape(shape), y, noise, elbo, own).view(m.shape[:-1])


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, m: Tensor, s: Tensor, y: Tensor, noise: Tensor, elbo: float, own: bool) -> Tensor:
        m, s, noise = m.contiguous(), s.contiguous(), noise.contiguous()
        ctx.save_for_backward(m, s, y, noise)
        ctx.arguments = arguments = _arguments(m, y, noise, elbo, own)
        replicas, batch, targets = m.shape
        parts = m.new_empty(replicas, batch, triton.cdiv(targets, _TARGETS))
        _forward[(batch, parts.shape[2], replicas)](m, s, y, noise, parts, *arguments)
        return parts.sum(-1)

    @staticmethod
    @fused_once
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        m, s, y, noise = ctx.saved_tensors
        replicas, batch, targets = m.shape
        parts = triton.cdiv(targets, _TARGETS)
        by_m, by_s = torch.empty_like(m), torch.empty_like(s)
        shared = noise.shape[-1] == 1  # then one number a program, else one for each target of each row
        by_noise = m.new_empty(replicas, batch, parts if shared else targets, dtype=torch.float64)
        _backward[(batch, parts, replicas)](m, s, y, noise, g.contiguous(), by_m, by_s, by_noise, *ctx.arguments)
        total = by_noise.sum((1, 2), keepdim=True) if shared else by_noise.sum(1, keepdim=True)
        most = _ROOM * torch.finfo(noise.dtype).max
        return by_m, by_s, None, total.clamp(-most, most).to(noise.dtype), None, None


def _arguments(m: Tensor, y: Tensor, noise: Tensor, elbo: float, own: bool) -> tuple[Any, ...]:
    replica = y.stride(0) if own else 0
    most = torch.finfo(m.dtype).max
    return replica, y.stride(1), m.shape[1], m.shape[2], elbo, most, noise.shape[-1] == 1, _TARGETS


@triton.jit
def _at(m, s, y, noise, replica_stride, row_stride, batch, targets, SHARED: tl.constexpr, TARGETS: tl.constexpr):
    """What a program looks at: where it is, and residuals, variances and noises there."""
    row, replica = tl.program_id(0), tl.program_id(2).to(tl.int64)
    target = tl.program_id(1) * TARGETS + tl.arange(0, TARGETS)
    inside = target < targets
    at = (replica * batch + row) * targets + target
    mean = tl.load(m + at, mask=inside, other=0.0)
    variance = tl.load(s + at, mask=inside, other=0.0)
    value = tl.load(y + replica * replica_stride + row.to(tl.int64) * row_stride + target, mask=inside, other=0.0)
    if SHARED:
        sigma2 = tl.load(noise + replica)
    else:
        sigma2 = tl.load(noise + replica * targets + target, mask=inside, other=1.0)
    residual = value.to(tl.float64) - mean.to(tl.float64)
    return at, inside, _within(residual, 1e100), tl.minimum(variance.to(tl.float64), 1e100), sigma2.to(tl.float64)


@triton.jit
def _within(x, most: tl.constexpr):
    return tl.minimum(tl.maximum(x, -most), most)


@triton.jit
def _forward(
    m, s, y, noise, parts, replica_stride, row_stride, batch, targets, elbo, MOST: tl.constexpr,
    SHARED: tl.constexpr, TARGETS: tl.constexpr,
):  # fmt: skip
    _, inside, r, variance, sigma2 = _at(m, s, y, noise, replica_stride, row_stride, batch, targets, SHARED, TARGETS)
    t = variance + sigma2
    predictive = r * r / t + tl.log(t)
    bound = (r * r + variance) / sigma2 + tl.log(sigma2)
    loss = 0.5 * ((1 - elbo) * predictive + elbo * bound + 1.8378770664093453)  # log 2π
    row, replica = tl.program_id(0), tl.program_id(2).to(tl.int64)
    part = (replica * batch + row) * tl.num_programs(1) + tl.program_id(1)
    total = _within(tl.sum(tl.where(inside, loss, 0.0)), MOST * 9.5367431640625e-07)  # 2^-20: rows can be summed
    tl.store(parts + part, total)


@triton.jit
def _backward(
    m, s, y, noise, g, by_m, by_s, by_noise, replica_stride, row_stride, batch, targets, elbo, MOST: tl.constexpr,
    SHARED: tl.constexpr, TARGETS: tl.constexpr,
):  # fmt: skip
    at, inside, r, variance, sigma2 = _at(m, s, y, noise, replica_stride, row_stride, batch, targets, SHARED, TARGETS)
    row, replica = tl.program_id(0), tl.program_id(2).to(tl.int64)
    weight = tl.load(g + replica * batch + row).to(tl.float64)
    t, bound = variance + sigma2, elbo / sigma2
    predictive = (1 - elbo) / t
    by_t = 0.5 * weight * predictive * (1 - r * r / t)
    tl.store(by_m + at, _within(-weight * r * (predictive + bound), MOST), mask=inside)
    tl.store(by_s + at, _within(by_t + 0.5 * weight * bound, MOST), mask=inside)
    by_sigma2 = by_t + 0.5 * weight * bound * (1 - (r * r + variance) / sigma2)
    if SHARED:
        part = (replica * batch + row) * tl.num_programs(1) + tl.program_id(1)
        tl.store(by_noise + part, tl.sum(tl.where(inside, by_sigma2, 0.0)))
    else:
        tl.store(by_noise + at, by_sigma2, mask=inside)
