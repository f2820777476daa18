"""From products to new weights: the KL and Adam in one pass over memory, and what autograd wants instead."""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from torchnpn.kernels.triton.epilogues import variance_of


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


@triton.jit
def gradient_kernel(
    by_m, by_pair, W_m, W_v, d_W_m, d_W_v, size, K, HAS_S: tl.constexpr, LOG_STD: tl.constexpr, BLOCK: tl.constexpr
):
    """Gradients by W_m and W_s, or its log standard deviation: g_mᵀ a_m + 2 W_m ∘ (g_sᵀ a_s) and g_sᵀ q."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    pair = (at // K) * 2 * K + at % K if HAS_S else at
    g_m, g_v = tl.load(by_m + at, mask=inside, other=0.0), tl.load(by_pair + pair, mask=inside, other=0.0)
    if HAS_S:
        by_s = tl.load(by_pair + pair + K, mask=inside, other=0.0)
        g_m += 2 * tl.load(W_m + at, mask=inside, other=0.0) * by_s
    if LOG_STD:
        g_v *= 2 * variance_of(tl.load(W_v + at, mask=inside, other=0.0), True)
    tl.store(d_W_m + at, g_m, mask=inside)
    tl.store(d_W_v + at, g_v, mask=inside)
