"""A layer's step of Adam on loss + β KL: from the gradient of its output to new weights."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
from torch import Tensor

from torchnpn.kernels.triton import update
from torchnpn.kernels.triton.layer import LONG, weight_products
from torchnpn.kernels.triton.signals import Gradient, Precision, Signal, Weights, pointer

_MOST_PARTS = 700  # of sums that each program adds up for itself


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
    BN, BK = _update_tile(R)
    tiles_n, tiles = triton.cdiv(N, BN), triton.cdiv(N, BN) * triton.cdiv(K, BK)
    biases = 0 if w.b_m is None else triton.cdiv(N, BK)
    update.update_kernel[(tiles + biases, R)](
        by_m, by_pair, g.m, g.s, w.W_m, w.W_v, w.pair, pointer(w.b_m, w.W_m), pointer(w.b_v, w.W_m), adam.W, adam.b,
        pointer(sums, w.W_m), pointer(parts, w.W_m), adam.schedule, adam.cursor, g.m.shape[-2], N, K, penalty.precision,
        HAS_S=a.random, PRIOR=penalty.kind, B1=adam.b1, B2=adam.b2, EPSILON=adam.epsilon,
        TILES_N=tiles_n, TILES=tiles, SUMS=1 if sums is None else sums.shape[2],
        PADDED=1 if sums is None else triton.next_power_of_2(sums.shape[2]), BIASES=biases, BN=BN, BK=BK,
    )  # fmt: skip


def _update_tile(R: int) -> tuple[int, int]:
    """Outputs and inputs of a tile of weights in the update."""
    return (32, 32) if R < 8 else (16, 64)


def new_sums(w: Weights, kind: str) -> Tensor | None:
    """Memory for the Σ (m² + s) of empirical Bayes: two halves, taken in turns, with a part for each tile."""
    R, N, K = w.W_m.shape
    BN, BK = _update_tile(R)
    tiles_n, tiles = triton.cdiv(N, BN), triton.cdiv(N, BN) * triton.cdiv(K, BK)
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
