"""How a pass of a layer ends, whoever took its products: bias, activation and dropout, or their derivatives."""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from torchnpn.kernels.triton import activations


@triton.jit
def variance_of(v, LOG_STD: tl.constexpr):
    """A variance, from itself or from a log standard deviation."""
    if LOG_STD:
        return tl.exp(2 * v)
    else:
        return v


@triton.jit
def dropout_scale(seed, cursor, replica, salt, rows, columns, width, height, p):
    """0 with probability p, else 1/(1 - p); for each element of a tile, the same in every pass of one step."""
    offset = (replica * height + rows[:, None]) * width + columns[None, :]
    draw = tl.rand((tl.load(seed) + tl.load(cursor + replica)) * 64 + salt, offset.to(tl.int32))
    return tl.where(draw >= p, 1 / (1 - p), 0.0)


@triton.jit
def with_bias(mean, variance, b_m, b_v, replica, columns, N, LOG_STD: tl.constexpr):
    """A tile of a Wᵀ, and b."""
    bias = replica * N + columns
    mean += tl.load(b_m + bias, mask=columns < N, other=0.0)[None, :]
    variance += variance_of(tl.load(b_v + bias, mask=columns < N, other=0.0), LOG_STD)[None, :]
    return mean, variance


@triton.jit
def end_forward(
    mean, variance, out_m, out_s, out_A, seed, cursor, replica, rows, columns, M, N, tau, r, q, p, salt,
    ACT: tl.constexpr, DROP: tl.constexpr, STORE_M: tl.constexpr, STORE_S: tl.constexpr, PAIR: tl.constexpr,
):  # fmt: skip
    """Activation and dropout of a tile of o; its mean, its variance and its pair for the layer above, as asked for."""
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    at = (replica * M + rows[:, None]) * N + columns[None, :]
    mean, variance = activations.values(mean, variance, tau, r, q, ACT)
    if DROP:
        scale = dropout_scale(seed, cursor, replica, salt, rows, columns, N, M, p)
        mean, variance = mean * scale, variance * scale * scale
    if STORE_M:
        tl.store(out_m + at, mean, mask=inside)
    if STORE_S:
        tl.store(out_s + at, variance, mask=inside)
    if PAIR:
        pair = (replica * M + rows[:, None]) * (2 * N) + columns[None, :]
        tl.store(out_A + pair, activations.finite(mean * mean + variance), mask=inside)
        tl.store(out_A + pair + N, variance, mask=inside)


@triton.jit
def end_input_gradient(
    by_m, by_v, by_w2, a_m, o_m, o_s, d_m, d_s, seed, cursor, replica, rows, columns, M, K, stride_a,
    tau, r, q, p, salt, ACT: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """From tiles of g_m W_m, g_s W_s, g_s W_m² to the gradients by a, and through what made it down to its own o."""
    inside = (rows[:, None] < M) & (columns[None, :] < K)
    at = (replica * M + rows[:, None]) * K + columns[None, :]
    x = tl.load(a_m + replica * stride_a + rows[:, None] * K + columns[None, :], mask=inside, other=0.0)
    by_m += x * (2 * by_v)
    by_s = by_v + by_w2
    if DROP:
        scale = dropout_scale(seed, cursor, replica, salt, rows, columns, K, M, p)
        by_m, by_s = by_m * scale, by_s * scale * scale
    if ACT != "none":
        m, s = tl.load(o_m + at, mask=inside, other=0.0), tl.load(o_s + at, mask=inside, other=1.0)
        by_m, by_s = activations.gradients(m, s, by_m, by_s, tau, r, q, ACT)
    tl.store(d_m + at, by_m, mask=inside)
    tl.store(d_s + at, by_s, mask=inside)
