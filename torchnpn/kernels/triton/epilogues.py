"""What stands around the products of a layer: pairs before them; bias, activation, dropout and derivatives after them.

With tied standard deviations r_o c_i, W_s = r² c²ᵀ, a product by W_s is an outer one, of r² and
t = Σ_i (s + m²)_i c_i², backward of c² and u = Σ_o (g_s)_o r_o². Whoever writes a tile of a signal or of a gradient
writes its columns' part in these sums.

Functions of tiles, for kernels that take the products themselves, and kernels that go over a tensor once, for products
of the vendor's library.
"""

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
def padded(features):
    """See `signals.places`; the compiler sees that this is a multiple of 16."""
    return tl.cdiv(features, 16) * 16


@triton.jit
def own_tile(N, BM: tl.constexpr, BN: tl.constexpr):
    """The replica, the rows and the columns, of N, that a program is for."""
    replica = tl.program_id(1).to(tl.int64)
    tiles = tl.cdiv(N, BN)
    rows = (tl.program_id(0) // tiles) * BM + tl.arange(0, BM)
    columns = (tl.program_id(0) % tiles) * BN + tl.arange(0, BN)
    return replica, rows, columns


@triton.jit
def with_bias(mean, variance, b_m, b_v, replica, columns, N, LOG_STD: tl.constexpr):
    """A tile of a Wᵀ, and b."""
    bias = replica * N + columns
    mean += tl.load(b_m + bias, mask=columns < N, other=0.0)[None, :]
    variance += variance_of(tl.load(b_v + bias, mask=columns < N, other=0.0), LOG_STD)[None, :]
    return mean, variance


@triton.jit
def row_sums(parts, count, replica, rows, M, PARTS: tl.constexpr):
    """What the parts of a sum over features add up to, for some rows of the batch."""
    part = tl.arange(0, PARTS)[:, None]
    at = (part * tl.num_programs(1).to(tl.int64) + replica) * M + rows[None, :]
    return tl.sum(tl.load(parts + at, mask=(part < count) & (rows[None, :] < M), other=0.0), 0)


@triton.jit
def store_part(values, squares, parts, part, replica, rows, columns, M, N):
    """The part of a tile's columns in the sum over features of values · squares."""
    scale = tl.load(squares + replica * N + columns, mask=columns < N, other=0.0)
    at = (part * tl.num_programs(1).to(tl.int64) + replica) * M + rows
    tl.store(parts + at, tl.sum(values * scale[None, :], 1), mask=rows < M)


@triton.jit
def outer(parts, count, squares, replica, rows, columns, M, N, PARTS: tl.constexpr):
    """A tile of the product of a sum over features, one for each row, and of r² or c²."""
    scale = tl.load(squares + replica * N + columns, mask=columns < N, other=0.0)
    return row_sums(parts, count, replica, rows, M, PARTS)[:, None] * scale[None, :]


@triton.jit
def store_signal(mean, variance, A, t, c2, part, replica, rows, columns, M, N, HAS_S: tl.constexpr, TIED: tl.constexpr):
    """A tile of what the layer above takes: the pair and, where its standard deviations are tied, the part of t."""
    width = padded(N)
    inside = (rows[:, None] < M) & (columns[None, :] < width)
    second = activations.finite(mean * mean + variance)
    if TIED:
        store_part(tl.where(inside, second, 0.0), c2, t, part, replica, rows, columns, M, N)
        if HAS_S:
            tl.store(A + (replica * M + rows[:, None]) * width + columns[None, :], variance, mask=inside)
    else:
        halves = 2 if HAS_S else 1
        at = A + (replica * M + rows[:, None]) * (width * halves) + columns[None, :]
        tl.store(at, second, mask=inside)
        if HAS_S:
            tl.store(at + width, variance, mask=inside)


@triton.jit
def end_forward(
    mean, variance, out_m, out_s, out_A, out_t, c2, part, seed, cursor, replica, rows, columns, M, N, tau, r, q, p,
    salt,
    ACT: tl.constexpr, DROP: tl.constexpr, STORE_M: tl.constexpr, STORE_S: tl.constexpr, PAIR: tl.constexpr,
    TIED_ABOVE: tl.constexpr,
):  # fmt: skip
    """Activation and dropout of a tile of o; its mean, its variance and its pair for the layer above, as asked for."""
    width = padded(N)
    inside = (rows[:, None] < M) & (columns[None, :] < width)
    at = (replica * M + rows[:, None]) * width + columns[None, :]
    mean, variance = activations.values(mean, variance, tau, r, q, ACT)
    if DROP:
        scale = dropout_scale(seed, cursor, replica, salt, rows, columns, N, M, p)
        mean, variance = mean * scale, variance * scale * scale
    if STORE_M:
        tl.store(out_m + at, mean, mask=inside)
    if STORE_S:
        tl.store(out_s + at, variance, mask=inside)
    if PAIR:
        store_signal(mean, variance, out_A, out_t, c2, part, replica, rows, columns, M, N, True, TIED_ABOVE)


@triton.jit
def end_input_gradient(
    by_m, by_v, by_w2, a_m, o_m, o_s, d_m, d_s, d_u, r2, part, seed, cursor, replica, rows, columns, M, K, stride_a,
    tau, r, q, p, salt, ACT: tl.constexpr, DROP: tl.constexpr, TIED_BELOW: tl.constexpr,
):  # fmt: skip
    """From tiles of g_m W_m, g_s W_s, g_s W_m² to the gradients by a, and through what made it down to its own o."""
    width = padded(K)
    inside = (rows[:, None] < M) & (columns[None, :] < width)
    at = (replica * M + rows[:, None]) * width + columns[None, :]
    x = tl.load(a_m + replica * stride_a + rows[:, None] * width + columns[None, :], mask=inside, other=0.0)
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
    if TIED_BELOW:
        store_part(tl.where(inside, by_s, 0.0), r2, d_u, part, replica, rows, columns, M, K)


# Kernels that go over a tensor once ---------------------------------------------------------------------------------


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
def padded_weights_kernel(
    W_m, W_v, copy, P, size, N, K, LOG_STD: tl.constexpr, TIED: tl.constexpr, SQUARE: tl.constexpr,
    COPY: tl.constexpr, PAIR: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """P = [W_s | W_m²], or W_s alone, W_m² alone where standard deviations are tied; and a copy of W_m. Both padded."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside, height, width = at < size, padded(N), padded(K)
    row, column = at // width, at % width
    real = inside & (row % height < N) & (column < K)
    source = (row // height * N + row % height) * K + column
    halves = 2 if SQUARE and not TIED else 1
    if COPY or (PAIR and SQUARE):
        w = tl.load(W_m + source, mask=real, other=0.0)
        if COPY:
            tl.store(copy + at, w, mask=inside)
        if PAIR and SQUARE:
            tl.store(P + (row + 1) * halves * width - width + column, activations.finite(w * w), mask=inside)
    if PAIR and not TIED:
        v = activations.finite(variance_of(tl.load(W_v + source, mask=real, other=0.0), LOG_STD))
        tl.store(P + row * halves * width + column, tl.where(real, v, 0.0), mask=inside)


@triton.jit(do_not_specialize=("M",))
def signal_kernel(
    a_m, a_s, out, A, t, c2, M, K, width, shared,
    HAS_S: tl.constexpr, TIED: tl.constexpr, COPY: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """The pair of an input, and t: see `store_signal`. Replicas that share the input write the same pair.

    Its rows are `width` numbers apart; with COPY they are padded in `out`.
    """
    replica, rows, columns = own_tile(K, BM, BK)
    inside = (rows[:, None] < M) & (columns[None, :] < K)
    source = replica * (1 - shared)
    at = (source * M + rows[:, None]) * width + columns[None, :]
    mean, variance = tl.load(a_m + at, mask=inside, other=0.0), tl.zeros((BM, BK), tl.float32)
    if HAS_S:
        variance = tl.load(a_s + at, mask=inside, other=0.0).to(tl.float32)
    if COPY:
        here = (rows[:, None] < M) & (columns[None, :] < padded(K))
        tl.store(out + (source * M + rows[:, None]) * padded(K) + columns[None, :], mean, mask=here)
    A -= replica * shared * M * padded(K) * (2 if HAS_S and not TIED else 1)
    part = tl.program_id(0) % tl.cdiv(K, BK)
    store_signal(mean, variance, A, t, c2, part, replica, rows, columns, M, K, HAS_S, TIED)


@triton.jit(do_not_specialize=("M", "N", "salt", "parts"))
def finish_forward_kernel(
    o_m, o_s, b_m, b_v, t, r2, out_m, out_s, A, out_t, c2, seed, cursor, M, N, tau, r, q, p, salt, parts,
    HAS_B: tl.constexpr, LOG_STD: tl.constexpr, ACT: tl.constexpr, DROP: tl.constexpr, STORE_S: tl.constexpr,
    PAIR: tl.constexpr, HALVES: tl.constexpr, TIED: tl.constexpr, TIED_ABOVE: tl.constexpr, PARTS: tl.constexpr,
    SAVE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """t r² and bias (SAVE: added to o in place), activation, dropout; the output, and its pair for the layer above."""
    replica, rows, columns = own_tile(N, BM, BN)
    width = padded(N)
    inside = (rows[:, None] < M) & (columns[None, :] < width)
    at = (replica * M + rows[:, None]) * width + columns[None, :]
    mean, variance = tl.load(o_m + at, mask=inside, other=0.0), tl.zeros((BM, BN), tl.float32)
    if HALVES > 0:
        variance = tl.load(o_s + at, mask=inside, other=1.0)
    if TIED:
        variance += outer(t, parts, r2, replica, rows, columns, M, N, PARTS)
    if HAS_B:
        mean, variance = with_bias(mean, variance, b_m, b_v, replica, columns, N, LOG_STD)
    if SAVE and HAS_B:
        tl.store(o_m + at, mean, mask=inside)
    if SAVE and (HAS_B or TIED):
        tl.store(o_s + at, variance, mask=inside)
    changes: tl.constexpr = ACT != "none" or DROP
    end_forward(
        mean, variance, out_m, out_s, A, out_t, c2, tl.program_id(0) % tl.cdiv(N, BN), seed, cursor, replica, rows,
        columns, M, N, tau, r, q, p, salt, ACT, DROP, changes, STORE_S and changes, PAIR, TIED_ABOVE,
    )  # fmt: skip


@triton.jit(do_not_specialize=("M", "K", "salt", "parts"))
def finish_input_gradient_kernel(
    by_m, pair, u, c2, a_m, o_m, o_s, d_m, d_s, d_u, r2, seed, cursor, M, K, stride_a, tau, r, q, p, salt, parts,
    ACT: tl.constexpr, DROP: tl.constexpr, TIED: tl.constexpr, TIED_BELOW: tl.constexpr, PARTS: tl.constexpr,
    BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """From g_m W_m and [g_s W_s | g_s W_m²] to the gradients by a, and through what made it down to its own o."""
    replica, rows, columns = own_tile(K, BM, BK)
    width = padded(K)
    inside = (rows[:, None] < M) & (columns[None, :] < width)
    at = (replica * M + rows[:, None]) * width + columns[None, :]
    if TIED:
        by_w2 = tl.load(pair + at, mask=inside, other=0.0).to(tl.float32)
        by_v = outer(u, parts, c2, replica, rows, columns, M, K, PARTS)
    else:
        both = (replica * M + rows[:, None]) * 2 * width + columns[None, :]
        by_v = tl.load(pair + both, mask=inside, other=0.0).to(tl.float32)
        by_w2 = tl.load(pair + both + width, mask=inside, other=0.0).to(tl.float32)
    end_input_gradient(
        tl.load(by_m + at, mask=inside, other=0.0), by_v, by_w2, a_m, o_m, o_s, d_m, d_s, d_u, r2,
        tl.program_id(0) % tl.cdiv(K, BK), seed, cursor, replica, rows, columns, M, K, stride_a, tau, r, q, p, salt,
        ACT, DROP, TIED_BELOW,
    )  # fmt: skip


@triton.jit
def gradient_kernel(
    by_m, by_pair, W_m, W_v, d_W_m, d_W_v, size, N, K, HAS_S: tl.constexpr, LOG_STD: tl.constexpr, TIED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradients by W_m and W_s, or its log standard deviation: g_mᵀ a_m + 2 W_m ∘ (g_sᵀ a_s) and g_sᵀ q."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    halves, width = 2 if HAS_S and not TIED else 1, padded(K)
    row = at // K // N * padded(N) + at // K % N
    pair = row * halves * width + at % K
    g_m = tl.load(by_m + row * width + at % K, mask=inside, other=0.0)
    if HAS_S:
        by_s = tl.load(by_pair + pair + (halves - 1) * width, mask=inside, other=0.0)
        g_m += 2 * tl.load(W_m + at, mask=inside, other=0.0) * by_s
    tl.store(d_W_m + at, g_m, mask=inside)
    if not TIED:
        g_v = tl.load(by_pair + pair, mask=inside, other=0.0)
        if LOG_STD:
            g_v *= 2 * variance_of(tl.load(W_v + at, mask=inside, other=0.0), True)
        tl.store(d_W_v + at, g_v, mask=inside)
