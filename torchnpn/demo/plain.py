"""The plain torch networks that the demo sets beside ours: trained by the same loop, judged by the same likelihood."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from torchnpn.moments import Moments


class PlainNetwork(nn.Module):
    """A fully connected ReLU network with dropout after each hidden layer, in torch's own layers; it gives points.

    Args:
        sizes: Number of inputs, of units in each hidden layer, of outputs.
        dropout: Probability of dropping a hidden unit.
        seed: Decides the initial weights (torch's default distribution).
    """

    def __init__(self, sizes: Sequence[int], dropout: float, seed: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for n_in, n_out in itertools.pairwise(sizes):
                layers += [nn.Linear(n_in, n_out), nn.ReLU(), nn.Dropout(dropout)]
        self.layers = nn.Sequential(*layers[:-2])

    def forward(self, x: Tensor) -> Moments:
        return Moments(self.layers(x))

    @torch.no_grad()
    def samples(self, x: Tensor, passes: int, seed: int) -> Tensor:  # (rows, inputs) -> (passes, rows, outputs)
        """Outputs under random dropout masks, one for each pass (MC dropout, Gal and Ghahramani 2016)."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.train()
            drawn = torch.stack([self.layers(x) for _ in range(passes)])
        self.eval()
        return drawn
