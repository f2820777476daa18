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

from torchnpn.kernels.triton.epilogues import dropout_scale, padded, store_part, store_signal
from torchnpn.kernels.triton.layer import MOST_PARTS, batch_parts, forward, stride
from torchnpn.kernels.triton.products import linear_tile
from torchnpn.kernels.triton.signals import (
    FAST,
    Activation,
    Drop,
    Gradient,
    Precision,
    Signal,
    Weights,
    places,
    pointer,
)


@triton.jit
def source_rows(order, step, replica, rows, M, length):
    """Where in the data the rows of a batch lie, in the step of that number."""
    return tl.load(order + replica * length + step.to(tl.int64) * M + rows, mask=rows < M, other=0).to(tl.int64)


@triton.jit(do_not_specialize=("M", "length", "salt"))
def _gather_kernel(
    x_m, x_s, shift, order, cursor, following, out_m, out_A, out_t, c2, seed, M, K, length, stride_x, p, salt,
    HAS_S: tl.constexpr, TIED: tl.constexpr, SHIFT: tl.constexpr, DROP: tl.constexpr, BM: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    step = tl.load(following + replica)
    if tl.program_id(0) == 0:
        tl.store(cursor + replica, step)
    tiles = tl.cdiv(K, BK)
    rows = (tl.program_id(0) // tiles) * BM + tl.arange(0, BM)
    columns = (tl.program_id(0) % tiles) * BK + tl.arange(0, BK)
    row = source_rows(order, step, replica, rows, M, length)
    inside = (rows[:, None] < M) & (columns[None, :] < K)
    source = replica * stride_x + row[:, None] * K + columns[None, :]
    whole = (rows[:, None] < M) & (columns[None, :] < padded(K))
    at = (replica * M + rows[:, None]) * padded(K) + columns[None, :]
    mean = tl.load(x_m + source, mask=inside, other=0.0)
    if SHIFT:
        mean += tl.load(shift + at, mask=inside, other=0.0)
    scale = tl.full((BM, BK), 1.0, tl.float32)
    if DROP:
        scale = dropout_scale(seed, following, replica, salt, rows, columns, K, M, p)
    mean *= scale
    tl.store(out_m + at, mean, mask=whole)
    variance = tl.zeros((BM, BK), tl.float32)
    if HAS_S:
        variance = tl.load(x_s + source, mask=inside, other=0.0) * scale * scale
    part = tl.program_id(0) % tiles
    store_signal(mean, variance, out_A, out_t, c2, part, replica, rows, columns, M, K, HAS_S, TIED)


def gather(
    x_m: Tensor,
    x_s: Tensor | None,
    plan: Any,
    w: Weights,
    drop: Drop | None = None,
    precision: Precision = FAST,
    shift: Tensor | None = None,
) -> Signal:
    """The rows of this step, (R or 1, rows, in) -> (R, batch, in); moved by `shift`, then dropped, where asked for.

    They are given as the layer of the weights `w` takes them.
    """
    R, length = plan.order.shape
    K, batch, BM, BK = x_m.shape[-1], plan.batch, 8, 128
    out_m = x_m.new_empty(R, batch, places(K))
    halves = (x_s is not None) + (w.tied is None)
    pair = x_m.new_empty(R, batch, halves * places(K), dtype=precision.variance) if halves else None
    t = None if w.tied is None else x_m.new_empty(triton.cdiv(K, BK), R, batch)
    seed, p, salt = (plan.cursor, 0.0, 0) if drop is None else (drop.seed, drop.p, drop.salt)
    _gather_kernel[(triton.cdiv(batch, BM) * triton.cdiv(K, BK), R)](
        x_m, pointer(x_s, x_m), pointer(shift, x_m), plan.order, plan.cursor, plan.following, out_m,
        pointer(pair, out_m), pointer(t, out_m), pointer(w.c2, out_m), seed,
        batch, K, length, 0 if len(x_m) == 1 else x_m.shape[1] * K, p, salt,
        HAS_S=x_s is not None, TIED=t is not None, SHIFT=shift is not None, DROP=drop is not None, BM=BM, BK=BK,
    )  # fmt: skip
    return Signal(out_m, None, pair, t)


@triton.jit
def _end_of_classes(
    m, s, r2, y, order, share, cursor, following, g_m, g_s, g_u, losses, replica, rows, classes, M, N, length, stride_y,
    SIGMOIDS: tl.constexpr, TIED: tl.constexpr,
):  # fmt: skip
    """The loss, of a softmax or sigmoids, of a tile with all classes of its rows; its gradients, zero beyond them."""
    step = tl.load(cursor + replica)
    if tl.program_id(0) == 0:
        tl.store(following + replica, step + 1)
    start = replica * length + step.to(tl.int64) * M
    w = tl.load(share + start + rows, mask=rows < M, other=0.0)
    label = tl.load(y + replica * stride_y + source_rows(order, step, replica, rows, M, length))
    inside = (rows[:, None] < M) & (classes[None, :] < N)
    k = 1 / tl.sqrt(1 + 0.39269908169872414 * s)  # π/8
    z = tl.where(inside, k * m, -1e30)
    own = classes[None, :] == label[:, None]
    if SIGMOIDS:
        e = tl.exp(-tl.abs(z))  # of two answers: their sum is 1 + e
        p = tl.where(z > 0, 1.0, e) / (1 + e)
        loss = tl.sum(tl.where(inside, tl.maximum(tl.where(own, -z, z), 0.0) + tl.log(1 + e), 0.0), 1)
    else:
        z -= tl.max(z, 1)[:, None]
        e = tl.where(inside, tl.exp(z), 0.0)
        total = tl.where(rows < M, tl.sum(e, 1), 1.0)
        p = e / total[:, None]
        loss = tl.log(total) - tl.sum(tl.where(own & inside, z, 0.0), 1)
    by_z = w[:, None] * (p - tl.where(own, 1.0, 0.0))
    whole = (rows[:, None] < M) & (classes[None, :] < padded(N))
    at = (replica * M + rows[:, None]) * padded(N) + classes[None, :]
    tl.store(g_m + at, tl.where(inside, k * by_z, 0.0), mask=whole)
    by_s = tl.where(inside, -0.19634954084936207 * k * k * k * m * by_z, 0.0)  # π/16
    tl.store(g_s + at, by_s, mask=whole)
    if TIED:
        store_part(by_s, r2, g_u, 0, replica, rows, classes, M, N)
    tl.store(losses + start + rows, w * loss, mask=rows < M)


@triton.jit(do_not_specialize=("M", "length", "stride_y", "parts"))
def _class_layer_kernel(
    a_m, A, W_m, P, b_m, b_v, t, r2, y, order, share, cursor, following, g_m, g_s, g_u, losses,
    M, N, K, stride_a, length, stride_y, parts,
    HALVES: tl.constexpr, SIGMOIDS: tl.constexpr, TIED: tl.constexpr, PARTS: tl.constexpr, PRECISION: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    rows, classes = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    m, s = linear_tile(
        a_m, A, W_m, P, b_m, b_v, t, r2, parts, replica, rows, classes, M, N, K, stride_a,
        HALVES, TIED, True, True, PRECISION, PARTS, BM, BN, BK,
    )  # fmt: skip
    _end_of_classes(
        m, s, r2, y, order, share, cursor, following, g_m, g_s, g_u, losses, replica, rows, classes, M, N, length,
        stride_y, SIGMOIDS, TIED,
    )  # fmt: skip


@triton.jit(do_not_specialize=("M", "length", "stride_y"))
def _class_kernel(
    o_m, o_s, r2, y, order, share, cursor, following, g_m, g_s, g_u, losses, M, N, length, stride_y,
    SIGMOIDS: tl.constexpr, TIED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    replica = tl.program_id(1).to(tl.int64)
    rows, classes = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    inside = (rows[:, None] < M) & (classes[None, :] < N)
    at = (replica * M + rows[:, None]) * padded(N) + classes[None, :]
    _end_of_classes(
        tl.load(o_m + at, mask=inside, other=0.0), tl.load(o_s + at, mask=inside, other=0.0), r2, y, order, share,
        cursor, following, g_m, g_s, g_u, losses, replica, rows, classes, M, N, length, stride_y, SIGMOIDS, TIED,
    )  # fmt: skip


MOST_CLASSES = 8192  # in the registers of one program
_FEW_CLASSES = 128  # that the program of a layer has all of


def class_layer(
    a: Signal, w: Weights, y: Tensor, plan: Any, following: Tensor, precision: Precision, sigmoids: bool
) -> Gradient:
    """The last layer and `ScaledSoftmax`, or `ScaledSigmoids`, of labels y (R or 1, rows): gradients by o.

    Share · loss goes to the plan, and the step that comes next to `following`.
    """
    R, N, K = w.W_m.shape
    M, BN = a.m.shape[-2], max(16, triton.next_power_of_2(N))
    g_m = a.m.new_empty(R, M, places(N))
    g_s = torch.empty_like(g_m, dtype=precision.variance)
    u, r2 = (None, w.W_m) if w.tied is None else (g_m.new_empty(1, R, M), w.tied.r2)
    arguments = (
        r2, y, plan.order, plan.share, plan.cursor, following, g_m, g_s, pointer(u, g_m), plan.losses, M, N,
    )  # fmt: skip
    kind = {"SIGMOIDS": sigmoids, "TIED": u is not None}
    strides = plan.order.shape[1], 0 if len(y) == 1 else y.shape[1]
    if N > _FEW_CLASSES:
        BM = max(1, 4096 // BN)
        o = forward(a, w, Activation(), precision=precision)
        _class_kernel[(triton.cdiv(M, BM), R)](o.o_m, o.o_s, *arguments, *strides, **kind, BM=BM, BN=BN)
        return Gradient(g_m, g_s, u)
    t, parts = batch_parts(a.t, a.m)
    _class_layer_kernel[(triton.cdiv(M, 16), R)](
        a.m, pointer(a.pair, a.m), w.padded, pointer(w.pair, w.W_m), w.b_m, w.b_v, t, *arguments, K,
        stride(a.m), *strides, parts, HALVES=a.halves, **kind, PARTS=MOST_PARTS,
        PRECISION=precision.mean, BM=16, BN=BN, BK=128 if BN <= 32 else 64, num_warps=4, num_stages=3,
    )  # fmt: skip
    return Gradient(g_m, g_s, u)
