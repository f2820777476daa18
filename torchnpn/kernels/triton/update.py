"""From products to new weights: the KL and Adam in one pass over memory."""

# mypy: ignore-errors

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from torchnpn.kernels.triton.layer import LONG, weight_products
from torchnpn.kernels.triton.signals import Gradient, Precision, Signal, Weights, pointer

_MOST_PARTS = 700  # of sums that each program adds up for itself
_BLOCK = 1024


class Adam(NamedTuple):
    """The averages of one layer, and the schedule that all layers share."""

    W: Tensor  # (4, R, out, in): first and second of the mean, first and second of the log standard deviation
    b: Tensor  # (4, R, out)
    schedule: Tensor  # (steps, R, 3): rate, correction, β/N
    cursor: Tensor  # int32 (R,), the number of the step
    b1: float
    b2: float
    epsilon: float


class Penalty(NamedTuple):
    """The prior of one layer: "none", "isotropic", or empirical Bayes over "inputs" or "all" weights."""

    kind: str
    precision: float  # of the biases; of all where isotropic
    sums: Tensor | None = None  # see `new_sums`


def update_(g: Gradient, a: Signal, w: Weights, adam: Adam, penalty: Penalty, precision: Precision) -> None:
    """One step of Adam on loss + β KL for a layer of Gaussian weights, in place; its pair is new, too."""
    R, N, K = w.W_m.shape
    by_m, by_pair = weight_products(g, a, w, precision.variance, precision)
    if g.m.shape[-2] > LONG:
        g = Gradient(g.m.sum(-2, keepdim=True), g.s.sum(-2, keepdim=True, dtype=torch.float32))
    parts = sums = penalty.sums
    if sums is not None and R * sums.shape[2] > _MOST_PARTS:
        sums = sums.sum(2, keepdim=True)
    BN, BK, tiles_n, tiles = _tiling(R, N, K)
    biases = 0 if w.b_m is None else triton.cdiv(N, BK)
    update_kernel[(tiles + biases, R)](
        by_m, by_pair, g.m, g.s, w.W_m, w.W_v, w.pair, pointer(w.b_m, w.W_m), pointer(w.b_v, w.W_m), adam.W, adam.b,
        pointer(sums, w.W_m), pointer(parts, w.W_m), adam.schedule, adam.cursor, g.m.shape[-2], N, K, penalty.precision,
        HAS_S=a.random, PRIOR=penalty.kind, B1=adam.b1, B2=adam.b2, EPSILON=adam.epsilon,
        TILES_N=tiles_n, TILES=tiles, SUMS=1 if sums is None else sums.shape[2],
        PADDED=1 if sums is None else triton.next_power_of_2(sums.shape[2]), BIASES=biases, BN=BN, BK=BK,
    )  # fmt: skip


def _tiling(R: int, N: int, K: int) -> tuple[int, int, int, int]:
    """Outputs and inputs of a tile of weights in the update; how many tiles lie along the outputs, and in all."""
    BN, BK = (32, 32) if R < 8 else (16, 64)
    return BN, BK, triton.cdiv(N, BN), triton.cdiv(N, BN) * triton.cdiv(K, BK)


def new_sums(w: Weights, kind: str) -> Tensor | None:
    """Memory for the Σ (m² + s) of empirical Bayes: two halves, taken in turns, with a part for each tile."""
    R, N, K = w.W_m.shape
    _, _, tiles_n, tiles = _tiling(R, N, K)
    if kind == "inputs":
        return w.W_m.new_zeros(2, R, tiles_n, K)
    return w.W_m.new_zeros(2, R, tiles) if kind == "all" else None


