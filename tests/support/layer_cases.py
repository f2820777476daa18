"""Layers with random parameters: how each is made, what it takes, and what it computes once its numbers are drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from torchnpn import nn

Array = np.ndarray
BATCH = 5


class Case(NamedTuple):
    name: str
    make: Callable[..., torch.nn.Module]  # takes `replicas` and `generator`
    inputs: Callable[[torch.Generator], torch.Tensor]  # (batch, …)
    drawn: Callable[[np.random.Generator, dict[str, Array], Array], Array]
    """(rng, parameters, inputs), one of each for each draw (draws, …) -> (draws, batch, outputs); by numpy alone."""
    known: Callable[[dict[str, torch.Tensor], torch.Tensor], torch.Tensor] = None
    """(means, inputs) -> outputs of torch's own layer, for inputs about which it agrees."""
    uncertain: bool = True  # whether inputs may be moments
    agrees: slice = slice(None)  # rows of the inputs that torch's own layer takes

    def layer(self, replicas=(), seed=0):
        return self.make(replicas=replicas, generator=torch.Generator().manual_seed(seed))

    def given(self, seed=1):
        return self.inputs(torch.Generator().manual_seed(seed))


def features(generator):
    return torch.randn(BATCH, 3, generator=generator)


def codes(generator):
    return torch.tensor([-1, -1, *torch.randint(4, (BATCH - 2,), generator=generator).tolist()])


def by_product(rng, p, a, name=""):
    W, b = p[f"{name}weight"], p[f"{name}bias"]
    return np.einsum("dbi,doi->dbo", a, W) + b[:, None]


def by_row(rng, p, a):
    table, draws = p["weight"], len(a)
    k = np.where(a < 0, rng.integers(0, table.shape[1], a.shape), a).astype(int)  # which one it is, nobody knows
    return table[np.arange(draws)[:, None], k]


LAYERS = [
    Case(
        "linear",
        lambda **how: nn.Linear(3, 2, **how),
        features,
        by_product,
        lambda p, a: torch.nn.functional.linear(a, p["weight"], p["bias"]),
    ),
    Case(
        "tied linear",
        lambda **how: nn.Linear(3, 2, posterior="tied", **how),
        features,
        by_product,
        lambda p, a: torch.nn.functional.linear(a, p["weight"], p["bias"]),
    ),
    Case(
        "two heads",
        lambda **how: nn.MeanAndNoise(3, 2, **how),
        features,
        lambda rng, p, a: np.concatenate([by_product(rng, p, a, f"{head}.") for head in ("mean", "noise")], -1),
        lambda p, a: torch.cat(
            [torch.nn.functional.linear(a, p[f"{head}.weight"], p[f"{head}.bias"]) for head in ("mean", "noise")], -1
        ),
    ),
    Case(
        "embedding",
        lambda **how: nn.Embedding(4, 3, **how),
        codes,
        by_row,
        lambda p, a: torch.nn.functional.embedding(a, p["weight"]),
        uncertain=False,
        agrees=slice(2, None),
    ),
]
