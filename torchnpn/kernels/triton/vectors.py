"""The vectors of a layer in a training step: biases, and tied standard deviations r_o c_i; and sums over the batch.

With λ of the prior, the KL's gradient by log r_o is r_o² Σ_i λ_i c_i² - in, by log c_i it is λ_i c_i² Σ_o r_o² - out.
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from torchnpn.kernels.triton.epilogues import padded, row_sums
from torchnpn.kernels.triton.optimizer import settings_now, step_at


@triton.jit
def sum_of(x, count, BLOCK: tl.constexpr):
    """The sum of `count` numbers from x on."""
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, count, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < count, other=0.0)
    return tl.sum(total)


@triton.jit
def sum_outputs(
    g_m, g_s, t, out, run, block, M, N, t_parts, replica, TIED: tl.constexpr, T_PARTS: tl.constexpr,
    VECTOR: tl.constexpr, ROWS: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Over some rows of the batch, Σ g_m, Σ g_s and Σ g_s t."""
    columns = block * VECTOR + tl.arange(0, VECTOR)
    by_m, by_s = tl.zeros((VECTOR,), tl.float32), tl.zeros((VECTOR,), tl.float32)
    by_r2 = tl.zeros((VECTOR,), tl.float32)
    for start in range(0, ROWS, BM):
        rows = run * ROWS + start + tl.arange(0, BM)
        inside = (rows[:, None] < M) & (columns[None, :] < padded(N))
        at = (replica * M + rows[:, None]) * padded(N) + columns[None, :]
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
def sum_inputs(
    a_m, A, u, out, run, block, M, K, u_parts, replica, U_PARTS: tl.constexpr, HAS_S: tl.constexpr,
    VECTOR: tl.constexpr, ROWS: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Over some rows of the batch, Σ u (s + m²)."""
    columns = block * VECTOR + tl.arange(0, VECTOR)
    by_c2 = tl.zeros((VECTOR,), tl.float32)
    for start in range(0, ROWS, BM):
        rows = run * ROWS + start + tl.arange(0, BM)
        inside = (rows[:, None] < M) & (columns[None, :] < padded(K))
        at = rows[:, None].to(tl.int64) * padded(K) + columns[None, :]
        m = tl.load(a_m + at, mask=inside, other=0.0)
        second = m * m
        if HAS_S:
            second += tl.load(A + at, mask=inside, other=0.0).to(tl.float32)
        by_c2 += tl.sum(second * row_sums(u, u_parts, replica, rows, M, U_PARTS)[:, None], 0)
    tl.store(out + columns, by_c2, mask=columns < K)


@triton.jit(do_not_specialize=("runs",))
def vectors_kernel(
    over_batch, b_m, b_v, b_averages, log_r, log_c, r2, c2, r_averages, c_averages, squares, scaled, schedule, cursor,
    runs, N, K, precision,
    HAS_B: tl.constexpr, TIED: tl.constexpr, PRIOR: tl.constexpr, KIND: tl.constexpr, B1: tl.constexpr,
    B2: tl.constexpr, EPSILON: tl.constexpr, VECTOR: tl.constexpr, RUNS: tl.constexpr,
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
            m = step_at(m, g_m, b_averages, size, at, inside, rate, correction, KIND, B1, B2, EPSILON)
            log_std = step_at(
                log_std, g_l, b_averages + 2 * size, size, at, inside, rate, correction, KIND, B1, B2, EPSILON
            )
            tl.store(b_m + at, m, mask=inside)
            tl.store(b_v + at, log_std, mask=inside)
        if TIED:
            square = tl.load(r2 + at, mask=inside, other=0.0)
            by_r2 = _over_runs(over_batch + 2 * N, columns, N, 3 * N + K, runs, replica, replicas, RUNS, VECTOR)
            g = 2 * square * by_r2
            if PRIOR != "none":
                g += beta * (square * sum_of(scaled + replica * K, K, 1024) - K)
            _update_logarithm(
                log_r, g, r_averages, r2, new, at, inside, size, rate, correction, KIND, B1, B2, EPSILON,
            )  # fmt: skip
    else:
        columns = (block - blocks) * VECTOR + tl.arange(0, VECTOR)
        inside, at, size = columns < K, replica * K + columns, replicas * K
        square = tl.load(c2 + at, mask=inside, other=0.0)
        g = 2 * square * _over_runs(over_batch + 3 * N, columns, K, 3 * N + K, runs, replica, replicas, RUNS, VECTOR)
        if PRIOR != "none":
            total = sum_of(old, blocks, VECTOR)
            g += beta * (tl.load(scaled + at, mask=inside, other=0.0) * total - N)
        _update_logarithm(log_c, g, c_averages, c2, new, at, inside, size, rate, correction, KIND, B1, B2, EPSILON)


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
    log, g, averages, squares, total, at, inside, size, rate, correction, KIND: tl.constexpr, B1: tl.constexpr,
    B2: tl.constexpr, EPSILON: tl.constexpr,
):  # fmt: skip
    """New logarithms of tied standard deviations, their squares, and the sum of these."""
    x = tl.load(log + at, mask=inside, other=0.0)
    x = step_at(x, g, averages, size, at, inside, rate, correction, KIND, B1, B2, EPSILON)
    square = tl.exp(2 * x)
    tl.store(log + at, x, mask=inside)
    tl.store(squares + at, square, mask=inside)
    tl.store(total, tl.sum(tl.where(inside, square, 0.0)))
