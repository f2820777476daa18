"""Small trainings, and how to compare what comes of them."""

from __future__ import annotations

import torch

from torchnpn import likelihoods, nn
from torchnpn.training import Recipe, train

ROWS, FEATURES = 48, 4


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def data(rows=ROWS, seed=0):
    x = torch.randn(rows, FEATURES, generator=seeded(seed))
    noise = 0.1 * torch.randn(rows, 1, generator=seeded(seed + 1))
    return x, torch.sin(x.sum(-1, keepdim=True)) + noise


def network(**arguments):
    return nn.mlp([FEATURES, 8, 1], generator=seeded(), **arguments)


def run(data_=None, net=None, likelihood=None, prior=None, validation=None, **settings):
    """Train; returns the network, its likelihood and the history."""
    net = network(dropout=0.2) if net is None else net
    likelihood = likelihoods.GaussianNoise() if likelihood is None else likelihood
    settings = {"epochs": 3, "batch_size": 16, "learning_rate": 1e-2, **settings}
    more = {name: settings.pop(name) for name in ("checkpoint", "callback", "device") if name in settings}
    history = train(
        net, data() if data_ is None else data_, likelihood, prior, Recipe(**settings), validation=validation, **more
    )
    return net, likelihood, history


def weights(result):
    net, likelihood, _ = result
    return {**net.state_dict(), **{f"likelihood.{k}": v for k, v in likelihood.state_dict().items()}}


def same(a, b):
    a, b = weights(a), weights(b)
    assert a.keys() == b.keys()
    return all(torch.equal(a[name], b[name]) for name in a)


def close(a, b, rtol=1e-4, atol=1e-6):
    a, b = weights(a), weights(b)
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=rtol, atol=atol)
