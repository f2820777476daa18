"""The losses of `likelihoods.GaussianNoise` and `HeteroscedasticGaussian` in a training step: rows, gradients and all.

Formulas are those of `kernels.cpu.losses.noise`, with the limits of `likelihoods.guards`; formed in float64, they
saturate on the way out.
"""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from torchnpn.kernels.triton.epilogues import padded, store_part
from torchnpn.kernels.triton.signals import Gradient, Signal, pointer
from torchnpn.kernels.triton.step import source_rows

MOST_TARGETS = 512  # in the registers of one program
_TILE = 512


def noise_loss(
    outputs: Sequence[Signal],
    y: Tensor,
    log_noise: Tensor,
    plan: Any,
    following: Tensor,
    elbo: float,
    limit: float,
    variance: torch.dtype,
    squares: Sequence[Tensor | None],
) -> tuple[list[Gradient], Tensor]:
    """Gradients by the outputs of each head, and by log σ² (R, 1 or targets); share · loss goes to the plan.

    Args:
        outputs: Moments (R, batch, padded targets); two where the noise varies, which is the second.
        y: Targets of all rows.
        log_noise: log σ², (R, 1 or targets).
        plan: Of the epoch.
        following: To which the step that comes next is written.
        elbo: Share of the ELBO in the loss.
        limit: Of exponents.
        variance: Type of gradients by variances.
        squares: r² (R, targets) of each head, where its standard deviations are tied: its gradient comes with u.
    """
    m = outputs[0].m
    (R, M, _), T = m.shape, y.shape[-1]
    BT = triton.next_power_of_2(T)
    BM = max(1, _TILE // BT)
    programs = triton.cdiv(M, BM)
    found = [
        Gradient(torch.empty_like(m), torch.empty_like(m, dtype=variance), None if r2 is None else m.new_empty(1, R, M))
        for r2 in squares
    ]
    tied = [tensor for g, r2 in zip(found, squares, strict=True) for tensor in (pointer(g.u, m), pointer(r2, m))]
    by_noise = m.new_empty(programs, *log_noise.shape)
    _noise_kernel[(programs, R)](
        *outputs[0][:2], *outputs[-1][:2], *found[0][:2], *found[-1][:2], *tied[:2], *tied[-2:], y, log_noise,
        plan.order, plan.share, plan.cursor, following, by_noise, plan.losses, M, T, plan.order.shape[1], elbo, limit,
        torch.finfo(variance).max, VARYING=len(outputs) > 1, SHARED=log_noise.shape[-1] == 1,
        TIED=squares[0] is not None, BM=BM, BT=BT,
    )  # fmt: skip
    return found, by_noise.sum(0)


@triton.jit
def _within(x, most):
    return tl.minimum(tl.maximum(x, -most), most)


@triton.jit
def _soft_clamp(x, limit):
    """`guards.soft_clamp`, and its slope."""
    inner = _within(x / limit, 1.0)
    excess = x / limit - inner
    below = 1 + 10 * tl.abs(excess)
    return limit * (inner + excess / below), 1 / (below * below)


@triton.jit
def _store_zeros(g_m, g_s, replica, rows, M, T):
    """Beyond the targets."""
    beyond = T + tl.arange(0, 16)
    at = (replica * M + rows[:, None]) * padded(T) + beyond[None, :]
    inside = (rows[:, None] < M) & (beyond[None, :] < padded(T))
    zero = tl.zeros((rows.shape[0], 16), tl.float32)
    tl.store(g_m + at, zero, mask=inside)
    tl.store(g_s + at, zero, mask=inside)


@triton.jit(do_not_specialize=("M", "T", "length"))
def _noise_kernel(
    o_m, o_s, noise_m, noise_s, g_m, g_s, by_noise_m, by_noise_s, u, r2, noise_u, noise_r2, y, log_noise,
    order, share, cursor, following, by_noise, losses,
    M, T, length, elbo, limit, most,
    VARYING: tl.constexpr, SHARED: tl.constexpr, TIED: tl.constexpr, BM: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    rows, targets = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BT)
    step = tl.load(cursor + replica)
    if tl.program_id(0) == 0:
        tl.store(following + replica, step + 1)
    start = replica * length + step.to(tl.int64) * M
    inside = (rows[:, None] < M) & (targets[None, :] < T)
    w = tl.load(share + start + rows, mask=rows < M, other=0.0).to(tl.float64)[:, None]
    at = (replica * M + rows[:, None]) * padded(T) + targets[None, :]
    source = source_rows(order, step, replica, rows, M, length)
    value = tl.load(y + source[:, None] * T + targets[None, :], mask=inside, other=0.0).to(tl.float64)
    r = _within(value - tl.load(o_m + at, mask=inside, other=0.0).to(tl.float64), 1e100)
    s = tl.load(o_s + at, mask=inside, other=0.0).to(tl.float64)
    if SHARED:
        level = tl.load(log_noise + replica).to(tl.float64) + tl.zeros((1, BT), tl.float64)
    else:
        level = tl.load(log_noise + replica * T + targets, mask=targets < T, other=0.0).to(tl.float64)[None, :]
    log_sigma2, slope = _soft_clamp(level, limit)
    sigma2 = tl.exp(log_sigma2)
    t, bound = s + sigma2, elbo / sigma2
    predictive, misfit = (1 - elbo) / t, (r * r + s) / sigma2
    loss = (1 - elbo) * (r * r / t + tl.log(t)) + elbo * (misfit + log_sigma2)
    by_t = 0.5 * w * predictive * (1 - r * r / t)
    tl.store(g_m + at, _within(-w * r * (predictive + bound), most), mask=inside)
    by_s = _within(by_t + 0.5 * w * bound, most)
    tl.store(g_s + at, by_s, mask=inside)
    by_level = slope * (sigma2 * by_t + 0.5 * w * elbo * (1 - misfit))
    if VARYING:
        level += tl.load(noise_m + at, mask=inside, other=0.0).to(tl.float64)
        half = 0.5 * tl.load(noise_s + at, mask=inside, other=0.0).to(tl.float64)
        log_n, slope_n = _soft_clamp(level + half, limit)
        log_p, slope_p = _soft_clamp(half - level, limit)
        n, misfit = tl.exp(log_n), (r * r + s) * tl.exp(log_p)
        t = s + n
        loss = (1 - elbo) * (r * r / t + tl.log(t)) + elbo * (misfit + level)
        by_n = 0.5 * w * (1 - elbo) * (1 - r * r / t) * (n / t) * slope_n
        by_p = 0.5 * w * elbo * misfit * slope_p
        tl.store(by_noise_m + at, _within(by_n - by_p + 0.5 * w * elbo, most), mask=inside)
        by_noise_variance = _within(0.5 * (by_n + by_p), most)
        tl.store(by_noise_s + at, by_noise_variance, mask=inside)
    _store_zeros(g_m, g_s, replica, rows, M, T)
    if VARYING:
        _store_zeros(by_noise_m, by_noise_s, replica, rows, M, T)
    if TIED:
        store_part(tl.where(inside, by_s, 0.0).to(tl.float32), r2, u, 0, replica, rows, targets, M, T)
        if VARYING:
            values = tl.where(inside, by_noise_variance, 0.0).to(tl.float32)
            store_part(values, noise_r2, noise_u, 0, replica, rows, targets, M, T)
    total = tl.sum(tl.where(inside, w * 0.5 * (loss + 1.8378770664093453), 0.0), 1)  # log 2π
    tl.store(losses + start + rows, _within(total, most * 9.5367431640625e-07), mask=rows < M)  # 2^-20: can be summed
    by_level = tl.sum(tl.where(inside, by_level, 0.0), 0)
    part = tl.program_id(0) * tl.num_programs(1) + replica
    if SHARED:
        tl.store(by_noise + part, _within(tl.sum(by_level), most))
    else:
        tl.store(by_noise + part * T + targets, _within(by_level, most), mask=targets < T)
