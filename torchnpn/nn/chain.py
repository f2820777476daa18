"""A network read as a chain of layers, for whoever computes all of it at once."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from torchnpn._torch import has_hooks
from torchnpn.families import Gamma, Gaussian
from torchnpn.nn.activation import ReLU, Sigmoid, Tanh
from torchnpn.nn.linear import Linear, MeanAndNoise
from torchnpn.nn.neurons import Saturating
from torchnpn.nn.noise import Dropout

FUSED: dict[type[nn.Module], str] = {ReLU: "relu", Sigmoid: "sigmoid", Tanh: "tanh"}  # those that end a linear kernel


class ChainLayer(NamedTuple):
    """A linear layer with the activation and the dropout after it."""

    linear: Linear
    activation: str  # a name in `FUSED`, or "none"
    dropout: float


class Chain(NamedTuple):
    dropout: float  # on the inputs
    layers: list[ChainLayer]
    beside: list[ChainLayer]  # that take what the last of them takes: the noise of `MeanAndNoise`


def chain_of(modules: list[nn.Module]) -> Chain | str:
    """Gaussian linear layers with ReLU, sigmoid, tanh and sampled dropout between them; else why not, in words.

    `MeanAndNoise` may stand at the end.
    """
    if any(has_hooks(part) for module in modules for part in module.modules()):
        return "a hook listens to a module"
    rest, layers, beside = list(modules), [], []
    if rest and type(last := rest[-1]) is MeanAndNoise:
        rest[-1], beside = last.mean, [ChainLayer(last.noise, "none", 0.0)]
    first = _dropout(rest)
    while rest:
        linear = rest.pop(0)
        if type(linear) is not Linear or linear.weight.family is not Gaussian or linear.bias is None:
            what = type(linear).__name__
            return f"{what} is not a Gaussian Linear layer with a bias, nor ReLU, Sigmoid, Tanh or Dropout after one"
        name = FUSED[type(rest.pop(0))] if rest and type(rest[0]) in FUSED else "none"
        layers.append(ChainLayer(linear, name, _dropout(rest)))
    return Chain(first, layers, beside) if layers else "there is no layer"


class FusedActivation(NamedTuple):
    """An activation that ends the kernel of a linear layer."""

    name: str
    constants: tuple[float, ...] = ()


def fused_activation(linear: nn.Module, activation: nn.Module) -> FusedActivation | None:
    """What the kernel of a linear layer takes for the activation after it; None where the two are called apart."""
    if type(linear) is not Linear or has_hooks(linear) or has_hooks(activation):
        return None
    if type(activation) in FUSED:
        return FusedActivation(FUSED[type(activation)])
    if type(activation) is Saturating and activation.family is Gamma and activation.statistic is None:
        q = activation.r if activation.q is None else activation.q
        return FusedActivation("gamma", (activation.tau, activation.r, q))
    return None


def _dropout(rest: list[nn.Module]) -> float:
    """Take a sampled dropout from the front, if there is one."""
    if not rest or type(rest[0]) is not Dropout:
        return 0.0
    dropout = rest.pop(0)
    assert isinstance(dropout, Dropout)
    return dropout.p
