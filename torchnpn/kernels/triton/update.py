"""From products to new weights: the KL and the optimizer in one pass over memory.

Weights first; then, in a small kernel, vectors: biases, and tied standard deviations. What that needs, the first
leaves: sums over parts of the batch, and λ c² as it was before the step.
"""

# mypy: ignore-errors

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from torchnpn.kernels.triton.epilogues import padded
from torchnpn.kernels.triton.layer import MOST_PARTS, batch_parts, stride, weight_products
from torchnpn.kernels.triton.optimizer import constants, settings_now, step_at
from torchnpn.kernels.triton.products import weight_tile
from torchnpn.kernels.triton.signals import UNIT, Gradient, Precision, Signal, Weights, pointer
from torchnpn.kernels.triton.vectors import sum_inputs, sum_of, sum_outputs, vectors_kernel

_MOST_PARTS = 700  # of sums that each program adds up for itself
_VECTOR = 64  # outputs, or inputs, of a program for vectors
_FEW_ROWS = 64  # of a batch
_ROWS = 128  # of the batch, in a part of a sum over it


class Optimizer(NamedTuple):
    """The averages of one layer, and the schedule that all layers share."""

    W: Tensor  # (4, R, out, in): first and second of the mean, first and second of the log standard deviation, if any
    b: Tensor  # (4, R, out)
    r: Tensor  # (2, R, out), of tied logarithms
    c: Tensor  # (2, R, in)
    schedule: Tensor  # (steps, R, 3): rate, correction, β/N
    cursor: Tensor  # int32 (R,), the number of the step
    rule: tuple[str, float, float, float]  # see `kernels.step_`


class Penalty(NamedTuple):
    """The prior of one layer: "none", "isotropic", or empirical Bayes over "inputs" or "all" weights."""

    kind: str
    precision: float  # of the biases; of all where isotropic
    sums: Tensor | None  # of m² + s, or of m² alone where s is tied: for "inputs" and "all", see `new_sums`
    squares: Tensor  # (2, R, parts): sums of r², then of c²; two halves, taken in turns
    scaled: Tensor  # (R, in): λ c²


def new_optimizer(w: Weights, schedule: Tensor, cursor: Tensor, rule: tuple[str, float, float, float]) -> Optimizer:
    """Averages of nothing yet."""
    (R, N, K), tied = w.W_m.shape, w.tied is not None
    W, b, r, c = (w.W_m.new_zeros(*size) for size in ((2 if tied else 4, R, N, K), (4, R, N), (2, R, N), (2, R, K)))
    return Optimizer(W, b, r, c, schedule, cursor, rule)


def new_penalty(kind: str, precision: float, w: Weights) -> Penalty:
    """With memory for the Σ (m² + s) of empirical Bayes: two halves, taken in turns, with a part for each tile."""
    R, N, K = w.W_m.shape
    _, _, tiles_n, tiles = _tiling(R, N, K)
    sizes = {"inputs": (2, R, tiles_n, K), "all": (2, R, tiles)}
    sums = w.W_m.new_zeros(*sizes[kind]) if kind in sizes else None
    squares = w.W_m.new_zeros(2, R, triton.cdiv(N, _VECTOR) + triton.cdiv(K, _VECTOR))
    return Penalty(kind, precision, sums, squares, w.W_m.new_zeros(R, K))


def fill_sums_(penalty: Penalty, w: Weights) -> None:
    """What the sums are for the weights as they are now."""
    penalty.squares.zero_()
    if w.tied is not None:
        parts = triton.cdiv(w.W_m.shape[1], _VECTOR)
        penalty.squares[0, :, 0], penalty.squares[0, :, parts] = w.tied.r2.sum(-1), w.tied.c2.sum(-1)
    if penalty.sums is None:
        return
    penalty.sums.zero_()
    second = w.W_m.square() if w.W_v is None else w.W_m.square() + torch.exp(2 * w.W_v)
    penalty.sums[0, :, 0] = second.sum(-2) if penalty.kind == "inputs" else second.sum((-2, -1))


