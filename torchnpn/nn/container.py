"""Modules that put others together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from torchnpn import families
from torchnpn.families import Bernoulli as BernoulliFamily
from torchnpn.families import Beta, ExponentialFamily, Gaussian, Poisson
from torchnpn.moments import Moments
from torchnpn.nn.activation import BY_NAME
from torchnpn.nn.convert import as_moments
from torchnpn.nn.linear import Linear
from torchnpn.nn.neurons import Bernoulli, Power, Saturating
from torchnpn.nn.noise import Dropout

_RELU_LIKE = {"relu", "leaky_relu", "relu6", "elu", "gelu", "silu", "softplus"}


class Sequential(nn.Sequential):
    """Modules in order; takes a tensor or moments, gives moments."""

    def forward(self, a: Moments | Tensor) -> Moments:
        o = as_moments(a)
        for module in self:
            o = module(o)
        return o


class Flatten(nn.Module):
    """(batch, …) to (batch, features)."""

    def forward(self, a: Moments | Tensor) -> Moments:
        a = as_moments(a)
        variance = None if a.variance is None else a.variance.expand_as(a.mean).flatten(1)
        return Moments(a.mean.flatten(1), variance)


class Complement(nn.Module):
    """(a, 1 - a) along the last dimension: lets networks of positive weights fall with their inputs, too."""

    def forward(self, a: Moments | Tensor) -> Moments:
        a = as_moments(a)
        variance = None if a.variance is None else torch.cat([a.variance, a.variance], -1)
        return Moments(torch.cat([a.mean, 1 - a.mean], -1), variance)


def mlp(
    sizes: Sequence[int],
    family: str | type[ExponentialFamily] = "gaussian",
    activation: str | nn.Module | None = None,
    dropout: float = 0.0,
    *,
    output_family: str | type[ExponentialFamily] | None = None,
    replicas: tuple[int, ...] = (),
    generator: torch.Generator | None = None,
) -> Sequential:
    """A fully connected network, `mlp([784, 800, 800, 10])`: linear layers with activations between them.

    Args:
        sizes: Number of inputs, of units in each hidden layer, of outputs.
        family: Family of weights and neurons. Poisson neurons have gamma weights, Bernoulli neurons Gaussian ones.
        activation: Name of a map, or a module, for the hidden layers; by default ReLU for Gaussian networks, and what
            the paper's Table 1 gives for the others.
        dropout: Probability of dropping a hidden unit in training.
        output_family: Family of the last layer's weights; by default that of the others. `"gaussian"` gives outputs of
            either sign, for classes.
        replicas: Leading dimensions for independent copies.
        generator: Source of the initial values.
    """
    if len(sizes) < 2:
        raise ValueError(f"mlp expects at least two sizes (inputs, outputs), got {list(sizes)}.")
    neurons = families.resolve(family)
    weights = _weight_family(neurons)
    last = weights if output_family is None else _weight_family(families.resolve(output_family))
    gain = math.sqrt(2) if activation is None or activation in _RELU_LIKE else 1.0
    layers: list[nn.Module] = []
    for i, (n_in, n_out) in enumerate(itertools.pairwise(sizes)):
        hidden = i < len(sizes) - 2
        scale = gain if hidden and weights is Gaussian and neurons is Gaussian else 1.0
        layers.append(
            Linear(n_in, n_out, family=weights if hidden else last, gain=scale, replicas=replicas, generator=generator)
        )
        if hidden:
            layers.append(_activation(neurons, activation))
            if dropout:
                layers.append(Dropout(dropout))
    return Sequential(*layers)


def _weight_family(neurons: type[ExponentialFamily]) -> type[ExponentialFamily]:
    if neurons is Poisson:
        return families.Gamma
    return Gaussian if neurons is BernoulliFamily else neurons


def _activation(neurons: type[ExponentialFamily], activation: str | nn.Module | None) -> nn.Module:
    if isinstance(activation, nn.Module):
        return activation
    if activation is not None:
        if activation not in BY_NAME:
            raise ValueError(f"activation expects one of {', '.join(BY_NAME)}, or a module, got {activation!r}.")
        return BY_NAME[activation]()
    if neurons is Gaussian:
        return BY_NAME["relu"]()
    if neurons is BernoulliFamily:
        return Bernoulli()
    return Power() if neurons is Beta else Saturating(neurons)
