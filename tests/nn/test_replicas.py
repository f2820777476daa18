"""Replicas trained at once: an order of rows, a learning rate and a schedule for each."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse
import torch

from torchnpn import likelihoods, nn, priors
from torchnpn.nn.replicas import count_replicas
from torchnpn.training import Recipe, TrainingDiverged, constant, linear_ramp, train
from torchnpn.training.data import Rows
from torchnpn.training.engine import device_engine
from torchnpn.training.epoch import DevicePlan, schedule

ROWS, FEATURES = 21, 4


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def dataset():
    x = torch.randn(ROWS, FEATURES, generator=seeded())
    return x, x.sum(-1, keepdim=True) + torch.randn(ROWS, 1, generator=seeded(1))


def network(*replicas, **settings):
    return nn.mlp([FEATURES, 6, 1], replicas=replicas, generator=seeded(), **settings)


def recipe(**settings):
    return Recipe(**{"epochs": 2, "batch_size": 8, "learning_rate": 1e-2, **settings})


def run(net, noise=None, *, data=None, prior=None, checkpoint=None, callback=None, **settings):
    noise = likelihoods.GaussianNoise(1, replicas=net[0].replicas) if noise is None else noise
    rows = dataset() if data is None else data
    return train(net, rows, noise, prior, recipe(**settings), checkpoint=checkpoint, callback=callback, device="cpu")


# The order of rows ---------------------------------------------------------------------------------------------------


def plan(replicas=3, weight=None, **settings):
    return DevicePlan(Rows(*dataset(), weight), recipe(**settings), replicas)


def test_each_row_comes_once_an_epoch_for_each_replica():
    epochs = plan()
    for number in range(3):
        epochs.begin(number)
        for order in epochs.order:
            assert sorted(order[:ROWS].tolist()) == list(range(ROWS))
        assert (epochs.share[:, ROWS:] == 0).all()


def test_replicas_and_epochs_have_orders_of_their_own_that_the_seed_repeats():
    orders = {}
    for seed in (0, 1):
        for number in (0, 1):
            first, again = plan(seed=seed), plan(seed=seed)
            first.begin(number)
            again.begin(1 - number)
            again.begin(number)  # whatever went before
            assert torch.equal(first.order, again.order)
            orders.update({(seed, number, k): tuple(order.tolist()) for k, order in enumerate(first.order)})
    assert len(set(orders.values())) == len(orders) == 12


@pytest.mark.parametrize("weight", [None, torch.linspace(0, 2, ROWS)], ids=["none", "weights"])
def test_shares_are_the_weights_within_a_batch(weight):
    epoch = plan(weight=weight)
    epoch.begin(0)
    known = torch.ones(ROWS) if weight is None else weight
    for k in range(3):
        for step, rows in enumerate(epoch.order[k, :ROWS].split(8)):
            share = epoch.share[k, 8 * step : 8 * step + len(rows)]
            torch.testing.assert_close(share, known[rows] / known[rows].sum())
            assert epoch.weights[k, step, 0] == pytest.approx(float(known[rows].sum()))


def test_a_step_finds_its_rows_by_the_cursor():
    epoch = plan(replicas=2)
    epoch.begin(0)
    x, y = dataset()
    for step in range(epoch.steps):
        batch, shares = epoch.next()
        rows = epoch.order[:, 8 * step : 8 * step + 8]
        assert torch.equal(batch.x, x[rows])
        assert torch.equal(batch.y, y[rows])
        assert torch.equal(shares, epoch.share[:, 8 * step : 8 * step + 8])
        assert torch.equal(epoch.now(), epoch.schedule[step])
        epoch.note(shares * (step + 1))
    by_hand = (8 * 1 + 8 * 2 + 5 * 3) / ROWS  # the mean over rows of what was noted for each
    assert epoch.loss() == pytest.approx(by_hand)


def test_a_batch_larger_than_the_data_is_all_of_it():
    epoch = plan(batch_size=1000)
    epoch.begin(0)
    assert (epoch.steps, epoch.batch) == (1, ROWS)


# The schedule --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rates", [0.01, [0.1, 0.01, 0.001]], ids=["one rate", "one a replica"])
@pytest.mark.parametrize("falls", [True, False])
def test_the_schedule_is_that_of_torch(rates, falls):
    settings = {} if falls else {"scheduler": None}
    rules = recipe(epochs=3, learning_rate=rates, kl_weight=linear_ramp(0.7, until=0.5), **settings)
    got = np.concatenate([schedule(rules, number, 4, 21.0, 3) for number in range(3)])  # (12, 3, 3)
    for k, rate in enumerate(np.broadcast_to(rates, 3)):
        optimizer = torch.optim.SGD([torch.zeros(1)], float(rate))
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12)
        for t in range(12):
            now = scheduler.get_last_lr()[0] if falls else rate
            want = now / (1 - 0.9 ** (t + 1)), 1 / math.sqrt(1 - 0.99 ** (t + 1)), 0.7 * min(t / 6, 1) / 21
            np.testing.assert_allclose(got[t, k], want, rtol=1e-6)
            optimizer.step()
            scheduler.step()


def test_replicas_may_have_kl_weights_of_their_own():
    rules = recipe(kl_weight=lambda progress: np.array([0.1, 1.0]) * (1 + progress))
    np.testing.assert_allclose(schedule(rules, 1, 2, 10.0, 2)[:, :, 2], [[0.015, 0.15], [0.0175, 0.175]], rtol=1e-6)


# Rates of their own, by `train` --------------------------------------------------------------------------------------


def test_a_replica_whose_rate_is_nearly_zero_stays_where_it_was():
    net, start = network(3), network(3)
    run(net, learning_rate=[1e-2, 1e-12, 1e-3], prior=priors.EmpiricalBayes())
    for name, parameter in net.named_parameters():
        moved = (parameter - dict(start.named_parameters())[name]).abs().flatten(1).amax(1)
        assert moved[0] > 1e-3
        assert moved[1] <= 1e-9
        assert 1e-4 < moved[2] < moved[0]


def test_equal_rates_are_one_rate():
    trained = []
    for rates in ([1e-2, 1e-2], np.array([1e-2, 1e-2])):
        net = network(2)
        run(net, learning_rate=rates)
        trained.append(net)
    alone = network(2)
    training = device_engine(alone, dataset(), likelihoods.GaussianNoise(1, replicas=(2,)), None, recipe(), fused=False)
    for number in range(2):
        training.epoch(number)
    for a, b, c in zip(*(net.parameters() for net in (*trained, alone)), strict=True):
        assert torch.equal(a, b)
        torch.testing.assert_close(a, c)


def test_training_with_rates_lowers_the_loss_and_records_it():
    history = run(network(2), epochs=30, learning_rate=[1e-2, 3e-2], kl_weight=constant(0.1))
    assert [epoch.number for epoch in history.epochs] == list(range(1, 31))
    assert history.last.loss < 0.7 * history.epochs[0].loss


def test_a_training_with_rates_goes_on_where_it_was(tmp_path, monkeypatch):
    class Stop(Exception):
        pass

    def stop(history):
        if len(history.epochs) == 3:
            raise Stop

    monkeypatch.setattr("torchnpn.training.checkpoint.SECONDS", -1.0)
    settings = {"epochs": 5, "learning_rate": [1e-2, 1e-3], "prior": priors.EmpiricalBayes()}
    path, noises = tmp_path / "run.ckpt", [likelihoods.GaussianNoise(1, replicas=(2,)) for _ in range(3)]
    want, broken, got = (network(2, dropout=0.2) for _ in range(3))
    whole = run(want, noises[0], **settings)
    with pytest.raises(Stop):
        run(broken, noises[1], checkpoint=path, callback=stop, **settings)
    resumed = run(got, noises[2], checkpoint=path, **settings)
    assert [epoch.loss for epoch in resumed.epochs] == [epoch.loss for epoch in whole.epochs]
    for a, b in zip(
        (*want.parameters(), *noises[0].parameters()), (*got.parameters(), *noises[2].parameters()), strict=True
    ):
        assert torch.equal(a, b)


def test_a_checkpoint_belongs_to_its_rates(tmp_path):
    path = tmp_path / "run.ckpt"
    run(network(2), checkpoint=path, learning_rate=[1e-2, 1e-3])
    with pytest.raises(ValueError, match="belongs to another training"):
        run(network(2), checkpoint=path, learning_rate=[1e-1, 1e-3])


@pytest.mark.parametrize(("replicas", "rates"), [((2,), 3), ((), 2), ((3,), 2)])
def test_a_wrong_number_of_rates_is_refused(replicas, rates):
    with pytest.raises(
        ValueError, match=rf"or {math.prod(replicas)}, one for each replica of the network, got {rates}"
    ):
        run(network(*replicas), learning_rate=[1e-2] * rates)


def test_a_training_with_rates_that_diverges_says_so():
    x, y = dataset()
    with pytest.raises(TrainingDiverged, match="smaller learning rate"):
        run(network(2), data=(1e18 * x, y), learning_rate=[1e30, 1e30])


def test_rates_that_cannot_be_had_are_refused():
    with pytest.raises(ValueError, match="one learning rate for each replica needs the default optimizer"):
        run(network(2), learning_rate=[1e-2, 1e-3], optimizer=torch.optim.SGD)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*dataset()), batch_size=8)
    with pytest.raises(ValueError, match="needs data in memory"):
        run(network(2), data=loader, learning_rate=[1e-2, 1e-3])
    with pytest.raises(ValueError, match="learning_rate > 0"):
        recipe(learning_rate=[1e-2, 0.0])


def test_rates_with_sparse_inputs():
    x, y = dataset()
    run(network(2), data=(scipy.sparse.csr_matrix(x.numpy()), y), learning_rate=[1e-2, 1e-3])


# What a device must train as the host does ---------------------------------------------------------------------------


def device_loss(net, likelihood):
    """The first epoch's loss of a training by autograd on a device."""
    return device_engine(net, dataset(), likelihood, None, recipe(), fused=False).epoch(0)[0]


def test_replicas_lie_along_one_dimension():
    assert count_replicas(network()) == 1
    assert count_replicas(network(3)) == 3
    assert count_replicas(torch.nn.Linear(2, 2)) == 1
    with pytest.raises(ValueError, match="more than one leading dimension"):
        device_loss(network(2, 2), likelihoods.SquaredError())


def test_replicas_that_share_a_likelihood_are_refused():
    """Its numbers would have as many schedules as there are replicas."""
    with pytest.raises(ValueError, match="replicas share some parameters"):
        device_loss(network(2), likelihoods.GaussianNoise(1))


def test_networks_of_float64_train():
    x, y = (t.double() for t in dataset())
    net, noise = network().double(), likelihoods.GaussianNoise(1).double()
    rows = Rows(x, y, dtype=torch.float64)
    assert math.isfinite(device_engine(net, rows, noise, None, recipe(), fused=False).epoch(0)[0])
