"""From products to new weights: the KL and Adam in one pass over memory.

Weights first, then, in a small kernel, vectors: biases, and tied standard deviations r_o c_i. With λ of the prior, the KL's
gradient by log r_o is r_o² Σ_i λ_i c_i² - in, by log c_i it is λ_i c_i² Σ_o r_o² - out. What the second kernel needs, the
first leaves: sums over parts of the batch, and λ c² as it was before the step.
"""

# mypy: ignore-errors

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from torchnpn.kernels.triton.epilogues import row_sums
from torchnpn.kernels.triton.layer import batch_parts, by_library, stride, weight_products
from torchnpn.kernels.triton.products import weight_tile
from torchnpn.kernels.triton.signals import Gradient, Precision, Signal, Weights, pointer

_MOST_PARTS = 700  # of sums that each program adds up for itself
_BLOCK = 1024
_VECTOR = 64  # outputs, or inputs, of a program for vectors
_FEW_ROWS = 64  # of a batch
_ROWS = 128  # of the batch, in a part of a sum over it


class Adam(NamedTuple):
    """The averages of one layer, and the schedule that all layers share."""

    W: Tensor  # (4, R, out, in): first and second of the mean, first and second of the log standard deviation, if any
    b: Tensor  # (4, R, out)
    r: Tensor  # (2, R, out), of tied logarithms
    c: Tensor  # (2, R, in)
    schedule: Tensor  # (steps, R, 3): rate, correction, β/N
    cursor: Tensor  # int32 (R,), the number of the step
    b1: float
    b2: float
    epsilon: float


class Penalty(NamedTuple):
    """The prior of one layer: "none", "isotropic", or empirical Bayes over "inputs" or "all" weights."""

    kind: str
    precision: float  # of the biases; of all where isotropic
    sums: Tensor | None  # of m² + s, or of m² alone where s is tied: for "inputs" and "all", see `new_sums`
    squares: Tensor  # (2, R, parts): sums of r², then of c²; two halves, taken in turns
    scaled: Tensor  # (R, in): λ c²


def new_adam(w: Weights, schedule: Tensor, cursor: Tensor, b1: float, b2: float, epsilon: float) -> Adam:
    """Averages of nothing yet."""
    (R, N, K), tied = w.W_m.shape, w.tied is not None
    W, b, r, c = (w.W_m.new_zeros(*size) for size in ((2 if tied else 4, R, N, K), (4, R, N), (2, R, N), (2, R, K)))
    return Adam(W, b, r, c, schedule, cursor, b1, b2, epsilon)


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


def update_(g: Gradient, a: Signal, w: Weights, adam: Adam, penalty: Penalty, precision: Precision) -> None:
    """One step of Adam on loss + β KL for a layer of Gaussian weights, in place; its pair is new, too."""
    R, N, K = w.W_m.shape
    M, tied = g.m.shape[-2], w.tied is not None
    fused = is_fused(M, N, K, precision, a.m)
    by_m, by_pair = (a.m, None) if fused else weight_products(g, a, w, precision.variance, precision)
    parts = sums = penalty.sums
    if sums is not None and R * sums.shape[2] > _MOST_PARTS:
        sums = sums.sum(2, keepdim=True)
    BN, BK, tiles_n, tiles = _tiling(R, N, K)
    runs, blocks, features = triton.cdiv(M, _ROWS), triton.cdiv(N, _VECTOR), triton.cdiv(K, _VECTOR) if tied else 0
    (t, t_parts, t_padded), (u, u_parts, u_padded) = batch_parts(a.t, a.m), batch_parts(g.u, a.m)
    over_batch = a.m.new_empty(runs, R, 3 * N + K)
    squares = (w.W_m, w.W_m, w.W_m, w.W_m) if w.tied is None else w.tied
    common = {"TIED": tied, "PRIOR": penalty.kind, "B1": adam.b1, "B2": adam.b2, "EPSILON": adam.epsilon}
    counts = 1 if sums is None else sums.shape[2], 1 if fused else len(by_m), stride(a.m), t_parts, u_parts
    update_kernel[(tiles + runs * (blocks + features), R)](
        by_m, pointer(by_pair, by_m), w.W_m, pointer(w.W_v, w.W_m), pointer(w.pair, w.W_m), adam.W,
        pointer(sums, w.W_m), pointer(parts, w.W_m), penalty.squares, penalty.scaled, squares[3],
        g.m, g.s, a.m, pointer(a.pair, a.m), t, u, over_batch, adam.schedule, adam.cursor,
        M, N, K, tiles_n, tiles, *counts, penalty.precision, HALVES=w.halves, HAS_S=a.random, **common,
        PADDED=triton.next_power_of_2(counts[0]), T_PARTS=t_padded, U_PARTS=u_padded, FUSED=fused,
        PRECISION=precision.mean, BN=BN, BK=BK, VECTOR=_VECTOR, ROWS=_ROWS, BM=min(32, _ROWS),
    )  # fmt: skip
    if w.b_m is not None or tied:
        vectors_kernel[(blocks + features, R)](
            over_batch, pointer(w.b_m, w.W_m), pointer(w.b_v, w.W_m), adam.b, *squares, adam.r, adam.c,
            penalty.squares, penalty.scaled, adam.schedule, adam.cursor, runs, N, K, penalty.precision,
            HAS_B=w.b_m is not None, **common, VECTOR=_VECTOR, RUNS=min(16, triton.next_power_of_2(runs)),
        )  # fmt: skip