def update_(g: Gradient, a: Signal, w: Weights, optimizer: Optimizer, penalty: Penalty, precision: Precision) -> None:
    """One step on loss + β KL for a layer of Gaussian weights, in place; its pair is new, too."""
    R, N, K = w.W_m.shape
    M, tied = g.m.shape[-2], w.tied is not None
    fused = is_fused(M, N, K, precision, a.m)
    by_m, by_pair = (a.m, None) if fused else weight_products(g, a, w, precision.variance, precision)
    parts = sums = penalty.sums
    if sums is not None and R * sums.shape[2] > _MOST_PARTS:
        sums = sums.sum(2, keepdim=True)
    BN, BK, tiles_n, tiles = _tiling(R, N, K)
    runs, blocks, features = triton.cdiv(M, _ROWS), triton.cdiv(N, _VECTOR), triton.cdiv(K, _VECTOR) if tied else 0
    (t, t_parts), (u, u_parts) = batch_parts(a.t, a.m), batch_parts(g.u, a.m)
    over_batch = a.m.new_empty(runs, R, 3 * N + K)
    squares = (w.W_m, w.W_m, w.W_m, w.W_m) if w.tied is None else w.tied
    common = {"TIED": tied, "PRIOR": penalty.kind, **constants(optimizer.rule)}
    counts = 1 if sums is None else sums.shape[2], 1 if fused else len(by_m), stride(a.m), t_parts, u_parts
    update_kernel[(tiles + runs * (blocks + features), R)](
        by_m, pointer(by_pair, by_m), w.W_m, pointer(w.W_v, w.W_m), w.padded, pointer(w.pair, w.W_m), optimizer.W,
        pointer(sums, w.W_m), pointer(parts, w.W_m), penalty.squares, penalty.scaled, squares[3],
        g.m, g.s, a.m, pointer(a.pair, a.m), t, u, over_batch, optimizer.schedule, optimizer.cursor,
        M, N, K, tiles_n, tiles, *counts, penalty.precision, HALVES=w.halves, HAS_S=a.random, **common,
        PARTS=MOST_PARTS, COPY=w.padded is not w.W_m, FUSED=fused,
        PRECISION=precision.mean, UNIT=math.gcd(K, UNIT), BN=BN, BK=BK, VECTOR=_VECTOR, ROWS=_ROWS, BM=min(32, _ROWS),
    )  # fmt: skip
    if w.b_m is not None or tied:
        vectors_kernel[(blocks + features, R)](
            over_batch, pointer(w.b_m, w.W_m), pointer(w.b_v, w.W_m), optimizer.b, *squares, optimizer.r, optimizer.c,
            penalty.squares, penalty.scaled, optimizer.schedule, optimizer.cursor, runs, N, K, penalty.precision,
            HAS_B=w.b_m is not None, **common, VECTOR=_VECTOR, RUNS=8,
        )  # fmt: skip


def is_fused(M: int, N: int, K: int, precision: Precision, a: Tensor) -> bool:
    """Whether the kernel that updates weights takes their products, too: of few rows, which cost less than memory."""
    return M <= _FEW_ROWS and not (precision.mean == "ieee" and a.is_cuda)


def _tiling(R: int, N: int, K: int) -> tuple[int, int, int, int]:
    """Outputs and inputs of a tile of weights in the update; how many tiles lie along the outputs, and in all."""
    BN, BK = (32, 32) if R < 8 else (16, 64)
    return BN, BK, triton.cdiv(N, BN), triton.cdiv(N, BN) * triton.cdiv(K, BK)


