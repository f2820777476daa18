"""Small networks and data for training steps on a device."""

from __future__ import annotations

import os

import torch

from torchnpn import nn
from torchnpn.moments import Moments
from torchnpn.training import Recipe
from torchnpn.training.chain import why_not_triton
from torchnpn.training.data import Rows

ROWS, FEATURES, OUTPUTS = 21, 5, 3  # batches of 8: the last has five rows


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=seeded(seed))


def network(replicas=(), hidden=(7, 6), activation="relu", dropout=0.0, posterior="mean_field", noise=False):
    sizes, common = [FEATURES, *hidden, OUTPUTS], {"posterior": posterior, "replicas": replicas}
    net = nn.mlp(sizes, "gaussian", activation, dropout, **common, generator=seeded())
    if not noise:
        return net
    head = nn.MeanAndNoise(hidden[-1], OUTPUTS, **common, generator=seeded(1))
    return nn.Sequential(*net[:-1], head)


def dataset(kind="labels", variance=False, weight=False):
    x = normal(ROWS, FEATURES)
    y = torch.randint(OUTPUTS, (ROWS,), generator=seeded(1)) if kind != "amounts" else normal(ROWS, OUTPUTS, seed=1)
    x = Moments(x, normal(ROWS, FEATURES, seed=2).square()) if variance else x
    return (x, y, torch.rand(ROWS, generator=seeded(3))) if weight else (x, y)


def recipe(**settings):
    return Recipe(**{"epochs": 2, "batch_size": 8, "learning_rate": 1e-2, "precision": "float32", **settings})


def reason(net=None, data=None, prior=None, **settings):
    """Why no fused step applies, or None."""
    rows = Rows(*(dataset() if data is None else data))
    on_device = "TRITON_INTERPRET" in os.environ
    return why_not_triton(network() if net is None else net, rows, prior, recipe(**settings), on_device)