def is_fused(M: int, N: int, K: int, precision: Precision, a: Tensor) -> bool:
    """Whether the kernel that updates weights takes their products, too: of few rows, which cost less than memory."""
    return M <= _FEW_ROWS and not by_library(precision, a)


def _tiling(R: int, N: int, K: int) -> tuple[int, int, int, int]:
    """Outputs and inputs of a tile of weights in the update; how many tiles lie along the outputs, and in all."""
    BN, BK = (32, 32) if R < 8 else (16, 64)
    return BN, BK, triton.cdiv(N, BN), triton.cdiv(N, BN) * triton.cdiv(K, BK)


def adam_(x: Tensor, gradient: Tensor, averages: Tensor, now: Tensor, b1: float, b2: float, epsilon: float) -> None:
    """See `kernels.adam_`; `x` and `averages` are contiguous."""
    replicas = len(now)
    size = x.numel() // replicas
    adam_kernel[(triton.cdiv(size, _BLOCK), replicas)](
        x, gradient.contiguous(), averages, now, size, B1=b1, B2=b2, EPSILON=epsilon, BLOCK=_BLOCK
    )


# Kernels ------------------------------------------------------------------------------------------------------------


@triton.jit
def adam_at(x, g, averages, size, at, inside, rate, correction, B1: tl.constexpr, B2: tl.constexpr, E: tl.constexpr):
    """One step of Adam on the numbers x, with averages in memory, `size` numbers apart; the new x."""
    m = B1 * tl.load(averages + at, mask=inside, other=0.0) + (1 - B1) * g
    v = B2 * tl.load(averages + size + at, mask=inside, other=0.0) + (1 - B2) * g * g
    tl.store(averages + at, m, mask=inside)
    tl.store(averages + size + at, v, mask=inside)
    return x - rate * m / (tl.sqrt(v) * correction + E)


@triton.jit
def adam_kernel(
    x, g, averages, now, size, B1: tl.constexpr, B2: tl.constexpr, EPSILON: tl.constexpr, BLOCK: tl.constexpr
):
    """Adam on any tensor, in place; `now` has the rate and the correction of each replica."""
    replica, replicas = tl.program_id(1).to(tl.int64), tl.num_programs(1).to(tl.int64)
    here = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside, at = here < size, replica * size + here
    rate, correction = tl.load(now + 3 * replica), tl.load(now + 3 * replica + 1)
    value, slope = tl.load(x + at, mask=inside, other=0.0), tl.load(g + at, mask=inside, other=0.0)
    value = adam_at(value, slope, averages, replicas * size, at, inside, rate, correction, B1, B2, EPSILON)
    tl.store(x + at, value, mask=inside)


@triton.jit
def settings_now(schedule, cursor, replica, replicas):
    """The step under way; Adam's rate and correction, and β/N."""
    step = tl.load(cursor + replica)
    now = schedule + (step.to(tl.int64) * replicas + replica) * 3
    return step, tl.load(now), tl.load(now + 1), tl.load(now + 2)


@triton.jit
def sum_of(x, count, BLOCK: tl.constexpr):
    """The sum of `count` numbers from x on."""
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, count, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < count, other=0.0)
    return tl.sum(total)


