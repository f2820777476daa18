"""The training loop: repeatable to the bit, for any data it promises to take, and clear about what it does not."""

from __future__ import annotations

import copy
import functools
import math

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.datasets import load_diabetes
from support.trainings import FEATURES, ROWS, close, data, network, run, same, seeded
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from torchnpn import likelihoods, nn, priors, training
from torchnpn.moments import Moments
from torchnpn.training import Recipe, train

# Repeatable ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [None, priors.EmpiricalBayes()], ids=["no prior", "prior"])
def test_one_seed_one_result(prior):
    assert same(run(prior=prior), run(prior=prior))
    assert not same(run(prior=prior), run(prior=prior, seed=1))


def test_every_epoch_has_its_own_order_of_rows():
    orders = []

    class Watched(likelihoods.GaussianNoise):
        def loss(self, o, y):
            orders.append(y[:, 0].tolist())
            return super().loss(o, y)

    run(likelihood=Watched(), batch_size=ROWS)
    assert len(orders) == 3
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(orders[2]) == sorted(data()[1][:, 0].tolist())
    assert len({tuple(order) for order in orders}) == 3


def test_the_global_random_state_has_no_part_in_it():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = run()
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(6)
    assert same(first, run())


def test_history_is_that_of_the_run():
    seen = []
    net, likelihood, history = run(
        prior=priors.IsotropicGaussian(), callback=lambda h: seen.append(h.last), validation=data(seed=7)
    )
    assert seen == history.epochs
    assert [epoch.number for epoch in history.epochs] == [1, 2, 3]
    assert history.last is history.epochs[-1]
    assert all(math.isfinite(e.loss) and e.kl > 0 and e.seconds > 0 for e in history.epochs)
    assert history.best_epoch == 1 + int(np.argmin([e.validation for e in history.epochs]))
    assert training.History.from_dict(history.to_dict()) == history
    assert not net.training
    with torch.no_grad():
        x, y = data(seed=7)
        best = likelihood.loss(net(x), y).mean().item()
    np.testing.assert_allclose(best, min(e.validation for e in history.epochs), rtol=1e-5)


