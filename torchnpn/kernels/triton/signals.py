"""What passes through the kernels of a network: moments, gradients, weights, and the settings they come with."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from torchnpn.maps import once_differentiable

fused_once = once_differentiable(
    "A fused GPU kernel",
    "Convert the network and its inputs with .double(): in float64 the plain maps are used, which have them.",
)
"""Marks a backward pass that has no derivative of its own."""


class Gradient(NamedTuple):
    """Gradients by a mean and a variance, (R, batch, features)."""

    m: Tensor
    s: Tensor


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


class Weights(NamedTuple):
    """Parameters of a layer with one leading dimension of replicas: (R, out, in) and (R, out)."""

    W_m: Tensor
    W_v: Tensor  # variance, or log standard deviation
    b_m: Tensor | None
    b_v: Tensor | None
    log_std: bool  # what W_v and b_v are
    pair: Tensor  # (R, out, 2 · in), [W_s | W_m²] in low precision; (R, out, in), W_s alone, where the input is a point


class Signal(NamedTuple):
    """What passes between two layers, (R or 1, batch, features)."""

    m: Tensor
    s: Tensor | None  # None for a point, or where only the pair is needed
    pair: Tensor  # (R, batch, 2 · features), [s + m² | s] in low precision; (R, batch, features), m² alone, for a point

    @property
    def random(self) -> bool:
        """Whether this is no point."""
        return self.pair.shape[-1] != self.m.shape[-1]


class Forward(NamedTuple):
    """A layer's output, and what its backward pass needs."""

    a: Signal
    o_m: Tensor
    o_s: Tensor


def pointer(tensor: Tensor | None, other: Tensor) -> Tensor:
    """A pointer for an argument that will not be looked at."""
    return other if tensor is None else tensor