@triton.jit
def update_kernel(
    by_m, by_pair, W_m, W_v, P, averages, sums, parts, squares, scaled, c2,
    g_m, g_s, a_m, A, t, u, over_batch, schedule, cursor,
    M, N, K, tiles_n, tiles, count, splits, stride_a, t_parts, u_parts, precision,
    HALVES: tl.constexpr, HAS_S: tl.constexpr, TIED: tl.constexpr, PRIOR: tl.constexpr, B1: tl.constexpr, B2: tl.constexpr,
    EPSILON: tl.constexpr, PADDED: tl.constexpr,
    T_PARTS: tl.constexpr, U_PARTS: tl.constexpr, FUSED: tl.constexpr, PRECISION: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, VECTOR: tl.constexpr, ROWS: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Gaussian weights after one step of Adam on `loss + β KL`, in place, and the new pair P; sums for `vectors_kernel`.

    `schedule` has for each step and replica: Adam's rate, its correction, and β/N; the step is in `cursor`. `PRIOR` is
    "none", "isotropic", or empirical Bayes with one variance for each input ("inputs") or for all weights ("all"). Its
    Σ (m² + s) are summed tile by tile as weights are written, for the next step, in the other half of `parts`; `sums`
    has `count` such numbers, the same memory or already added up.
    """
    replica, replicas = tl.program_id(1).to(tl.int64), tl.num_programs(1).to(tl.int64)
    program, tile = tl.program_id(0), tl.program_id(0) - (tl.num_programs(0) - tiles)
    if tile >= 0:
        _update_weights(
            by_m, by_pair, W_m, W_v, P, averages, sums, parts, squares, scaled, c2, g_m, g_s, a_m, A, schedule, cursor,
            tile, M, N, K, tiles_n, tiles, count, splits, stride_a, precision, replica, replicas,
            HALVES, HAS_S, TIED, PRIOR, B1, B2, EPSILON, PADDED, FUSED, PRECISION, BM, BN, BK, VECTOR,
        )  # fmt: skip
    else:  # the first programs, because these take longest
        blocks = tl.cdiv(N, VECTOR)
        columns = blocks + tl.cdiv(K, VECTOR) if TIED else blocks
        run, block = program // columns, program % columns
        out = over_batch + (run * replicas + replica) * (3 * N + K)
        if block < blocks:
            _sum_outputs(g_m, g_s, t, out, run, block, M, N, t_parts, replica, TIED, T_PARTS, VECTOR, ROWS, BM)
        else:
            _sum_inputs(
                a_m + replica * stride_a, A + replica * stride_a, u, out + 3 * N, run, block - blocks, M, K, u_parts,
                replica, U_PARTS, HAS_S, VECTOR, ROWS, BM,
            )  # fmt: skip


@triton.jit
def _sum_outputs(
    g_m, g_s, t, out, run, block, M, N, t_parts, replica, TIED: tl.constexpr, T_PARTS: tl.constexpr,
    VECTOR: tl.constexpr, ROWS: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Over some rows of the batch, Σ g_m, Σ g_s and Σ g_s t."""
    columns = block * VECTOR + tl.arange(0, VECTOR)
    by_m, by_s = tl.zeros((VECTOR,), tl.float32), tl.zeros((VECTOR,), tl.float32)
    by_r2 = tl.zeros((VECTOR,), tl.float32)
    for start in range(0, ROWS, BM):
        rows = run * ROWS + start + tl.arange(0, BM)
        inside = (rows[:, None] < M) & (columns[None, :] < N)
        at = (replica * M + rows[:, None]) * N + columns[None, :]
        up_s = tl.load(g_s + at, mask=inside, other=0.0).to(tl.float32)
        by_m += tl.sum(tl.load(g_m + at, mask=inside, other=0.0), 0)
        by_s += tl.sum(up_s, 0)
        if TIED:
            by_r2 += tl.sum(up_s * row_sums(t, t_parts, replica, rows, M, T_PARTS)[:, None], 0)
    tl.store(out + columns, by_m, mask=columns < N)
    tl.store(out + N + columns, by_s, mask=columns < N)
    if TIED:
        tl.store(out + 2 * N + columns, by_r2, mask=columns < N)


@triton.jit
def _sum_inputs(
    a_m, A, u, out, run, block, M, K, u_parts, replica, U_PARTS: tl.constexpr, HAS_S: tl.constexpr,
    VECTOR: tl.constexpr, ROWS: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Over some rows of the batch, Σ u (s + m²)."""
    columns = block * VECTOR + tl.arange(0, VECTOR)
    by_c2 = tl.zeros((VECTOR,), tl.float32)
    for start in range(0, ROWS, BM):
        rows = run * ROWS + start + tl.arange(0, BM)
        inside = (rows[:, None] < M) & (columns[None, :] < K)
        at = rows[:, None].to(tl.int64) * K + columns[None, :]
        m = tl.load(a_m + at, mask=inside, other=0.0)
        second = m * m
        if HAS_S:
            second += tl.load(A + at, mask=inside, other=0.0).to(tl.float32)
        by_c2 += tl.sum(second * row_sums(u, u_parts, replica, rows, M, U_PARTS)[:, None], 0)
    tl.store(out + columns, by_c2, mask=columns < K)


@triton.jit
def _update_weights(
    by_m, by_pair, W_m, W_v, P, averages, sums, parts, squares, scaled, c2, g_m, g_s, a_m, A, schedule, cursor,
    tile, M, N, K, tiles_n, tiles, count, splits, stride_a, precision, replica, replicas,
    HALVES: tl.constexpr, HAS_S: tl.constexpr, TIED: tl.constexpr, PRIOR: tl.constexpr, B1: tl.constexpr,
    B2: tl.constexpr, EPSILON: tl.constexpr, PADDED: tl.constexpr, FUSED: tl.constexpr, PRECISION: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    step, rate, correction, beta = settings_now(schedule, cursor, replica, replicas)
    tiles_k = tl.cdiv(K, BK)
    tile_n = tile // tiles_k
    rows = tile_n * BN + tl.arange(0, BN)
    columns = (tile % tiles_k) * BK + tl.arange(0, BK)
    inside = (rows[:, None] < N) & (columns[None, :] < K)
    at = (replica * N + rows[:, None]) * K + columns[None, :]
    pair = (replica * N + rows[:, None]) * (K * HALVES) + columns[None, :]
    if FUSED:
        by_mean, one, other = weight_tile(
            g_m, g_s, a_m, A, replica, rows, columns, 0, M, M, N, K, stride_a, HALVES, PRECISION, BM, BN, BK
        )
    else:
        by_mean, one = tl.zeros((BN, BK), tl.float32), tl.zeros((BN, BK), tl.float32)
        other = tl.zeros((BN, BK), tl.float32)
        for part in range(0, splits):
            skipped = part * replicas * N * K
            by_mean += tl.load(by_m + skipped + at, mask=inside, other=0.0)
            if HALVES > 0:
                one += tl.load(by_pair + skipped * HALVES + pair, mask=inside, other=0.0).to(tl.float32)
            if HALVES > 1:
                other += tl.load(by_pair + skipped * HALVES + pair + K, mask=inside, other=0.0).to(tl.float32)
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
            part = tl.arange(0, PADDED)[:, None]
            here = (part < count) & (columns[None, :] < K)
            total = tl.sum(tl.load(sums + (old * count + part) * K + columns[None, :], mask=here, other=0.0), 0)
            if TIED:
                own = tl.load(c2 + replica * K + columns, mask=columns < K, other=0.0)
                total += own * sum_of(squares, blocks, VECTOR)
            weight_precision = N / tl.where(columns < K, total, 1.0)
        else:
            part = tl.arange(0, PADDED)
            total = tl.sum(tl.load(sums + old * count + part, mask=part < count, other=0.0))
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
        log_std = adam_at(log_std, g_l, averages + 2 * size, size, at, inside, rate, correction, B1, B2, EPSILON)
        second = tl.exp(2 * log_std)
        tl.store(W_v + at, log_std, mask=inside)
        tl.store(P + pair, second, mask=inside)
    m = adam_at(m, by_mean, averages, size, at, inside, rate, correction, B1, B2, EPSILON)
    second += m * m
    tl.store(W_m + at, m, mask=inside)
    if HAS_S:
        tl.store(P + pair + (HALVES - 1) * K, m * m, mask=inside)
    if PRIOR == "inputs":
        seconds = tl.sum(tl.where(inside, second, 0.0), 0)
        tl.store(parts + (new * tiles_n + tile_n) * K + columns, seconds, mask=columns < K)
    elif PRIOR == "all":
        tl.store(parts + new * tiles + tile, tl.sum(tl.where(inside, second, 0.0)))


@triton.jit
def vectors_kernel(
    over_batch, b_m, b_v, b_averages, log_r, log_c, r2, c2, r_averages, c_averages, squares, scaled, schedule, cursor,
    runs, N, K, precision,
    HAS_B: tl.constexpr, TIED: tl.constexpr, PRIOR: tl.constexpr, B1: tl.constexpr, B2: tl.constexpr,
    EPSILON: tl.constexpr, VECTOR: tl.constexpr, RUNS: tl.constexpr,
):  # fmt: skip
    """Biases, and tied standard deviations, after the same step: r² and c², and their sums for the next step."""
    replica, replicas = tl.program_id(1).to(tl.int64), tl.num_programs(1).to(tl.int64)
    block, blocks, features = tl.program_id(0), tl.cdiv(N, VECTOR), tl.cdiv(K, VECTOR)
    step, rate, correction, beta = settings_now(schedule, cursor, replica, replicas)
    old = squares + ((step % 2) * replicas + replica) * (blocks + features)
    new = squares + (((step + 1) % 2) * replicas + replica) * (blocks + features) + block
    if block < blocks:
        columns = block * VECTOR + tl.arange(0, VECTOR)
        inside, at, size = columns < N, replica * N + columns, replicas * N
        if HAS_B:
            m, log_std = tl.load(b_m + at, mask=inside, other=0.0), tl.load(b_v + at, mask=inside, other=0.0)
            s = tl.exp(2 * log_std)
            g_m = _over_runs(over_batch, columns, N, 3 * N + K, runs, replica, replicas, RUNS, VECTOR)
            g_l = 2 * s * _over_runs(over_batch + N, columns, N, 3 * N + K, runs, replica, replicas, RUNS, VECTOR)
            if PRIOR != "none":
                g_m += beta * precision * m
                g_l += beta * (precision * s - 1)
            m = adam_at(m, g_m, b_averages, size, at, inside, rate, correction, B1, B2, EPSILON)
            log_std = adam_at(log_std, g_l, b_averages + 2 * size, size, at, inside, rate, correction, B1, B2, EPSILON)
            tl.store(b_m + at, m, mask=inside)
            tl.store(b_v + at, log_std, mask=inside)
        if TIED:
            square = tl.load(r2 + at, mask=inside, other=0.0)
            by_r2 = _over_runs(over_batch + 2 * N, columns, N, 3 * N + K, runs, replica, replicas, RUNS, VECTOR)
            g = 2 * square * by_r2
            if PRIOR != "none":
                g += beta * (square * sum_of(scaled + replica * K, K, 1024) - K)
            _update_logarithm(
                log_r, g, r_averages, r2, new, at, inside, size, rate, correction, B1, B2, EPSILON,
            )  # fmt: skip
    else:
        columns = (block - blocks) * VECTOR + tl.arange(0, VECTOR)
        inside, at, size = columns < K, replica * K + columns, replicas * K
        square = tl.load(c2 + at, mask=inside, other=0.0)
        g = 2 * square * _over_runs(over_batch + 3 * N, columns, K, 3 * N + K, runs, replica, replicas, RUNS, VECTOR)
        if PRIOR != "none":
            total = sum_of(old, blocks, VECTOR)
            g += beta * (tl.load(scaled + at, mask=inside, other=0.0) * total - N)
        _update_logarithm(log_c, g, c_averages, c2, new, at, inside, size, rate, correction, B1, B2, EPSILON)


@triton.jit
def _over_runs(sums, columns, width, stride, runs, replica, replicas, RUNS: tl.constexpr, VECTOR: tl.constexpr):
    """Sums over the batch, from their parts."""
    total = tl.zeros((RUNS, VECTOR), tl.float32)
    for start in range(0, runs, RUNS):
        run = start + tl.arange(0, RUNS)[:, None]
        here = (run < runs) & (columns[None, :] < width)
        total += tl.load(sums + (run * replicas + replica) * stride + columns[None, :], mask=here, other=0.0)
    return tl.sum(total, 0)


@triton.jit
def _update_logarithm(
    log, g, averages, squares, total, at, inside, size, rate, correction, B1: tl.constexpr, B2: tl.constexpr,
    EPSILON: tl.constexpr,
):  # fmt: skip
    """New logarithms of tied standard deviations, their squares, and the sum of these."""
    x = tl.load(log + at, mask=inside, other=0.0)
    x = adam_at(x, g, averages, size, at, inside, rate, correction, B1, B2, EPSILON)
    square = tl.exp(2 * x)
    tl.store(log + at, x, mask=inside)
    tl.store(squares + at, square, mask=inside)
    tl.store(total, tl.sum(tl.where(inside, square, 0.0)))
