"""A network read as a chain of layers, for whoever computes all of it at once."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from torchnpn._torch import has_hooks
from torchnpn.families import Gaussian
from torchnpn.nn.activation import FUSED
from torchnpn.nn.linear import Linear
from torchnpn.nn.noise import Dropout


class Layer(NamedTuple):
    """A linear layer with the activation and the dropout after it."""

    linear: Linear
    activation: str  # a name in `FUSED`, or "none"
    dropout: float


class Chain(NamedTuple):
    dropout: float  # on the inputs
    layers: list[Layer]


def chain_of(modules: list[nn.Module]) -> Chain | None:
    """Gaussian linear layers with ReLU, sigmoid, tanh and sampled dropout between them; None for anything else."""
    if any(has_hooks(part) for module in modules for part in module.modules()):
        return None
    rest, layers = list(modules), []
    first = _dropout(rest)
    while rest:
        linear = rest.pop(0)
        if type(linear) is not Linear or linear.weight.family is not Gaussian or linear.bias is None:
            return None
        name = FUSED[type(rest.pop(0))] if rest and type(rest[0]) in FUSED else "none"
        layers.append(Layer(linear, name, _dropout(rest)))
    return Chain(first, layers) if layers else None


def _dropout(rest: list[nn.Module]) -> float:
    """Take a sampled dropout from the front, if there is one."""
    if not rest or type(rest[0]) is not Dropout:
        return 0.0
    dropout = rest.pop(0)
    assert isinstance(dropout, Dropout)
    return dropout.p
