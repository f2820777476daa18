"""Replicas that are each trained on rows of their own."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from torchnpn import likelihoods, nn, priors
from torchnpn.nn.replicas import member
from torchnpn.training import Recipe, train
from torchnpn.training.data import Rows
from torchnpn.training.epoch import DevicePlan

ROWS, FEATURES, REPLICAS, KEPT = 30, 3, 2, 7
SUBSETS = torch.stack(
    [torch.randperm(ROWS, generator=torch.Generator().manual_seed(k))[:KEPT] for k in range(REPLICAS)]
)


def dataset():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, FEATURES, generator=generator)
    return x, x.sum(-1, keepdim=True) + torch.randn(ROWS, 1, generator=generator)


def network():
    return nn.mlp([FEATURES, 5, 1], replicas=(REPLICAS,), generator=torch.Generator().manual_seed(1))


def run(net, data, subsets=None, noise=None, **settings):
    recipe = Recipe(**{"epochs": 5, "batch_size": KEPT, "learning_rate": 1e-2, **settings})
    noise = likelihoods.GaussianNoise(1, replicas=net[0].replicas) if noise is None else noise
    return train(net, data, noise, priors.IsotropicGaussian(1.0), recipe, subsets=subsets, device="cpu")


def test_a_replica_learns_what_a_network_learns_from_its_rows_alone():
    """One batch an epoch, so that the order of rows does not matter; N of the KL is that of the subset."""
    net = network()
    alone = [member(net, k) for k in range(REPLICAS)]
    run(net, dataset(), SUBSETS)
    for k, other in enumerate(alone):
        x, y = dataset()
        run(other, (x[SUBSETS[k]], y[SUBSETS[k]]))
        for mine, theirs in zip(member(net, k).parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_each_row_of_a_subset_comes_once_an_epoch():
    plan = DevicePlan(Rows(*dataset()).restricted(SUBSETS), Recipe(batch_size=3), REPLICAS)
    plan.begin(0)
    for order, share, rows in zip(plan.order, plan.share, SUBSETS, strict=True):
        assert sorted(order[:KEPT].tolist()) == sorted(rows.tolist())
        assert (share[:KEPT] > 0).all() and (share[KEPT:] == 0).all()


@pytest.mark.parametrize(
    ("subsets", "message"),
    [
        (SUBSETS[0], r"row numbers \(replicas, n\), got torch.int64 of shape \(7,\)"),
        (SUBSETS.double(), "got torch.float64"),
        (SUBSETS + ROWS, "from 0 to 29"),
        (SUBSETS - ROWS, "from 0 to 29"),
        (SUBSETS[:1], "rows for each of 2 replicas, got 1"),
    ],
)
def test_other_subsets_are_refused(subsets, message):
    with pytest.raises(ValueError, match=message):
        run(network(), dataset(), subsets)


def test_subsets_need_rows_in_memory():
    with pytest.raises(ValueError, match="not a DataLoader"):
        run(network(), DataLoader(TensorDataset(*dataset()), batch_size=4), SUBSETS)


def test_rows_of_a_subset_keep_their_weights():
    """A weight of zero is a row that is not there, in a subset as in all rows."""
    (x, y), weight = dataset(), torch.ones(ROWS)
    alone = [next(row for row in SUBSETS[k].tolist() if row not in SUBSETS[1 - k]) for k in range(REPLICAS)]
    weight[alone] = 0.0
    without = torch.stack([SUBSETS[k][SUBSETS[k] != alone[k]] for k in range(REPLICAS)])
    weighted, fewer = network(), network()
    run(weighted, (x, y, weight), SUBSETS, batch_size=KEPT)
    run(fewer, (x, y), without, batch_size=KEPT)
    for ours, theirs in zip(weighted.parameters(), fewer.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