# Kernels ------------------------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=("M", "N", "K", "tiles_n", "tiles", "count", "splits", "t_parts", "u_parts"))
def update_kernel(
    by_m, by_pair, W_m, W_v, copy, P, averages, sums, parts, squares, scaled, c2,
    g_m, g_s, a_m, A, t, u, over_batch, schedule, cursor,
    M, N, K, tiles_n, tiles, count, splits, stride_a, t_parts, u_parts, precision,
    HALVES: tl.constexpr, HAS_S: tl.constexpr, TIED: tl.constexpr, PRIOR: tl.constexpr, KIND: tl.constexpr,
    B1: tl.constexpr, B2: tl.constexpr, EPSILON: tl.constexpr, PARTS: tl.constexpr, COPY: tl.constexpr,
    FUSED: tl.constexpr, PRECISION: tl.constexpr, UNIT: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    VECTOR: tl.constexpr,
    ROWS: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Gaussian weights after a step on `loss + β KL`, with what is made of them; sums for `vectors_kernel`.

    `schedule` has for each step and replica: the rate, its correction, and β/N; the step is in `cursor`. `PRIOR` is
    "none", "isotropic", or empirical Bayes with one variance for each input ("inputs") or for all weights ("all"). Its
    Σ (m² + s) are summed tile by tile as weights are written, for the next step, in the other half of `parts`;
    `sums` has `count` such numbers, the same memory or already added up.
    """
    replica, replicas = tl.program_id(1).to(tl.int64), tl.num_programs(1).to(tl.int64)
    program, tile = tl.program_id(0), tl.program_id(0) - (tl.num_programs(0) - tiles)
    if tile >= 0:
        _update_weights(
            by_m, by_pair, W_m, W_v, copy, P, averages, sums, parts, squares, scaled, c2, g_m, g_s, a_m, A, schedule,
            cursor, tile, M, N, K, tiles_n, tiles, count, splits, stride_a, precision, replica, replicas,
            HALVES, HAS_S, TIED, PRIOR, KIND, B1, B2, EPSILON, COPY, FUSED, PRECISION, UNIT, BM, BN, BK, VECTOR,
        )  # fmt: skip
    else:  # the first programs, because these take longest
        blocks = tl.cdiv(N, VECTOR)
        columns = blocks + tl.cdiv(K, VECTOR) if TIED else blocks
        run, block = program // columns, program % columns
        out = over_batch + (run * replicas + replica) * (3 * N + K)
        if block < blocks:
            sum_outputs(g_m, g_s, t, out, run, block, M, N, t_parts, replica, TIED, PARTS, VECTOR, ROWS, BM)
        else:
            sum_inputs(
                a_m + replica * stride_a, A + replica * stride_a, u, out + 3 * N, run, block - blocks, M, K, u_parts,
                replica, PARTS, HAS_S, VECTOR, ROWS, BM,
            )  # fmt: skip


@triton.jit
def _update_weights(
    by_m, by_pair, W_m, W_v, copy, P, averages, sums, parts, squares, scaled, c2, g_m, g_s, a_m, A, schedule, cursor,
    tile, M, N, K, tiles_n, tiles, count, splits, stride_a, precision, replica, replicas,
    HALVES: tl.constexpr, HAS_S: tl.constexpr, TIED: tl.constexpr, PRIOR: tl.constexpr, KIND: tl.constexpr,
    B1: tl.constexpr, B2: tl.constexpr, EPSILON: tl.constexpr, COPY: tl.constexpr, FUSED: tl.constexpr,
    PRECISION: tl.constexpr, UNIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    VECTOR: tl.constexpr,
):  # fmt: skip
    K = K // UNIT * UNIT  # so that the compiler knows how rows are aligned
    step, rate, correction, beta = settings_now(schedule, cursor, replica, replicas)
    tiles_k = tl.cdiv(K, BK)
    tile_n = tile // tiles_k
    rows = tile_n * BN + tl.arange(0, BN)
    columns = (tile % tiles_k) * BK + tl.arange(0, BK)
    inside = (rows[:, None] < N) & (columns[None, :] < K)
    at = (replica * N + rows[:, None]) * K + columns[None, :]
    height, width = padded(N), padded(K)
    product = (replica * height + rows[:, None]) * width + columns[None, :]
    pair = (replica * height + rows[:, None]) * (width * HALVES) + columns[None, :]
    if FUSED:
        by_mean, one, other = weight_tile(
            g_m, g_s, a_m, A, replica, rows, columns, 0, M, M, N, K, stride_a, HALVES, PRECISION, BM, BN, BK
        )
    else:
        by_mean, one = tl.zeros((BN, BK), tl.float32), tl.zeros((BN, BK), tl.float32)
        other = tl.zeros((BN, BK), tl.float32)
        for part in range(0, splits):
            skipped = part * replicas * height * width
            by_mean += tl.load(by_m + skipped + product, mask=inside, other=0.0)
            if HALVES > 0:
                one += tl.load(by_pair + skipped * HALVES + pair, mask=inside, other=0.0).to(tl.float32)
            if HALVES > 1:
                other += tl.load(by_pair + skipped * HALVES + pair + width, mask=inside, other=0.0).to(tl.float32)
    m = tl.load(W_m + at, mask=inside, other=0.0)
    if HAS_S:
        by_mean += 2 * m * (one if TIED else other)
    size = replicas * N * K
    old, new = (step % 2) * replicas + replica, ((step + 1) % 2) * replicas + replica
    if PRIOR != "none":
        blocks, features = tl.cdiv(N, VECTOR), tl.cdiv(K, VECTOR)
        squares += old * (blocks + features)
        if PRIOR == "isotropic":
            weight_precision = precision + tl.zeros((BK,), tl.float32)
        elif PRIOR == "inputs":
            total = tl.zeros((BK,), tl.float32)
            for first in range(0, count, 32):
                places = first + tl.arange(0, 32)[:, None]
                here = (places < count) & (columns[None, :] < K)
                total += tl.sum(tl.load(sums + (old * count + places) * K + columns[None, :], mask=here, other=0.0), 0)
            if TIED:
                own = tl.load(c2 + replica * K + columns, mask=columns < K, other=0.0)
                total += own * sum_of(squares, blocks, VECTOR)
            weight_precision = N / tl.where(columns < K, total, 1.0)
        else:
            total = sum_of(sums + old * count, count, 1024)
            if TIED:
                total += sum_of(squares, blocks, VECTOR) * sum_of(squares + blocks, features, VECTOR)
            weight_precision = N * K / total + tl.zeros((BK,), tl.float32)
        by_mean += beta * weight_precision[None, :] * m
        if TIED and tile_n == 0:
            own = tl.load(c2 + replica * K + columns, mask=columns < K, other=0.0)
            tl.store(scaled + replica * K + columns, weight_precision * own, mask=columns < K)
    second = tl.zeros((BN, BK), tl.float32)
    if not TIED:
        log_std = tl.load(W_v + at, mask=inside, other=0.0)
        s = tl.exp(2 * log_std)
        g_l = 2 * s * one
        if PRIOR != "none":
            g_l += beta * (weight_precision[None, :] * s - 1)
        log_std = step_at(log_std, g_l, averages + 2 * size, size, at, inside, rate, correction, KIND, B1, B2, EPSILON)
        second = tl.exp(2 * log_std)
        tl.store(W_v + at, log_std, mask=inside)
        tl.store(P + pair, second, mask=inside)
    m = step_at(m, by_mean, averages, size, at, inside, rate, correction, KIND, B1, B2, EPSILON)
    second += m * m
    tl.store(W_m + at, m, mask=inside)
    if COPY:
        tl.store(copy + product, m, mask=inside)
    if HAS_S:
        tl.store(P + pair + (HALVES - 1) * width, m * m, mask=inside)
    if PRIOR == "inputs":
        seconds = tl.sum(tl.where(inside, second, 0.0), 0)
        tl.store(parts + (new * tiles_n + tile_n) * K + columns, seconds, mask=columns < K)
    elif PRIOR == "all":
        tl.store(parts + new * tiles + tile, tl.sum(tl.where(inside, second, 0.0)))
