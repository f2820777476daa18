"""What a training step does besides its layers: fetch rows, compute the loss of class labels.

Of the plan, a `training.epoch.DevicePlan`: `cursor` (replicas,) has the number of the step under way, `following` that
of the next: so no kernel reads what it writes. `order` (replicas, steps · batch) has the rows in the order of their
use; `share` (replicas, steps · batch) is the share of each in the loss of its batch, zero beyond the last row.
"""

# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from torchnpn.kernels.triton.epilogues import dropout_scale
from torchnpn.kernels.triton.products import linear_tile
from torchnpn.kernels.triton.signals import FAST, Drop, Gradient, Precision, Signal, Weights, pointer


@triton.jit
def _source_rows(order, step, replica, rows, M, length):
    """Where in the data the rows of a batch lie, in the step of that number."""
    return tl.load(order + replica * length + step.to(tl.int64) * M + rows, mask=rows < M, other=0).to(tl.int64)


@triton.jit
def _gather_kernel(
    x_m, x_s, shift, order, cursor, following, out_m, out_A, seed, M, K, length, stride_x, p, salt,
    HAS_S: tl.constexpr, SHIFT: tl.constexpr, DROP: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    step = tl.load(following + replica)
    if tl.program_id(0) == 0:
        tl.store(cursor + replica, step)
    tiles = tl.cdiv(K, BK)
    rows = (tl.program_id(0) // tiles) * BM + tl.arange(0, BM)
    columns = (tl.program_id(0) % tiles) * BK + tl.arange(0, BK)
    row = _source_rows(order, step, replica, rows, M, length)
    inside = (rows[:, None] < M) & (columns[None, :] < K)
    source = replica * stride_x + row[:, None] * K + columns[None, :]
    at = (replica * M + rows[:, None]) * K + columns[None, :]
    mean = tl.load(x_m + source, mask=inside, other=0.0)
    if SHIFT:
        mean += tl.load(shift + at, mask=inside, other=0.0)
    scale = tl.full((BM, BK), 1.0, tl.float32)
    if DROP:
        scale = dropout_scale(seed, following, replica, salt, rows, columns, K, M, p)
    mean *= scale
    tl.store(out_m + at, mean, mask=inside)
    if HAS_S:
        variance = tl.load(x_s + source, mask=inside, other=0.0) * scale * scale
        pair = (replica * M + rows[:, None]) * (2 * K) + columns[None, :]
        tl.store(out_A + pair, mean * mean + variance, mask=inside)
        tl.store(out_A + pair + K, variance, mask=inside)
    else:
        tl.store(out_A + at, mean * mean, mask=inside)


def gather(
    x_m: Tensor,
    x_s: Tensor | None,
    plan: Any,
    drop: Drop | None = None,
    precision: Precision = FAST,
    shift: Tensor | None = None,
) -> Signal:
    """The rows of this step, (R or 1, rows, in) -> (R, batch, in); moved by `shift`, then dropped, where asked for."""
    R, length = plan.order.shape
    K, batch = x_m.shape[-1], plan.batch
    out_m = x_m.new_empty(R, batch, K)
    pair = x_m.new_empty(R, batch, K if x_s is None else 2 * K, dtype=precision.variance)
    seed, p, salt = (plan.cursor, 0.0, 0) if drop is None else (drop.seed, drop.p, drop.salt)
    _gather_kernel[(triton.cdiv(batch, 8) * triton.cdiv(K, 128), R)](
        x_m, pointer(x_s, x_m), pointer(shift, x_m), plan.order, plan.cursor, plan.following, out_m, pair, seed,
        batch, K, length, 0 if len(x_m) == 1 else x_m.shape[1] * K, p, salt,
        HAS_S=x_s is not None, SHIFT=shift is not None, DROP=drop is not None, BM=8, BK=128,
    )  # fmt: skip
    return Signal(out_m, None, pair)


@triton.jit
def _softmax_layer_kernel(
    a_m, A, W_m, P, b_m, b_v, y, order, share, cursor, following, g_m, g_s, losses, M, N, K, stride_a, length, stride_y,
    HAS_S: tl.constexpr, HAS_B: tl.constexpr, LOG_STD: tl.constexpr, PRECISION: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    rows, classes = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    m, s = linear_tile(
        a_m, A, W_m, P, b_m, b_v, replica, rows, classes, M, N, K, stride_a,
        HAS_S, HAS_B, LOG_STD, PRECISION, BM, BN, BK,
    )  # fmt: skip
    step = tl.load(cursor + replica)
    if tl.program_id(0) == 0:
        tl.store(following + replica, step + 1)
    start = replica * length + step.to(tl.int64) * M
    w = tl.load(share + start + rows, mask=rows < M, other=0.0)
    label = tl.load(y + replica * stride_y + _source_rows(order, step, replica, rows, M, length))
    inside = (rows[:, None] < M) & (classes[None, :] < N)
    k = 1 / tl.sqrt(1 + 0.39269908169872414 * s)  # π/8
    z = tl.where(inside, k * m, -1e30)
    z -= tl.max(z, 1)[:, None]
    e = tl.where(inside, tl.exp(z), 0.0)
    total = tl.where(rows < M, tl.sum(e, 1), 1.0)
    own = classes[None, :] == label[:, None]
    loss = tl.log(total) - tl.sum(tl.where(own & inside, z, 0.0), 1)
    by_z = w[:, None] * (e / total[:, None] - tl.where(own, 1.0, 0.0))
    at = (replica * M + rows[:, None]) * N + classes[None, :]
    tl.store(g_m + at, k * by_z, mask=inside)
    tl.store(g_s + at, -0.19634954084936207 * k * k * k * m * by_z, mask=inside)  # π/16
    tl.store(losses + start + rows, w * loss, mask=rows < M)


MOST_CLASSES = 128


def softmax_layer(a: Signal, w: Weights, y: Tensor, plan: Any, following: Tensor, precision: Precision) -> Gradient:
    """The last layer and `ScaledSoftmax` of labels y (R or 1, rows): gradients by o; share · loss goes to the plan.

    The step that comes next is written to `following`.
    """
    R, N, K = w.W_m.shape
    M = a.m.shape[-2]
    BN = max(16, triton.next_power_of_2(N))
    g_m = a.m.new_empty(R, M, N)
    g_s = torch.empty_like(g_m, dtype=precision.variance)
    _softmax_layer_kernel[(triton.cdiv(M, 16), R)](
        a.m, a.pair, w.W_m, w.pair, w.b_m, w.b_v, y, plan.order, plan.share, plan.cursor, following, g_m, g_s,
        plan.losses, M, N, K, 0 if len(a.m) == 1 else M * K, plan.order.shape[1], 0 if len(y) == 1 else y.shape[1],
        HAS_S=a.random, HAS_B=w.b_m is not None, LOG_STD=w.log_std, PRECISION=precision.mean,
        BM=16, BN=BN, BK=128 if BN <= 32 else 64, num_warps=4, num_stages=3,
    )  # fmt: skip
    return Gradient(g_m, g_s)
