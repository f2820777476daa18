"""One layer's three passes, each by the kernel or the products that suit its size.

Small products are bound by launches and memory: there the kernels of `products` do all of a pass at once. Large ones
are bound by arithmetic: there the vendor's matrix products are hard to beat, and `epilogues` stands between them.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from torchnpn.kernels.precision import tf32
from torchnpn.kernels.triton import epilogues, products
from torchnpn.kernels.triton.signals import (
    FAST,
    Activation,
    Drop,
    Forward,
    Gradient,
    Precision,
    Signal,
    Weights,
    pointer,
)

_LARGE = 2**30  # multiplications in a product, over all replicas, from which the library's products are taken
_BLOCK = 1024
LONG = 1024  # rows of a batch, from which their sum has a kernel of its own
_LONG_SUM = 1024  # outputs, from which a sum over them is worth cutting in parts


def point_or_random(m: Tensor, s: Tensor | None, precision: Precision) -> Signal:
    """Moments (R, batch, features) as a signal."""
    R, M, K = m.shape
    pair = m.new_empty(R, M, K if s is None else 2 * K, dtype=precision.variance)
    epilogues.pair_of_inputs_kernel[(triton.cdiv(m.numel(), _BLOCK),)](
        m, pointer(s, m), pair, m.numel(), K, HAS_S=s is not None, BLOCK=_BLOCK
    )
    return Signal(m, s, pair)


def fill_pair_(w: Weights) -> None:
    """Compute the pair of the weights as they are now."""
    K = w.W_m.shape[-1]
    epilogues.pair_of_weights_kernel[(triton.cdiv(w.W_m.numel(), _BLOCK),)](
        w.W_m, w.W_v, w.pair, w.W_m.numel(), K, LOG_STD=w.log_std, SQUARE=w.pair.shape[-1] != K, BLOCK=_BLOCK
    )


def weights(
    W_m: Tensor, W_v: Tensor, b_m: Tensor | None, b_v: Tensor | None, log_std: bool, point: bool, precision: Precision
) -> Weights:
    """Parameters (R, out, in), (R, out) with room for their pair; `point` says whether the layer's input is one."""
    R, N, K = W_m.shape
    return Weights(W_m, W_v, b_m, b_v, log_std, W_m.new_empty(R, N, K if point else 2 * K, dtype=precision.variance))


