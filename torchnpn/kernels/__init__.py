"""Fused twins of the maps, with the same signatures; this file is the one place that chooses between them."""

from __future__ import annotations

import torch

from torchnpn import maps
from torchnpn.kernels import cpu_linear, cpu_relu
from torchnpn.kernels.cpu_linear import gaussian_linear
from torchnpn.moments import Moments

__all__ = ["gaussian_linear", "linear", "relu", "takes_log_std"]


def linear(a: Moments, W: Moments, b: Moments | None = None) -> Moments:
    """`maps.linear`; by the fused CPU kernel where that applies: dense tensors, no replicas, eager mode."""
    if torch.compiler.is_compiling() or not cpu_linear.takes(a, W, b):
        return maps.linear(a, W, b)
    return cpu_linear.linear(a, W, b)


def takes_log_std(a: Moments, W: Moments, b: Moments | None) -> bool:
    """Whether `gaussian_linear` handles these arguments."""
    return cpu_linear.takes(a, W, b)


def relu(o: Moments) -> Moments:
    """`maps.relu`; by the fused CPU kernel where that applies: float32, eager mode."""
    if torch.compiler.is_compiling() or not cpu_relu.takes(o):
        return maps.relu(o)
    return cpu_relu.relu(o)
