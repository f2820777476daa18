"""One layer's three passes, each by the kernel or the products that suit its size.

Small products are taken by the kernels of `products`, large ones by the vendor's library (`tiles`), with the kernels of
`epilogues` between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import triton
from torch import Tensor

from torchnpn.kernels.precision import tf32
from torchnpn.kernels.triton import epilogues, products, tiles
from torchnpn.kernels.triton.signals import (
    FAST,
    Activation,
    Drop,
    Forward,
    Gradient,
    Precision,
    Signal,
    Tied,
    Weights,
    pad,
    places,
    pointer,
)

_BLOCK = 1024
_LEAST_PART = 256  # rows of a batch, of which a program takes the sum where there are few tiles of weights
MOST_PARTS = 64  # of a sum over features, that every program adds up for itself


def signal(m: Tensor, s: Tensor | None, w: Weights, precision: Precision) -> Signal:
    """Moments (R or 1, batch, features) as the input of a layer."""
    halves, shape = (s is not None) + (w.tied is None), (*m.shape[:-1], places(m.shape[-1]))
    out = m if shape == m.shape else m.new_empty(shape)
    pair = m.new_empty(*shape[:-1], halves * shape[-1], dtype=precision.variance) if halves else None
    return Signal(out, s, pair, _fill_signal(m, s, out, pair, w))


def retied(a: Signal, w: Weights) -> Signal:
    """The same random input for another layer on it, which has a t of its own where it is tied."""
    return a if w.tied is None else a._replace(t=_fill_signal(a.m, a.pair, a.m, a.pair, w))


def _fill_signal(m: Tensor, s: Tensor | None, out: Tensor, pair: Tensor | None, w: Weights) -> Tensor | None:
    """Compute a pair, and `out` where that is not m itself; and t, where the layer above is tied."""
    R, _, K = w.W_m.shape
    (count, M, width), BM, BK = m.shape, 16, 128
    t = None if w.tied is None else m.new_empty(triton.cdiv(K, BK), R, M)
    if pair is None and t is None and out is m:
        return None
    epilogues.signal_kernel[(triton.cdiv(M, BM) * triton.cdiv(K, BK), count if t is None else R)](
        m, pointer(s, m), out, pointer(pair, m), pointer(t, m), pointer(w.c2, m), M, K, width, int(count == 1),
        HAS_S=s is not None, TIED=t is not None, COPY=out is not m, BM=BM, BK=BK,
    )  # fmt: skip
    return t


def fill_pair_(w: Weights) -> None:
    """Compute what is made of the weights as they are now: a padded copy, the pair, squares of tied spreads."""
    if w.tied is not None and w.log_std:
        for log, square in ((w.tied.log_r, w.tied.r2), (w.tied.log_c, w.tied.c2)):
            torch.exp(2 * log, out=square)
    if w.pair is not None or w.padded is not w.W_m:
        epilogues.padded_weights_kernel[(triton.cdiv(w.padded.numel(), _BLOCK),)](
            w.W_m, pointer(w.W_v, w.W_m), w.padded, pointer(w.pair, w.W_m), w.padded.numel(), *w.W_m.shape[-2:],
            LOG_STD=w.log_std, TIED=w.tied is not None, SQUARE=w.tied is not None or w.halves == 2,
            COPY=w.padded is not w.W_m, PAIR=w.pair is not None, BLOCK=_BLOCK,
        )  # fmt: skip


def weights(
    W: Sequence[Tensor],
    b: tuple[Tensor | None, Tensor | None],
    log_std: bool,
    point: bool,
    precision: Precision,
    place: Callable[[str, Sequence[int], torch.dtype], Tensor] | None = None,
) -> Weights:
    """Parameters (R, out, in), (R, out) with room for their pair and, where rows have to be padded, a copy.

    Args:
        W: Mean, and variances or log standard deviations: of its shape, or tied, two vectors (R, out) and (R, in).
        b: Mean of the bias, and its variance or log standard deviation.
        log_std: Which of both all of these are.
        point: Whether the input has no variance.
        precision: Of the products.
        place: Gives memory under a name; by default it is new.
    """
    W_m, *spread = W
    R, N, K = W_m.shape
    place = (lambda name, size, dtype: W_m.new_empty(size, dtype=dtype)) if place is None else place
    halves = 2 - point - (len(spread) > 1)
    height, width = places(N), places(K)
    copy = W_m if (height, width) == (N, K) else place("padded", (R, height, width), W_m.dtype)
    size = R, height, halves * width
    pair = place(f"pair {halves} {precision.mean}", size, precision.variance) if halves else None
    if len(spread) == 1:
        return Weights(W_m, copy, spread[0], *b, log_std, pair)
    squares = [place(f"{name}²", t.shape, t.dtype) if log_std else t for name, t in zip("rc", spread, strict=True)]
    return Weights(W_m, copy, None, *b, log_std, pair, Tied(*spread, *squares))


def forward(
    a: Signal,
    w: Weights,
    act: Activation,
    *,
    above: Weights | None = None,
    drop: Drop | None = None,
    keep: bool = True,
    precision: Precision = FAST,
) -> Forward:
    """a' = f(a Wᵀ + b), and o = a Wᵀ + b itself where `keep`.

    The output is given as the pair that the layer `above` takes, or as its variance where there is none.
    """
    R, N, K = w.W_m.shape
    M, last = a.m.shape[-2], above is None
    tied, tied_above = w.tied is not None, above is not None and above.tied is not None
    out_m = a.m.new_empty(R, M, places(N))
    out_s = torch.empty_like(out_m) if last else None
    pair = None if last else a.m.new_empty(R, M, places(N) * (1 if tied_above else 2), dtype=precision.variance)
    plain = act.name == "none" and drop is None
    large = by_library("forward", R, M, N, K, precision, a.m)
    BM, BN, BK, warps, stages = (8, 128, 0, 4, 1) if large else tiles.tile("forward", R, M, N, K)
    t, parts = batch_parts(a.t, a.m)
    out_t = a.m.new_empty(triton.cdiv(N, BN), R, M) if tied_above else None
    squares = w.W_m if w.tied is None else w.tied.r2, w.W_m if above is None or above.c2 is None else above.c2
    outputs = out_m, pointer(out_s, out_m), pointer(pair, out_m), pointer(out_t, out_m), squares[1]
    ends = {
        "HALVES": a.halves, "TIED": tied, "TIED_ABOVE": tied_above, "PARTS": MOST_PARTS, "HAS_B": w.b_m is not None,
        "LOG_STD": w.log_std, "ACT": act.name, "DROP": drop is not None, "STORE_S": last, "PAIR": not last,
        "BM": BM, "BN": BN, "num_warps": warps,
    }  # fmt: skip
    b_m, b_v = pointer(w.b_m, w.W_m), pointer(w.b_v, w.W_m)
    settings, grid = (*act[1:], *_chance(drop), parts), (triton.cdiv(M, BM) * triton.cdiv(N, BN), R)
    if large:
        o_m = _product(a.m, w.padded.mT, precision)
        o_s = torch.empty_like(o_m) if a.pair is None else _product(a.pair, w.pair.mT, precision)  # type: ignore[union-attr]
        epilogues.finish_forward_kernel[grid](
            o_m, o_s, b_m, b_v, t, squares[0], *outputs, *_randomness(drop, a.m), M, N, *settings,
            SAVE=keep or plain, **ends,
        )  # fmt: skip
        out_m, out_s = (o_m, o_s if last else None) if plain else (out_m, out_s)
        return Forward(Signal(out_m, out_s, pair, out_t), o_m, o_s)
    save = keep and not (plain and last)
    o_m, o_s = (torch.empty_like(out_m), torch.empty_like(out_m)) if save else (out_m, pointer(out_s, out_m))
    products.forward_kernel[grid](
        a.m, pointer(a.pair, a.m), w.padded, pointer(w.pair, w.W_m), b_m, b_v, t, squares[0], *outputs, o_m, o_s,
        *_randomness(drop, a.m), M, N, K, stride(a.m), *settings, SAVE=save, **ends,
        PRECISION=precision.mean, BK=BK, num_stages=stages,
    )  # fmt: skip
    return Forward(Signal(out_m, out_s, pair, out_t), o_m, o_s)


def input_gradient(
    g: Gradient,
    a: Signal,
    w: Weights,
    below: Forward | None = None,
    act: Activation | None = None,
    drop: Drop | None = None,
    precision: Precision = FAST,
    r2: Tensor | None = None,
) -> Gradient:
    """Gradients by a random input a; with `below`, through its dropout and activation down to the o that made it.

    `r2` is that of the layer below, where its standard deviations are tied.
    """
    R, N, K = w.W_m.shape
    M = g.m.shape[-2]
    act = Activation() if act is None or below is None else act
    o_m, o_s = (a.m, a.m) if below is None else (below.o_m, below.o_s)
    large = by_library("input", R, M, N, K, precision, a.m)
    BM, BN, BK, warps, stages = (8, 0, 128, 4, 1) if large else tiles.tile("input", R, M, N, K)
    u, parts = batch_parts(g.u, a.m)
    d_m, d_s = g.m.new_empty(R, M, places(K)), g.s.new_empty(R, M, places(K))
    d_u = None if r2 is None else g.m.new_empty(triton.cdiv(K, BK), R, M)
    sums = u, pointer(w.c2, a.m)
    ends = (
        a.m, o_m, o_s, d_m, d_s, pointer(d_u, d_m), pointer(r2, a.m), *_randomness(drop, a.m), M,
    )  # fmt: skip
    constants = (stride(a.m), *act[1:], *_chance(drop), parts)
    settings = {
        "ACT": act.name, "DROP": drop is not None, "TIED": w.tied is not None, "TIED_BELOW": r2 is not None,
        "PARTS": MOST_PARTS, "BM": BM, "BK": BK, "num_warps": warps,
    }  # fmt: skip
    grid = (triton.cdiv(M, BM) * triton.cdiv(K, BK), R)
    assert w.pair is not None
    if large:
        by_m, pair = _product(g.m, w.padded, precision), _product(g.s.to(w.pair.dtype), w.pair, precision)
        epilogues.finish_input_gradient_kernel[grid](by_m, pair, *sums, *ends, K, *constants, **settings)
    else:
        products.input_gradient_kernel[grid](
            g.m, g.s, w.padded, w.pair, *sums, *ends, N, K, *constants, **settings,
            PRECISION=precision.mean, BN=BN, num_stages=stages,
        )  # fmt: skip
    return Gradient(d_m, d_s, d_u)


def point_gradient(g: Gradient, a: Signal, w: Weights, precision: Precision = FAST) -> Tensor:
    """The gradient by a point a, which moves the variance of a Wᵀ too: g_m W_m + 2 a (g_s W_s)."""
    if w.tied is None:
        assert w.pair is not None
        by_v = _product(g.s.to(w.pair.dtype), w.pair, precision)
    else:
        assert g.u is not None
        by_v = g.u.sum(0)[..., None] * pad(w.tied.c2)[:, None]
    return _product(g.m, w.padded, precision) + 2 * a.m * by_v


def weight_products(
    g: Gradient, a: Signal, w: Weights, dtype: torch.dtype, precision: Precision
) -> tuple[Tensor, Tensor | None]:
    """g_mᵀ a_m and g_sᵀ A, padded (parts, R, out, in), to be added up; the latter in `dtype`, None without a pair."""
    R, N, K = w.W_m.shape
    M = g.m.shape[-2]
    if by_library("weight", R, M, N, K, precision, a.m):
        by_pair = None if a.pair is None else _product(g.s.to(a.pair.dtype).mT, a.pair, precision, dtype)[None]
        return _product(g.m.mT, a.m, precision)[None], by_pair
    BM, BN, BK, warps, stages = tiles.tile("weight", R, M, N, K)
    count_tiles = triton.cdiv(N, BN) * triton.cdiv(K, BK)
    parts = max(1, min(tiles.PROCESSORS // (R * count_tiles), triton.cdiv(M, _LEAST_PART)))
    count = triton.cdiv(triton.cdiv(M, parts), BM) * BM
    parts = triton.cdiv(M, count)
    by_m = w.padded.new_empty(parts, *w.padded.shape)
    by_pair = None if w.pair is None else w.pair.new_empty(parts, *w.pair.shape, dtype=dtype)
    products.weight_products_kernel[(count_tiles, R, parts)](
        g.m, g.s, a.m, pointer(a.pair, a.m), by_m, pointer(by_pair, by_m), count, M, N, K, stride(a.m),
        HALVES=a.halves, PRECISION=precision.mean, BM=BM, BN=BN, BK=BK, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return by_m, by_pair


def weight_gradient(g: Gradient, a: Signal, w: Weights, precision: Precision = FAST) -> tuple[Tensor | None, ...]:
    """Gradients by W, mean and spread or, where tied, the logarithms r and c; then by b_m, b_v."""
    by_m, by_pair = (
        None if part is None else part.sum(0) for part in weight_products(g, a, w, torch.float32, precision)
    )
    assert by_m is not None
    d_W_m, d_W_v = torch.empty_like(w.W_m), None if w.W_v is None else torch.empty_like(w.W_v)
    epilogues.gradient_kernel[(triton.cdiv(d_W_m.numel(), _BLOCK),)](
        by_m, pointer(by_pair, by_m), w.W_m, pointer(w.W_v, w.W_m), d_W_m, pointer(d_W_v, d_W_m), d_W_m.numel(),
        *w.W_m.shape[-2:], HAS_S=a.random, LOG_STD=w.log_std, TIED=w.tied is not None, BLOCK=_BLOCK,
    )  # fmt: skip
    spreads = (d_W_v,) if w.tied is None else _tied_gradient(g, a, w.tied, w.log_std)
    if w.b_v is None:
        return d_W_m, *spreads, None, None
    outputs = w.W_m.shape[-2]
    d_b_v = g.s.sum(-2, dtype=torch.float32)[..., :outputs]
    return d_W_m, *spreads, g.m.sum(-2)[..., :outputs], d_b_v * (2 * torch.exp(2 * w.b_v)) if w.log_std else d_b_v


def with_u(g: Gradient, w: Weights) -> Gradient:
    """With u = Σ_o g_s r_o², where standard deviations are tied."""
    if w.tied is None:
        return g
    return g._replace(u=torch.matmul(g.s.float(), pad(w.tied.r2)[..., None]).squeeze(-1)[None])


def _tied_gradient(g: Gradient, a: Signal, tied: Tied, log_std: bool) -> tuple[Tensor, Tensor]:
    """By r² and c², Σ g_s t and Σ u (s + m²), sums over the batch; or by log r and log c, 2 r² and 2 c² times that."""
    assert a.t is not None and g.u is not None
    second = a.m.square() if a.pair is None else a.m.square() + a.pair
    by_r2 = torch.matmul(a.t.sum(0)[..., None, :], g.s.float()).squeeze(-2)[..., : tied.r2.shape[-1]]
    by_c2 = torch.matmul(g.u.sum(0)[..., None, :], second).squeeze(-2)[..., : tied.c2.shape[-1]]
    return (2 * tied.r2 * by_r2, 2 * tied.c2 * by_c2) if log_std else (by_r2, by_c2)


def activation(m: Tensor, s: Tensor, act: Activation) -> tuple[Tensor, Tensor]:
    """f(m, s), element by element."""
    a_m, a_s = torch.empty_like(m), torch.empty_like(m)
    epilogues.activation_kernel[(triton.cdiv(m.numel(), _BLOCK),)](
        m, s, a_m, a_s, m.numel(), *act[1:], ACT=act.name, BLOCK=_BLOCK
    )
    return a_m, a_s


def activation_gradient(m: Tensor, s: Tensor, g_m: Tensor, g_s: Tensor, act: Activation) -> Gradient:
    """Gradients by m and s from those by f(m, s)."""
    d_m, d_s = torch.empty_like(m), torch.empty_like(m)
    epilogues.activation_gradient_kernel[(triton.cdiv(m.numel(), _BLOCK),)](
        m, s, g_m, g_s, d_m, d_s, m.numel(), *act[1:], ACT=act.name, BLOCK=_BLOCK
    )
    return Gradient(d_m, d_s)


# Launching -----------------------------------------------------------------------------------------------------------


def by_library(kernel: str, R: int, M: int, N: int, K: int, precision: Precision, a: Tensor) -> bool:
    """Whether products are taken from the library; in full float32 all are, as tensor cores have nothing to offer."""
    return (precision.mean == "ieee" and a.is_cuda) or tiles.is_large(kernel, R, M, N, K)


def _product(x: Tensor, y: Tensor, precision: Precision, dtype: torch.dtype = torch.float32) -> Tensor:
    """x y over replicas, summed in float32, and given in `dtype` where factors are in low precision."""
    R = max(len(x), len(y))
    with tf32(precision.mean == "tf32"):
        if x.dtype == torch.float32:
            return torch.mm(x[0], y[0]).unsqueeze(0) if R == 1 else torch.matmul(x, y)
        if x.device.type == "cpu":  # under Triton's interpreter
            return torch.matmul(x.float(), y.float())
        if R == 1:
            return torch.mm(x[0], y[0], out_dtype=dtype).unsqueeze(0)
        return torch.bmm(x.expand(R, -1, -1), y.expand(R, -1, -1), out_dtype=dtype)


def batch_parts(sums: Tensor | None, other: Tensor) -> tuple[Tensor, int]:
    """The parts of sums over features, and how many: few, where every program adds them up."""
    if sums is None:
        return other, 0
    sums = sums if len(sums) <= MOST_PARTS else sums.sum(0, keepdim=True)
    return sums, len(sums)


def stride(a: Tensor) -> int:
    """Numbers between the inputs of two replicas: none where they share one."""
    return 0 if len(a) == 1 else a.shape[-2] * a.shape[-1]


def _randomness(drop: Drop | None, other: Tensor) -> tuple[Tensor, Tensor]:
    return (other, other) if drop is None else (drop.seed, drop.cursor)


def _chance(drop: Drop | None) -> tuple[float, int]:
    return (0.0, 0) if drop is None else (drop.p, drop.salt)