def forward(
    a: Signal,
    w: Weights,
    act: Activation,
    *,
    drop: Drop | None = None,
    keep: bool = True,
    last: bool = False,
    precision: Precision = FAST,
) -> Forward:
    """a' = f(a Wᵀ + b), and o = a Wᵀ + b itself where `keep`.

    The output is given as its pair, for a layer above, or as its variance where this layer is the `last`.
    """
    R, N, K = w.W_m.shape
    M = a.m.shape[-2]
    out_m = a.m.new_empty(R, M, N)
    out_s = torch.empty_like(out_m) if last else None
    pair = out_m if last else a.m.new_empty(R, M, 2 * N, dtype=precision.variance)
    plain = act.name == "none" and drop is None
    ends = {"HAS_B": w.b_m is not None, "LOG_STD": w.log_std, "ACT": act.name, "DROP": drop is not None}
    outputs = {"STORE_S": last, "PAIR": not last}
    settings = (*act[1:], *_chance(drop))
    if is_large(R, M, N, K) or _by_library(precision, a.m):
        o_m, o_s = _product(a.m, w.W_m.mT, precision), _product(a.pair, w.pair.mT, precision)
        epilogues.finish_forward_kernel[(triton.cdiv(M, 8) * triton.cdiv(N, 128), R)](
            o_m, o_s, pointer(w.b_m, w.W_m), pointer(w.b_v, w.W_m), out_m, pointer(out_s, out_m), pair,
            *_randomness(drop, a.m), M, N, *settings, **ends, **outputs, BM=8, BN=128,
        )  # fmt: skip
        out_m, out_s = (o_m, o_s if last else None) if plain else (out_m, out_s)
        return Forward(Signal(out_m, out_s, pair), o_m, o_s)
    save = keep and not (plain and last)
    o_m, o_s = (torch.empty_like(out_m), torch.empty_like(out_m)) if save else (out_m, pointer(out_s, out_m))
    BM, BN, BK, warps, stages = _tiles("forward", R, M, N, K)
    products.forward_kernel[(triton.cdiv(M, BM) * triton.cdiv(N, BN), R)](
        a.m, a.pair, w.W_m, w.pair, pointer(w.b_m, w.W_m), pointer(w.b_v, w.W_m), out_m, pointer(out_s, out_m), pair,
        o_m, o_s, *_randomness(drop, a.m), M, N, K, _stride(a.m), *settings, HAS_S=a.random, SAVE=save, **ends,
        **outputs, PRECISION=precision.mean, BM=BM, BN=BN, BK=BK, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return Forward(Signal(out_m, out_s, pair), o_m, o_s)


def input_gradient(
    g: Gradient,
    a: Signal,
    w: Weights,
    below: Forward | None = None,
    act: Activation | None = None,
    drop: Drop | None = None,
    precision: Precision = FAST,
) -> Gradient:
    """Gradients by a random input a; with `below`, through its dropout and activation down to the o that made it."""
    R, N, K = w.W_m.shape
    M = g.m.shape[-2]
    act = Activation() if act is None or below is None else act
    o_m, o_s = (a.m, a.m) if below is None else (below.o_m, below.o_s)
    common = (*_randomness(drop, a.m), M)
    constants = (_stride(a.m), *act[1:], *_chance(drop))
    d_m, d_s = g.m.new_empty(R, M, K), g.s.new_empty(R, M, K)
    if is_large(R, M, N, K) or _few_long_sums(R, M, N, K) or _by_library(precision, a.m):
        by_m, pair = _product(g.m, w.W_m, precision), _product(g.s.to(w.pair.dtype), w.pair, precision)
        epilogues.finish_input_gradient_kernel[(triton.cdiv(M, 8) * triton.cdiv(K, 128), R)](
            by_m, pair, a.m, o_m, o_s, d_m, d_s, *common, K, *constants, ACT=act.name, DROP=drop is not None,
            BM=8, BK=128,
        )  # fmt: skip
        return Gradient(d_m, d_s)
    BM, BN, BK, warps, stages = _tiles("input", R, M, N, K)
    products.input_gradient_kernel[(triton.cdiv(M, BM) * triton.cdiv(K, BK), R)](
        g.m, g.s, w.W_m, w.pair, a.m, o_m, o_s, d_m, d_s, *common, N, K, *constants,
        ACT=act.name, DROP=drop is not None, PRECISION=precision.mean,
        BM=BM, BN=BN, BK=BK, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return Gradient(d_m, d_s)


def point_gradient(g: Gradient, a: Signal, w: Weights, precision: Precision = FAST) -> Tensor:
    """The gradient by a point a, which moves the variance of a Wᵀ too: g_m W_m + 2 a (g_s W_s)."""
    return _product(g.m, w.W_m, precision) + 2 * a.m * _product(g.s.to(w.pair.dtype), w.pair, precision)


def weight_products(
    g: Gradient, a: Signal, w: Weights, dtype: torch.dtype, precision: Precision
) -> tuple[Tensor, Tensor]:
    """g_mᵀ a_m and g_sᵀ A, the latter given in `dtype`."""
    R, N, K = w.W_m.shape
    M = g.m.shape[-2]
    if is_large(R, M, N, K) or _by_library(precision, a.m):
        return _product(g.m.mT, a.m, precision), _product(g.s.to(a.pair.dtype).mT, a.pair, precision, dtype)
    by_m, by_pair = torch.empty_like(w.W_m), torch.empty_like(w.pair, dtype=dtype)
    BM, BN, BK, warps, stages = _tiles("weight", R, M, N, K)
    products.weight_products_kernel[(triton.cdiv(N, BN) * triton.cdiv(K, BK), R)](
        g.m, g.s, a.m, a.pair, by_m, by_pair, M, N, K, _stride(a.m), HAS_S=a.random,
        PRECISION=precision.mean, BM=BM, BN=BN, BK=BK, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return by_m, by_pair


def weight_gradient(
    g: Gradient, a: Signal, w: Weights, precision: Precision = FAST
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Gradients by W_m, W_v, b_m, b_v."""
    by_m, by_pair = weight_products(g, a, w, torch.float32, precision)
    d_W_m, d_W_v = torch.empty_like(w.W_m), torch.empty_like(w.W_v)
    epilogues.gradient_kernel[(triton.cdiv(d_W_m.numel(), _BLOCK),)](
        by_m, by_pair, w.W_m, w.W_v, d_W_m, d_W_v, d_W_m.numel(), w.W_m.shape[-1], HAS_S=a.random, LOG_STD=w.log_std,
        BLOCK=_BLOCK,
    )  # fmt: skip
    if w.b_v is None:
        return d_W_m, d_W_v, None, None
    d_b_v = g.s.sum(-2, dtype=torch.float32)
    return d_W_m, d_W_v, g.m.sum(-2), d_b_v * (2 * torch.exp(2 * w.b_v)) if w.log_std else d_b_v


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


# Large layers --------------------------------------------------------------------------------------------------------


def is_large(R: int, M: int, N: int, K: int) -> bool:
    """Whether a layer's products are taken from the library: many multiplications, or many rows."""
    least = _LARGE if M <= LONG else _LARGE // 4
    return least <= R * M * N * K


def _few_long_sums(R: int, M: int, N: int, K: int) -> bool:
    """Whether an input's gradient (R, M, K) has too few tiles for all processors, while its sums are long.

    The library cuts the sums in parts: 108 µs in place of 592 for 256 rows, 20,000 outputs and 100 inputs on an H200.
    """
    return N >= _LONG_SUM and R * triton.cdiv(M, 32) * triton.cdiv(K, 32) < _PROCESSORS


def _by_library(precision: Precision, a: Tensor) -> bool:
    """Whether tensor cores have nothing to offer: in full float32 the library's products are faster at every size."""
    return precision.mean == "ieee" and a.is_cuda


def _product(x: Tensor, y: Tensor, precision: Precision, dtype: torch.dtype = torch.float32) -> Tensor:
    """x y over replicas, summed in float32, and given in `dtype` where factors are in low precision."""
    R = max(len(x), len(y))
    with tf32(precision.mean == "tf32"):
        if x.dtype == torch.float32:
            return torch.matmul(x, y)
        if x.device.type == "cpu":  # under Triton's interpreter
            return torch.matmul(x.float(), y.float())
        if R == 1:
            return torch.mm(x[0], y[0], out_dtype=dtype).unsqueeze(0)
        return torch.bmm(x.expand(R, -1, -1), y.expand(R, -1, -1), out_dtype=dtype)


# Launching -----------------------------------------------------------------------------------------------------------

_TILES = {  # for few outputs, few tiles, many tiles: batch, outputs, inputs; warps, stages. Measured on an H200.
    "forward": ((16, 16, 256, 4, 3), (32, 32, 64, 2, 4), (128, 64, 32, 8, 3)),
    "input": ((32, 16, 64, 4, 2), (32, 64, 32, 4, 3), (128, 32, 64, 8, 3)),
    "weight": ((64, 16, 64, 4, 2), (64, 32, 64, 4, 2), (64, 32, 64, 4, 2)),
}
_PROCESSORS = 132


def _tiles(kernel: str, R: int, M: int, N: int, K: int) -> tuple[int, int, int, int, int]:
    """Tiles so small that every processor gets one; large ones where there is work for all."""
    few, small, large = _TILES[kernel]
    if N <= 16:
        return few
    width = K if kernel == "input" else N
    return large if R * triton.cdiv(M, 128) * triton.cdiv(width, 64) >= _PROCESSORS else small


def _stride(a: Tensor) -> int:
    """Numbers between the inputs of two replicas: none where they share one."""
    return 0 if len(a) == 1 else a.shape[-2] * a.shape[-1]


def _randomness(drop: Drop | None, other: Tensor) -> tuple[Tensor, Tensor]:
    return (other, other) if drop is None else (drop.seed, drop.cursor)


def _chance(drop: Drop | None) -> tuple[float, int]:
    return (0.0, 0) if drop is None else (drop.p, drop.salt)
