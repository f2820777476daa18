"""A fully connected network with a head, in torch's own layers."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from torchnpn.baselines.interface import Settings
from torchnpn.baselines.tasks import Head, Task

_ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}


def activation(name: str) -> nn.Module:
    """The activation of that name.

    Raises:
        ValueError: If there is none.
    """
    if name not in _ACTIVATIONS:
        raise ValueError(f"Settings expects an activation of {sorted(_ACTIVATIONS)}, got {name!r}.")
    return _ACTIVATIONS[name]()


class Network(nn.Module):
    """Linear layers with an activation, and perhaps dropout, after each hidden one.

    Args:
        x: Rows whose number of features, type and device the network takes.
        task: Gives the head.
        settings: Hidden layers and activation.
        rate: Probability of dropping a hidden unit.
        input_rate: Probability of dropping an input.
    """

    head: Head

    def __init__(self, x: Tensor, task: Task, settings: Settings, rate: float = 0.0, input_rate: float = 0.0) -> None:
        super().__init__()
        head = task.head()
        sizes = [x.shape[-1], *settings.hidden]
        layers: list[nn.Module] = [nn.Dropout(input_rate)] if input_rate else []
        for n_in, n_out in itertools.pairwise(sizes):
            layers += [nn.Linear(n_in, n_out), activation(settings.activation)]
            layers += [nn.Dropout(rate)] if rate else []
        self.layers = nn.Sequential(*layers, nn.Linear(sizes[-1], head.outputs))
        self.head = head
        self.to(x)

    def forward(self, x: Tensor) -> Tensor:  # (rows, inputs) -> (rows, outputs)
        o: Tensor = self.layers(x)
        return o

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Mean of -log p(y | x)."""
        return -self.head.log_prob(self(x), y).mean()

    def half_squares(self) -> Tensor:
        """½ Σ w² over weights and biases: -log N(w; 0, 1), up to a constant."""
        return 0.5 * torch.stack([p.square().sum() for p in self.layers.parameters()]).sum()
