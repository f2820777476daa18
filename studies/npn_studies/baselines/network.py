"""Fully connected networks side by side, with a head."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from npn_studies.baselines.interface import Settings
from npn_studies.baselines.replicas import Number, Replicas
from npn_studies.baselines.tasks import Task

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "tanh": torch.tanh}


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """The activation of that name.

    Raises:
        ValueError: If there is none.
    """
    if name not in _ACTIVATIONS:
        raise ValueError(f"Settings expects an activation of {sorted(_ACTIVATIONS)}, got {name!r}.")
    return _ACTIVATIONS[name]


class Dropout(NamedTuple):
    """Probabilities of keeping a unit, (networks, 1, 1) or (1, 1, 1); None: all are kept."""

    inputs: Tensor | None
    hidden: Tensor | None


KEEP_ALL = Dropout(None, None)


def dropout(replicas: Replicas, rate: Number, input_rate: Number) -> Dropout:
    """The rates of dropping hidden units and inputs as `Dropout`.

    Raises:
        ValueError: If a rate is not in [0, 1).
    """

    def keep(name: str, value: Number) -> Tensor | None:
        values = value if isinstance(value, tuple) else (value,)
        if not all(0 <= one < 1 for one in values):
            raise ValueError(f"Dropout expects a {name} from 0 to below 1, got {value}.")
        return 1 - replicas.number(name, value) if any(values) else None

    return Dropout(keep("input_rate", input_rate), keep("rate", rate))


def masked(a: Tensor, keep: Tensor | None) -> Tensor:
    """a / keep with the probability keep, else 0."""
    return a if keep is None else a * ((torch.rand_like(a) < keep) * keep.reciprocal())


class Network:
    """Linear layers with an activation, and perhaps dropout, after each hidden one.

    Args:
        inputs: How many there are.
        replicas: The networks.
        task: Gives the head.
        settings: Hidden layers and activation.
    """

    def __init__(self, inputs: int, replicas: Replicas, task: Task, settings: Settings) -> None:
        self.head = task.head(replicas)
        self.activation = activation(settings.activation)
        self.sizes = [inputs, *settings.hidden, self.head.outputs]
        self.weights: list[Tensor] = []  # of each layer, (networks, in, out)
        self.biases: list[Tensor] = []  # (networks, 1, out)
        for n_in, n_out in itertools.pairwise(self.sizes):
            bound = 1 / math.sqrt(n_in)  # as torch.nn.Linear
            for made, rows in ((self.weights, n_in), (self.biases, 1)):
                made.append(replicas.zeros(rows, n_out).uniform_(-bound, bound).requires_grad_())

    @property
    def layers(self) -> list[Tensor]:
        """Weight and bias of the first layer, of the second, …"""
        return [p for pair in zip(self.weights, self.biases, strict=True) for p in pair]

    @property
    def parameters(self) -> list[Tensor]:
        """All that is learned."""
        return self.layers + self.head.parameters

    def __call__(self, x: Tensor, drop: Dropout = KEEP_ALL) -> Tensor:  # (networks, rows, inputs -> outputs)
        a = masked(x, drop.inputs)
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            a = masked(self.activation(a), drop.hidden) if number else a
            a = torch.baddbmm(bias, a, weight)
        return a

    def loss(self, x: Tensor, y: Tensor, drop: Dropout = KEEP_ALL) -> Tensor:  # (networks,)
        """Mean of -log p(y | x)."""
        return -self.head.log_prob(self(x, drop), y).mean(-1)

    def half_squares(self) -> Tensor:  # (networks,)
        """½ Σ w² over weights and biases: -log N(w; 0, 1), up to a constant."""
        return 0.5 * torch.stack([p.square().sum((1, 2)) for p in self.layers]).sum(0)
