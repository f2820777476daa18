"""Kernels that go over a tensor once: activations on their own, pairs, and what ends the library's products."""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from torchnpn.kernels.triton import activations
from torchnpn.kernels.triton.epilogues import end_forward, end_input_gradient, variance_of, with_bias


@triton.jit
def activation_kernel(m, s, a_m, a_s, size, tau, r, q, ACT: tl.constexpr, BLOCK: tl.constexpr):
    """The activation of each element."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    mean = tl.load(m + at, mask=inside, other=0.0).to(tl.float32)
    variance = tl.load(s + at, mask=inside, other=1.0).to(tl.float32)
    mean, variance = activations.values(mean, variance, tau, r, q, ACT)
    tl.store(a_m + at, mean, mask=inside)
    tl.store(a_s + at, variance, mask=inside)


@triton.jit
def activation_gradient_kernel(m, s, g_m, g_s, d_m, d_s, size, tau, r, q, ACT: tl.constexpr, BLOCK: tl.constexpr):
    """The gradient through the activation of each element."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    mean = tl.load(m + at, mask=inside, other=0.0).to(tl.float32)
    variance = tl.load(s + at, mask=inside, other=1.0).to(tl.float32)
    up_m = tl.load(g_m + at, mask=inside, other=0.0).to(tl.float32)
    up_s = tl.load(g_s + at, mask=inside, other=0.0).to(tl.float32)
    by_m, by_s = activations.gradients(mean, variance, up_m, up_s, tau, r, q, ACT)
    tl.store(d_m + at, by_m, mask=inside)
    tl.store(d_s + at, by_s, mask=inside)


@triton.jit
def pair_of_weights_kernel(W_m, W_v, P, size, K, LOG_STD: tl.constexpr, SQUARE: tl.constexpr, BLOCK: tl.constexpr):
    """P = [W_s | W_m²], or W_s alone."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    row, column = at // K, at % K
    v = activations.finite(variance_of(tl.load(W_v + at, mask=inside, other=0.0), LOG_STD))
    if SQUARE:
        w = tl.load(W_m + at, mask=inside, other=0.0)
        tl.store(P + row * 2 * K + column, v, mask=inside)
        tl.store(P + row * 2 * K + K + column, activations.finite(w * w), mask=inside)
    else:
        tl.store(P + at, v, mask=inside)


@triton.jit
def pair_of_inputs_kernel(a_m, a_s, A, size, K, HAS_S: tl.constexpr, BLOCK: tl.constexpr):
    """A = [a_s + a_m² | a_s], or a_m² alone."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    row, column = at // K, at % K
    x = tl.load(a_m + at, mask=inside, other=0.0)
    if HAS_S:
        s = tl.load(a_s + at, mask=inside, other=0.0)
        tl.store(A + row * 2 * K + column, activations.finite(x * x + s), mask=inside)
        tl.store(A + row * 2 * K + K + column, s, mask=inside)
    else:
        tl.store(A + at, activations.finite(x * x), mask=inside)


@triton.jit
def finish_forward_kernel(
    o_m, o_s, b_m, b_v, out_m, out_s, A, seed, cursor, M, N, tau, r, q, p, salt,
    HAS_B: tl.constexpr, LOG_STD: tl.constexpr, ACT: tl.constexpr, DROP: tl.constexpr, STORE_S: tl.constexpr,
    PAIR: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Bias (added to o in place), activation, dropout; the output, and its pair for the layer above."""
    replica = tl.program_id(1).to(tl.int64)
    tiles = tl.cdiv(N, BN)
    rows = (tl.program_id(0) // tiles) * BM + tl.arange(0, BM)
    columns = (tl.program_id(0) % tiles) * BN + tl.arange(0, BN)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    at = (replica * M + rows[:, None]) * N + columns[None, :]
    mean, variance = tl.load(o_m + at, mask=inside, other=0.0), tl.load(o_s + at, mask=inside, other=1.0)
    if HAS_B:
        mean, variance = with_bias(mean, variance, b_m, b_v, replica, columns, N, LOG_STD)
        tl.store(o_m + at, mean, mask=inside)
        tl.store(o_s + at, variance, mask=inside)
    changes: tl.constexpr = ACT != "none" or DROP
    end_forward(
        mean, variance, out_m, out_s, A, seed, cursor, replica, rows, columns, M, N, tau, r, q, p, salt,
        ACT, DROP, changes, STORE_S and changes, PAIR,
    )  # fmt: skip


@triton.jit
def finish_input_gradient_kernel(
    by_m, pair, a_m, o_m, o_s, d_m, d_s, seed, cursor, M, K, stride_a, tau, r, q, p, salt,
    ACT: tl.constexpr, DROP: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """From g_m W_m and [g_s W_s | g_s W_m²] to the gradients by a, and through what made it down to its own o."""
    replica = tl.program_id(1).to(tl.int64)
    tiles = tl.cdiv(K, BK)
    rows = (tl.program_id(0) // tiles) * BM + tl.arange(0, BM)
    columns = (tl.program_id(0) % tiles) * BK + tl.arange(0, BK)
    inside = (rows[:, None] < M) & (columns[None, :] < K)
    at = (replica * M + rows[:, None]) * K + columns[None, :]
    both = (replica * M + rows[:, None]) * 2 * K + columns[None, :]
    by_v = tl.load(pair + both, mask=inside, other=0.0).to(tl.float32)
    by_w2 = tl.load(pair + both + K, mask=inside, other=0.0).to(tl.float32)
    end_input_gradient(
        tl.load(by_m + at, mask=inside, other=0.0), by_v, by_w2, a_m, o_m, o_s, d_m, d_s, seed, cursor, replica,
        rows, columns, M, K, stride_a, tau, r, q, p, salt, ACT, DROP,
    )  # fmt: skip