def test_the_objective_is_the_one_documented():
    """One step of plain gradient descent on all rows: mean loss + (β/N) KL, rebuilt here."""
    x, y = data()
    prior, beta, rate = priors.IsotropicGaussian(2.0), 0.3, 0.1
    net, likelihood = network(), likelihoods.GaussianNoise()
    twin, twin_likelihood = copy.deepcopy(net), copy.deepcopy(likelihood)
    history = train(
        net,
        (x, y),
        likelihood,
        prior,
        Recipe(1, ROWS, rate, torch.optim.SGD, scheduler=None, kl_weight=training.constant(beta)),
    )
    loss, kl = twin_likelihood.loss(twin(x), y).mean(), priors.kl(twin, prior) / ROWS
    (loss + beta * kl).backward()
    np.testing.assert_allclose(history.last.loss, loss.item(), rtol=1e-5)
    np.testing.assert_allclose(history.last.kl, priors.kl(net, prior).item() / ROWS, rtol=1e-5)  # at the end
    assert history.last.kl_weight == beta
    for module, plain in ((net, twin), (likelihood, twin_likelihood)):
        for p, q in zip(module.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(p, q - rate * q.grad, rtol=1e-5, atol=1e-7)


# Data ----------------------------------------------------------------------------------------------------------


def test_arrays_tensors_and_lists_are_one():
    x, y = data()
    want = run((x, y))
    for same_data in (
        (x.numpy(), y.numpy()),
        [x, y],
        (x.double().numpy(), y.double().numpy()),
        (x.tolist(), y.tolist()),
        (x, y, torch.ones(ROWS)),
        (Moments(x), y),
    ):
        close(run(same_data), want)


def test_double_precision_stays_double():
    x, y = data()
    net, _, history = run((x.double(), y.double()), net=network().double(), likelihood=likelihoods.GaussianNoise())
    assert net[0].weight.mean.dtype == torch.float64
    assert math.isfinite(history.last.loss)
    run((x.numpy(), y.numpy()), net=network().double())


def test_input_variances_are_used():
    x, y = data()
    noisy = run((Moments(x, torch.full_like(x, 0.5)), y), net=network())
    arrays = run((Moments(x.numpy(), np.full(x.shape, 0.5)), y.numpy()), net=network())
    same_noise = run((x, y), net=nn.Sequential(nn.InputNoise(0.5), *network()))
    assert not same(noisy, run((x, y), net=network()))
    close(noisy, arrays)
    for a, b in zip(noisy[0].parameters(), same_noise[0].parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_sparse_rows():
    x, y = data()
    x = torch.relu(x - 0.5)
    net = network()
    dense = run((x, y), net=copy.deepcopy(net), validation=(x, y))
    for matrix in (scipy.sparse.csr_matrix(x.numpy()), scipy.sparse.coo_array(x.numpy())):
        close(run((matrix, y), net=copy.deepcopy(net), validation=(matrix, y)), dense)


def test_a_data_loader():
    x, y = data()
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
    first = run(loader, validation=loader)
    assert same(first, run(loader, validation=loader))
    ordered = DataLoader(TensorDataset(x, y, torch.ones(ROWS)), batch_size=ROWS)
    close(run(ordered, net=network()), run((x, y), net=network(), batch_size=ROWS), rtol=1e-3, atol=1e-5)


def test_a_data_loader_of_moments():
    x, y = data()
    rows = [(Moments(a, torch.full_like(a, 0.5)), b) for a, b in zip(x, y, strict=True)]
    got = run(DataLoader(rows, batch_size=ROWS), net=network())
    want = run((Moments(x, torch.full_like(x, 0.5)), y), net=network(), batch_size=ROWS)
    close(got, want, rtol=1e-3, atol=1e-5)


def test_a_row_of_weight_two_is_the_row_twice():
    x, y = data()
    weight = torch.ones(ROWS)
    weight[:10] = 2.0
    weight[-5:] = 0.0
    twice = torch.cat([x[:-5], x[:10]]), torch.cat([y[:-5], y[:10]])
    settings = {"batch_size": 1000, "prior": priors.IsotropicGaussian(), "optimizer": torch.optim.SGD}
    weighted = run((x, y, weight), net=network(), **settings)
    doubled = run(twice, net=network(), **settings)
    close(weighted, doubled, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(weighted[2].last.loss, doubled[2].last.loss, rtol=1e-5)
    np.testing.assert_allclose(weighted[2].last.kl, doubled[2].last.kl, rtol=1e-5)


def test_the_last_batch_may_be_small():
    _, _, history = run(data(rows=17))
    assert math.isfinite(history.last.loss)
    run(data(rows=1), epochs=1)


# Settings ------------------------------------------------------------------------------------------------------


def test_early_stopping_keeps_the_best_weights():
    """A learning rate so large that the validation loss soon rises."""
    x, y = data()
    kept = {}

    def keep(history):
        kept[history.last.number] = copy.deepcopy(net.state_dict())

    net = nn.mlp([FEATURES, 32, 1], generator=seeded())
    _, _, history = run(
        (x, y), net=net, epochs=60, learning_rate=0.1, patience=4, validation=data(30, seed=9), callback=keep
    )
    assert history.stopped_early
    assert len(history.epochs) == history.best_epoch + 4 < 60
    assert all(torch.equal(value, kept[history.best_epoch][name]) for name, value in net.state_dict().items())


def test_patience_needs_validation_data():
    with pytest.raises(ValueError, match="needs validation data"):
        run(patience=3)


def test_clip_norm_bounds_each_step():
    """Plain gradient descent moves no further than rate · norm in a step."""
    net = network()
    start = torch.nn.utils.parameters_to_vector(net.parameters()).detach()
    settings = {"epochs": 1, "batch_size": ROWS, "optimizer": torch.optim.SGD, "scheduler": None, "learning_rate": 1.0}
    run(net=net, clip_norm=1e-3, **settings)
    moved = torch.nn.utils.parameters_to_vector(net.parameters()).detach() - start
    assert 0 < moved.norm() <= 1.01e-3


@pytest.mark.parametrize(
    "optimizer",
    [
        torch.optim.SGD,
        functools.partial(torch.optim.SGD, momentum=0.9),
        torch.optim.AdamW,
        torch.optim.RMSprop,
        torch.optim.NAdam,
        training.adam,
        lambda parameters, lr: torch.optim.Adam(parameters, lr, foreach=True),
    ],
)
@pytest.mark.parametrize(
    "scheduler",
    [
        None,
        training.cosine,
        lambda o, steps: torch.optim.lr_scheduler.OneCycleLR(o, 0.01, total_steps=steps + 1),
        lambda o, steps: torch.optim.lr_scheduler.LinearLR(o, total_iters=steps),
    ],
)
def test_any_optimizer_and_scheduler(optimizer, scheduler):
    _, _, history = run(epochs=4, optimizer=optimizer, scheduler=scheduler)
    assert history.last.loss < history.epochs[0].loss


def test_cosine_ends_at_zero():
    rates = []

    def watched(parameters, lr):
        rates.append(optimizer := training.adam(parameters, lr))
        return optimizer

    run(optimizer=watched)
    assert rates[0].param_groups[0]["lr"] == pytest.approx(0.0, abs=1e-8)


def test_ramps():
    assert training.constant(0.3)(0.0) == training.constant(0.3)(1.0) == 0.3
    linear, geometric = training.linear_ramp(2.0, 0.5), training.geometric_ramp(0.01, 1.0, 0.8)
    assert [linear(p) for p in (0, 0.25, 0.5, 1)] == [0, 1, 2, 2]
    np.testing.assert_allclose([geometric(p) for p in (0, 0.4, 0.8, 1)], [0.01, 0.1, 1, 1])
    betas = []
    run(kl_weight=lambda p: betas.append(p) or 0.0, prior=priors.IsotropicGaussian())
    np.testing.assert_allclose(betas, np.arange(9) / 9)  # three epochs of three steps


def test_frozen_parameters_stay():
    net = network()
    net[0].weight.mean.requires_grad_(False)
    before = net[0].weight.mean.clone()
    run(net=net)
    assert torch.equal(net[0].weight.mean, before)


def test_replicas_train_as_networks_apart():
    """One batch of all rows, so that each sees the same; Adam's steps are element by element."""
    together = network(replicas=(3,))
    settings = {"batch_size": ROWS, "epochs": 5, "prior": priors.EmpiricalBayes()}
    starts = [{name: value[k] for name, value in copy.deepcopy(together.state_dict()).items()} for k in range(3)]
    net, likelihood, history = run(net=together, likelihood=likelihoods.GaussianNoise(replicas=(3,)), **settings)
    assert math.isfinite(history.last.loss)
    losses = []
    for k, start in enumerate(starts):
        one = network()
        one.load_state_dict(start)
        alone = run(net=one, **settings)
        losses.append(alone[2].last.loss)
        for name, value in one.state_dict().items():
            torch.testing.assert_close(net.state_dict()[name][k], value, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(likelihood.log_noise[k], alone[1].log_noise, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(history.last.loss, np.mean(losses), rtol=1e-4)


def test_a_real_task():
    """Diabetes progression, standardised: better than the mean, with a noise that is neither zero nor everything."""
    x, y = load_diabetes(return_X_y=True)
    x, y = (x - x.mean(0)) / x.std(0), ((y - y.mean()) / y.std())[:, None]
    net = nn.mlp([10, 16, 1], generator=seeded())
    _, likelihood, history = run(
        (x[:300], y[:300]),
        net=net,
        prior=priors.EmpiricalBayes(),
        validation=(x[300:], y[300:]),
        epochs=30,
        batch_size=32,
    )
    best = min(epoch.validation for epoch in history.epochs)
    assert best < 1.3  # reached: 1.23; a constant has 1.41
    assert 0.1 < likelihood.noise.item() < 0.8


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # torch's own, while it traces
@pytest.mark.slow
def test_compiled_training_gives_the_same():
    torch.compiler.reset()
    compiled = run(net=network(), compile=True, validation=data(seed=7))
    close(compiled, run(net=network(), validation=data(seed=7)), rtol=1e-3, atol=1e-5)


# What goes wrong -----------------------------------------------------------------------------------------------


class NaNs(torch.optim.SGD):
    """Breaks the weights in its first step, after their last loss."""

    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            p.data.fill_(torch.nan)


def test_divergence_is_named():
    with pytest.raises(training.TrainingDiverged, match=r"loss is not finite in epoch \d+ of 30.*now 1e\+30"):
        run(epochs=30, learning_rate=1e30, scheduler=None, optimizer=torch.optim.SGD)
    with pytest.raises(training.TrainingDiverged, match="weights are not finite in epoch 1 of 1"):
        run(epochs=1, batch_size=ROWS, optimizer=NaNs)
    assert issubclass(training.TrainingDiverged, FloatingPointError)


def test_bad_targets():
    x, y = data()
    bad = y.clone()
    bad[3] = torch.nan
    for arguments in ({"data_": (x, bad)}, {"validation": (x, bad)}):
        with pytest.raises(ValueError, match=r"GaussianNoise expects finite targets.*Drop rows without a target"):
            run(**arguments)
    with pytest.raises(ValueError, match=r"write y\[:, None\]"):
        run((x, y[:, 0]))
    with pytest.raises(ValueError, match="expects 2 outputs for 2 targets"):
        run((x, y.expand(-1, 2)))
    with pytest.raises(ValueError, match="expects targets > 0"):
        run((x, y), likelihood=likelihoods.GammaAmounts())
    with pytest.raises(ValueError, match="expects targets that are counts"):
        run((x, y.abs() + 0.1), likelihood=likelihoods.PoissonCounts())


def test_bad_data():
    x, y = data()
    with pytest.raises(ValueError, match="47 rows and 48 targets"):
        run((x[:-1], y))
    with pytest.raises(ValueError, match="at least one row"):
        run((x[:0], y[:0]))
    with pytest.raises(ValueError, match="same number of in features"):
        run((x[:, :3], y))
    for value in (torch.inf, torch.nan):
        bad = x.clone()
        bad[0, 0] = value
        for inputs in (bad, Moments(x, bad), scipy.sparse.csr_matrix(bad.numpy())):
            with pytest.raises(ValueError, match="finite inputs, got 1 that are NaN or infinite"):
                run((inputs, y))
    with pytest.raises(ValueError, match="variances ≥ 0"):
        run((Moments(x, -torch.ones_like(x)), y))
    with pytest.raises(TypeError, match=r"data as \(x, y\).*got Tensor"):
        run(x)
    with pytest.raises(TypeError, match=r"data as \(x, y\).*got Moments"):
        run(Moments(x, x**2))


def test_bad_weights():
    x, y = data()
    with pytest.raises(ValueError, match=r"weights of shape \(48,\), one for each row, got \(47,\)"):
        run((x, y, torch.ones(47)))
    for weight in (-torch.ones(ROWS), torch.zeros(ROWS), torch.full((ROWS,), torch.nan)):
        with pytest.raises(ValueError, match="finite, ≥ 0 and not all zero"):
            run((x, y, weight))


def test_bad_loaders():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(zip(*data(), strict=True))

    for loader in (DataLoader(Stream()), DataLoader(TensorDataset(*data(5)), batch_size=8, drop_last=True)):
        with pytest.raises(ValueError, match="DataLoader that knows its rows"):
            run(loader)
