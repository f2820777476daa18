"""The probabilistic linear transformation in three kernels, each one launch: forward, input gradient, weight gradient.

Letters and formulas are those of `kernels.cpu.linear`. The products of variances are one: with the pairs
A = [a_s + a_m² | a_s] and P = [W_s | W_m²], each side by side in a matrix of low precision, o_s = A Pᵀ; for a point
A = a_m², P = W_s. So nothing stands between loading a tile and multiplying it. With tied standard deviations the
product by W_s is an outer one (`epilogues`), and A = a_s, P = W_m²: half of a pair, and none for a point. Bias,
activation and dropout end the forward kernel, which leaves the pair for the layer above; their derivatives end the
input gradient.

Matrices have one leading dimension of replicas, the second index of the grid, and are padded (`signals.places`): N and
K count features, not places. `stride_a` is zero where all replicas share their input. A dropout mask is never stored:
the backward pass draws the same one again.
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from torchnpn.kernels.triton.epilogues import end_forward, end_input_gradient, outer, own_tile, padded, with_bias


@triton.jit
def multiply_add(x, y, total, PRECISION: tl.constexpr):
    """x y + total; of a single row by sums, since tensor cores would compute sixteen."""
    if x.shape[0] == 1:
        return total + tl.sum(tl.trans(x).to(tl.float32) * y.to(tl.float32), 0)[None, :]
    else:
        return tl.dot(x, y, total, input_precision=PRECISION)


@triton.jit
def linear_tile(
    a_m, A, W_m, P, b_m, b_v, t, r2, parts, replica, rows, columns, M, N, K, stride_a,
    HALVES: tl.constexpr, TIED: tl.constexpr, HAS_B: tl.constexpr, LOG_STD: tl.constexpr, PRECISION: tl.constexpr,
    PARTS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """One tile of a Wᵀ + b."""
    height, width = padded(N), padded(K)
    a_m += replica * stride_a
    A += replica * stride_a * HALVES
    W_m += replica * height * width
    P += replica * height * width * HALVES
    mean, variance = tl.zeros((BM, BN), tl.float32), tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        inner = start + tl.arange(0, BK)
        here = (rows[:, None] < M) & (inner[None, :] < width)
        weights = (columns[None, :] < height) & (inner[:, None] < width)
        x = tl.load(a_m + rows[:, None] * width + inner[None, :], mask=here, other=0.0)
        w = tl.load(W_m + columns[None, :] * width + inner[:, None], mask=weights, other=0.0)
        mean = multiply_add(x, w, mean, PRECISION)
        if HALVES > 0:
            at_A = A + rows[:, None] * (width * HALVES) + inner[None, :]
            at_P = P + columns[None, :] * (width * HALVES) + inner[:, None]
            second, v = tl.load(at_A, mask=here, other=0.0), tl.load(at_P, mask=weights, other=0.0)
            variance = multiply_add(second, v, variance, PRECISION)
            if HALVES > 1:
                s, w2 = tl.load(at_A + width, mask=here, other=0.0), tl.load(at_P + width, mask=weights, other=0.0)
                variance = multiply_add(s, w2, variance, PRECISION)
    if TIED:
        variance += outer(t, parts, r2, replica, rows, columns, M, N, PARTS)
    if HAS_B:
        mean, variance = with_bias(mean, variance, b_m, b_v, replica, columns, N, LOG_STD)
    return mean, variance


@triton.jit(do_not_specialize=("M", "N", "K", "salt", "parts"))
def forward_kernel(
    a_m, A, W_m, P, b_m, b_v, t, r2, out_m, out_s, out_A, out_t, c2, o_m, o_s, seed, cursor,
    M, N, K, stride_a, tau, r, q, p, salt, parts,
    HALVES: tl.constexpr, TIED: tl.constexpr, TIED_ABOVE: tl.constexpr, PARTS: tl.constexpr,
    HAS_B: tl.constexpr, LOG_STD: tl.constexpr, ACT: tl.constexpr, SAVE: tl.constexpr,
    STORE_S: tl.constexpr, PAIR: tl.constexpr, DROP: tl.constexpr, PRECISION: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """f(a Wᵀ + b): its mean, and its variance or its pair; with SAVE also o = a Wᵀ + b itself."""
    replica, rows, columns = own_tile(N, BM, BN)
    mean, variance = linear_tile(
        a_m, A, W_m, P, b_m, b_v, t, r2, parts, replica, rows, columns, M, N, K, stride_a,
        HALVES, TIED, HAS_B, LOG_STD, PRECISION, PARTS, BM, BN, BK,
    )  # fmt: skip
    if SAVE:
        inside = (rows[:, None] < M) & (columns[None, :] < padded(N))
        at = (replica * M + rows[:, None]) * padded(N) + columns[None, :]
        tl.store(o_m + at, mean, mask=inside)
        tl.store(o_s + at, variance, mask=inside)
    end_forward(
        mean, variance, out_m, out_s, out_A, out_t, c2, tl.program_id(0) % tl.cdiv(N, BN), seed, cursor, replica, rows,
        columns, M, N, tau, r, q, p, salt, ACT, DROP, True, STORE_S, PAIR, TIED_ABOVE,
    )  # fmt: skip


@triton.jit(do_not_specialize=("M", "N", "K", "salt", "parts"))
def input_gradient_kernel(
    g_m, g_s, W_m, P, u, c2, a_m, o_m, o_s, d_m, d_s, d_u, r2, seed, cursor,
    M, N, K, stride_a, tau, r, q, p, salt, parts,
    ACT: tl.constexpr, DROP: tl.constexpr, TIED: tl.constexpr, TIED_BELOW: tl.constexpr, PARTS: tl.constexpr,
    PRECISION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Gradients by a random input a, and through the dropout and the activation that made it, down to its own o."""
    replica, rows, columns = own_tile(K, BM, BK)
    halves, height, width = 1 if TIED else 2, padded(N), padded(K)
    g = (replica * M + rows[:, None]) * height
    W_m += replica * height * width
    P += replica * height * width * halves
    by_m, by_v = tl.zeros((BM, BK), tl.float32), tl.zeros((BM, BK), tl.float32)
    by_w2 = tl.zeros((BM, BK), tl.float32)
    for start in range(0, N, BN):
        inner = start + tl.arange(0, BN)
        here = (rows[:, None] < M) & (inner[None, :] < height)
        weights = (inner[:, None] < height) & (columns[None, :] < width)
        up_m = tl.load(g_m + g + inner[None, :], mask=here, other=0.0)
        w = tl.load(W_m + inner[:, None] * width + columns[None, :], mask=weights, other=0.0)
        by_m = tl.dot(up_m, w, by_m, input_precision=PRECISION)
        at_P = P + inner[:, None] * (halves * width) + columns[None, :]
        w2 = tl.load(at_P + (halves - 1) * width, mask=weights, other=0.0)
        up_s = tl.load(g_s + g + inner[None, :], mask=here, other=0.0).to(w2.dtype)
        by_w2 = tl.dot(up_s, w2, by_w2, input_precision=PRECISION)
        if not TIED:
            v = tl.load(at_P, mask=weights, other=0.0)
            by_v = tl.dot(up_s, v, by_v, input_precision=PRECISION)
    if TIED:
        by_v = outer(u, parts, c2, replica, rows, columns, M, K, PARTS)
    end_input_gradient(
        by_m, by_v, by_w2, a_m, o_m, o_s, d_m, d_s, d_u, r2, tl.program_id(0) % tl.cdiv(K, BK), seed, cursor, replica,
        rows, columns, M, K, stride_a, tau, r, q, p, salt, ACT, DROP, TIED_BELOW,
    )  # fmt: skip


