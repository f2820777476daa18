"""What passes through the kernels of a network: moments, gradients, weights, and the settings they come with."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from torchnpn.maps import once_differentiable

fused_once = once_differentiable(
    "A fused GPU kernel",
    "Convert the network and its inputs with .double(): in float64 the plain maps are used, which have them.",
)
"""Marks a backward pass that has no derivative of its own."""


class Activation(NamedTuple):
    """An activation by name ("none", "relu", "sigmoid", "tanh", "gamma"), and the constants of the last."""

    name: str = "none"
    tau: float = 1.0
    r: float = 1.0
    q: float = 1.0


class Drop(NamedTuple):
    """Sampled dropout: its probability, and what a mask is drawn from."""

    p: float
    seed: Tensor  # int64, one number
    cursor: Tensor  # int32 (replicas,), the number of the step; the same in both passes
    salt: int  # another for each layer


class Precision(NamedTuple):
    """In what the factors of products are taken; sums are always float32."""

    mean: str = "tf32"  # or "ieee" for all of float32
    variance: torch.dtype = torch.bfloat16  # or float32


FAST, FULL = Precision(), Precision("ieee", torch.float32)


class Tied(NamedTuple):
    """Standard deviations r_o c_i of the weights of a layer: what is learnt, and the squares that products read."""

    log_r: Tensor  # (R, out); or r² itself
    log_c: Tensor  # (R, in)
    r2: Tensor  # (R, out)
    c2: Tensor  # (R, in)


class Weights(NamedTuple):
    """Parameters of a layer with one leading dimension of replicas: (R, out, in) and (R, out)."""

    W_m: Tensor
    padded: Tensor  # (R, padded out, padded in): W_m itself, or a copy for products
    W_v: Tensor | None  # variance, or log standard deviation; None where these are tied
    b_m: Tensor | None
    b_v: Tensor | None
    log_std: bool  # what W_v and b_v are
    pair: Tensor | None  # (R, padded out, halves · padded in), in low precision
    tied: Tied | None = None

    @property
    def halves(self) -> int:
        """Of the pair [W_s | W_m²]: both; W_s alone where the input is a point. Tied: W_m² alone, or none at all."""
        return halves(self.pair, self.padded)

    @property
    def c2(self) -> Tensor | None:
        return None if self.tied is None else self.tied.c2


class Signal(NamedTuple):
    """What passes between two layers, (R or 1, batch, padded features)."""

    m: Tensor
    s: Tensor | None  # None for a point, or where only the pair is needed
    pair: Tensor | None  # [s + m² | s] in low precision, m² alone for a point; below tied weights s alone, or None
    t: Tensor | None = None  # (parts, R, batch), below tied weights: Σ_i (s + m²)_i c_i², in parts

    @property
    def halves(self) -> int:
        return halves(self.pair, self.m)

    @property
    def random(self) -> bool:
        """Whether this is no point."""
        return self.halves == (2 if self.t is None else 1)


class Gradient(NamedTuple):
    """Gradients by a mean and a variance, (R, batch, padded features)."""

    m: Tensor
    s: Tensor
    u: Tensor | None = None  # (parts, R, batch), of a layer with tied weights: Σ_o s_o r_o², in parts


UNIT = 16  # features


def places(features: int) -> int:
    """How many places the features of a matrix have: rows that begin at multiples of 16 bytes are loaded in one piece.

    What lies beyond the features of a signal is finite, of a gradient zero, of weights zero: it changes no product.
    """
    return -(-features // UNIT) * UNIT


def pad(tensor: Tensor) -> Tensor:
    """With zeros at the end of its last dimension."""
    more = places(tensor.shape[-1]) - tensor.shape[-1]
    return functional.pad(tensor, (0, more)) if more else tensor


class Forward(NamedTuple):
    """A layer's output, and what its backward pass needs."""

    a: Signal
    o_m: Tensor
    o_s: Tensor


def halves(pair: Tensor | None, of: Tensor) -> int:
    return 0 if pair is None else pair.shape[-1] // of.shape[-1]


def pointer(tensor: Tensor | None, other: Tensor) -> Tensor:
    """A pointer for an argument that will not be looked at."""
    return other if tensor is None else tensor