def fill_sums_(penalty: Penalty, w: Weights) -> None:
    """What the sums are for the weights as they are now."""
    if penalty.sums is None:
        return
    penalty.sums.zero_()
    second = w.W_m.square() + torch.exp(2 * w.W_v)
    penalty.sums[0, :, 0] = second.sum(-2) if penalty.kind == "inputs" else second.sum((-2, -1))


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
def update_kernel(
    by_m, by_pair, g_m, g_s, W_m, W_v, P, b_m, b_v, W_averages, b_averages, sums, parts, schedule, cursor,
    M, N, K, precision,
    HAS_S: tl.constexpr, PRIOR: tl.constexpr, B1: tl.constexpr, B2: tl.constexpr,
    EPSILON: tl.constexpr, TILES_N: tl.constexpr, TILES: tl.constexpr, SUMS: tl.constexpr, PADDED: tl.constexpr,
    BIASES: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Gaussian weights and biases after one step of Adam on `loss + β KL`, in place, and the new pair P.

    `schedule` has for each step and replica: Adam's rate, its correction, and β/N; the step is in `cursor`. `PRIOR` is
    "none", "isotropic", or empirical Bayes with one variance for each input ("inputs") or for all weights ("all"). Its
    Σ (m² + s) are summed tile by tile as weights are written, for the next step, in the other half of `parts`; `sums`
    has `SUMS` such numbers, the same memory or already added up. The first `BIASES` programs are for the biases: they
    take longest.
    """
    replica, replicas = tl.program_id(1).to(tl.int64), tl.num_programs(1).to(tl.int64)
    step = tl.load(cursor + replica)
    now = schedule + (step.to(tl.int64) * replicas + replica) * 3
    rate, correction, beta = tl.load(now), tl.load(now + 1), tl.load(now + 2)
    program = tl.program_id(0)
    if program < BIASES:
        _update_biases(
            g_m, g_s, b_m, b_v, b_averages, program, M, N, precision, replica, replicas, rate, correction, beta,
            PRIOR, B1, B2, EPSILON, BN, BK,
        )  # fmt: skip
    else:
        _update_weights(
            by_m, by_pair, W_m, W_v, P, W_averages, sums, parts, program - BIASES, N, K, precision, replica, replicas,
            step, rate, correction, beta, HAS_S, PRIOR, B1, B2, EPSILON, TILES_N, TILES, SUMS, PADDED, BN, BK,
        )  # fmt: skip


@triton.jit
def _update_weights(
    by_m, by_pair, W_m, W_v, P, averages, sums, parts, tile, N, K, precision, replica, replicas,
    step, rate, correction, beta,
    HAS_S: tl.constexpr, PRIOR: tl.constexpr, B1: tl.constexpr, B2: tl.constexpr, EPSILON: tl.constexpr,
    TILES_N: tl.constexpr, TILES: tl.constexpr, SUMS: tl.constexpr, PADDED: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(K, BK)
    tile_n = tile // tiles
    rows = tile_n * BN + tl.arange(0, BN)
    columns = (tile % tiles) * BK + tl.arange(0, BK)
    inside = (rows[:, None] < N) & (columns[None, :] < K)
    halves = 2 if HAS_S else 1
    at = (replica * N + rows[:, None]) * K + columns[None, :]
    pair = (replica * N + rows[:, None]) * (K * halves) + columns[None, :]
    m = tl.load(W_m + at, mask=inside, other=0.0)
    log_std = tl.load(W_v + at, mask=inside, other=0.0)
    s = tl.exp(2 * log_std)
    g_m = tl.load(by_m + at, mask=inside, other=0.0)
    g_l = 2 * s * tl.load(by_pair + pair, mask=inside, other=0.0).to(tl.float32)
    if HAS_S:
        g_m += 2 * m * tl.load(by_pair + pair + K, mask=inside, other=0.0).to(tl.float32)
    old, new = (step % 2) * replicas + replica, ((step + 1) % 2) * replicas + replica
    if PRIOR != "none":
        if PRIOR == "isotropic":
            weight_precision = precision + tl.zeros((1, BK), tl.float32)
        elif PRIOR == "inputs":
            part = tl.arange(0, PADDED)[:, None]
            here = (part < SUMS) & (columns[None, :] < K)
            total = tl.sum(tl.load(sums + (old * SUMS + part) * K + columns[None, :], mask=here, other=0.0), 0)
            weight_precision = N / tl.where(columns < K, total, 1.0)[None, :]
        else:
            part = tl.arange(0, PADDED)
            total = tl.sum(tl.load(sums + old * SUMS + part, mask=part < SUMS, other=0.0))
            weight_precision = N * K / total + tl.zeros((1, BK), tl.float32)
        g_m += beta * weight_precision * m
        g_l += beta * (weight_precision * s - 1)
    size = replicas * N * K
    m = adam_at(m, g_m, averages, size, at, inside, rate, correction, B1, B2, EPSILON)
    log_std = adam_at(log_std, g_l, averages + 2 * size, size, at, inside, rate, correction, B1, B2, EPSILON)
    s = tl.exp(2 * log_std)
    tl.store(W_m + at, m, mask=inside)
    tl.store(W_v + at, log_std, mask=inside)
    tl.store(P + pair, s, mask=inside)
    if HAS_S:
        tl.store(P + pair + K, m * m, mask=inside)
    if PRIOR == "inputs":
        seconds = tl.sum(tl.where(inside, m * m + s, 0.0), 0)
        tl.store(parts + (new * TILES_N + tile_n) * K + columns, seconds, mask=columns < K)
    elif PRIOR == "all":
        tl.store(parts + new * TILES + tile, tl.sum(tl.where(inside, m * m + s, 0.0)))


@triton.jit
def _update_biases(
    up_m, up_s, b_m, b_v, averages, run, M, N, precision, replica, replicas, rate, correction, beta,
    PRIOR: tl.constexpr, B1: tl.constexpr, B2: tl.constexpr, EPSILON: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr,
):  # fmt: skip
    columns = run * BN + tl.arange(0, BN)
    inside, at, size = columns < N, replica * N + columns, replicas * N
    m, log_std = tl.load(b_m + at, mask=inside, other=0.0), tl.load(b_v + at, mask=inside, other=0.0)
    s = tl.exp(2 * log_std)
    g_m, g_l = tl.zeros((BN,), tl.float32), tl.zeros((BN,), tl.float32)
    for start in range(0, M, BM):
        rows = start + tl.arange(0, BM)
        here = (rows[:, None] < M) & (columns[None, :] < N)
        g = (replica * M + rows[:, None]) * N + columns[None, :]
        g_m += tl.sum(tl.load(up_m + g, mask=here, other=0.0), 0)
        g_l += tl.sum(tl.load(up_s + g, mask=here, other=0.0).to(tl.float32), 0)
    g_l *= 2 * s
    if PRIOR != "none":
        g_m += beta * precision * m
        g_l += beta * (precision * s - 1)
    m = adam_at(m, g_m, averages, size, at, inside, rate, correction, B1, B2, EPSILON)
    log_std = adam_at(log_std, g_l, averages + 2 * size, size, at, inside, rate, correction, B1, B2, EPSILON)
    tl.store(b_m + at, m, mask=inside)
    tl.store(b_v + at, log_std, mask=inside)