@triton.jit
def weight_tile(
    g_m, g_s, a_m, A, replica, rows, columns, first, count, M, N, K, stride_a,
    HALVES: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """One tile of g_mᵀ a_m, and of g_sᵀ A by the halves of A, over `count` rows of the batch."""
    height, width = padded(N), padded(K)
    a_m += replica * stride_a
    A += replica * stride_a * HALVES
    mean, one = tl.zeros((BN, BK), tl.float32), tl.zeros((BN, BK), tl.float32)
    other = tl.zeros((BN, BK), tl.float32)
    for start in range(0, count, BM):
        batch = first + start + tl.arange(0, BM)
        g = (replica * M + batch[None, :]) * height + rows[:, None]
        up = (batch[None, :] < M) & (rows[:, None] < height)
        here = (batch[:, None] < M) & (columns[None, :] < width)
        up_m = tl.load(g_m + g, mask=up, other=0.0)
        x = tl.load(a_m + batch[:, None] * width + columns[None, :], mask=here, other=0.0)
        mean = tl.dot(up_m, x, mean, input_precision=PRECISION)
        if HALVES > 0:
            at_A = A + batch[:, None] * (width * HALVES) + columns[None, :]
            q = tl.load(at_A, mask=here, other=0.0)
            up_s = tl.load(g_s + g, mask=up, other=0.0).to(q.dtype)
            one = tl.dot(up_s, q, one, input_precision=PRECISION)
            if HALVES > 1:
                s = tl.load(at_A + width, mask=here, other=0.0)
                other = tl.dot(up_s, s, other, input_precision=PRECISION)
    return mean, one, other


@triton.jit(do_not_specialize=("count", "M", "N", "K"))
def weight_products_kernel(
    g_m, g_s, a_m, A, by_m, by_pair, count, M, N, K, stride_a,
    HALVES: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """g_mᵀ a_m and g_sᵀ A, each part of the batch by itself: the third index of the grid."""
    replica, rows, columns = own_tile(K, BN, BK)
    part = tl.program_id(2).to(tl.int64)
    mean, one, other = weight_tile(
        g_m, g_s, a_m, A, replica, rows, columns, part * count, count, M, N, K, stride_a, HALVES, PRECISION, BM, BN, BK
    )
    height, width = padded(N), padded(K)
    inside = (rows[:, None] < height) & (columns[None, :] < width)
    row = (part * tl.num_programs(1) + replica) * height + rows[:, None]
    tl.store(by_m + row * width + columns[None, :], mean, mask=inside)
    pair = row * (width * HALVES) + columns[None, :]
    if HALVES > 0:
        tl.store(by_pair + pair, one, mask=inside)
    if HALVES > 1:
        tl.store(by_pair + pair + width, other, mask=inside)
