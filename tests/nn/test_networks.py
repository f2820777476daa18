"""Whole networks: against torch's where nothing is random, against sampling where all is, and at work on real data."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import train_test_split
from support import monte_carlo, network_bounds

from torchnpn import families, kernels, likelihoods, nn, priors, training
from torchnpn.moments import Moments

ROOT = Path(__file__).parents[2]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


# Nothing random ------------------------------------------------------------------------------------------------

TORCH = {
    "relu": torch.nn.ReLU(),
    "leaky_relu": torch.nn.LeakyReLU(0.01),
    "relu6": torch.nn.ReLU6(),
    "hardtanh": torch.nn.Hardtanh(),
    "sigmoid": torch.nn.Sigmoid(),
    "tanh": torch.nn.Tanh(),
    "elu": torch.nn.ELU(),
    "selu": torch.nn.SELU(),
    "gelu": torch.nn.GELU(),
    "silu": torch.nn.SiLU(),
    "softplus": torch.nn.Softplus(),
}


def torch_network(sizes, activation):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = []
        for n_in, n_out in itertools.pairwise(sizes):
            layers += [torch.nn.Linear(n_in, n_out), activation]
    return torch.nn.Sequential(*layers[:-1])


def load_means(net, plain):
    """torch's weights as means: `weight` is our `weight.mean`, `bias` our `bias.mean`."""
    result = net.load_state_dict({f"{name}.mean": value for name, value in plain.state_dict().items()}, strict=False)
    assert not result.unexpected_keys
    assert all(name.endswith("log_std") for name in result.missing_keys)


@pytest.mark.parametrize("tiny", [True, False], ids=["tiny variances", "zero variances"])
@pytest.mark.parametrize("activation", TORCH)
def test_without_variance_a_network_is_torchs(activation, tiny):
    sizes = [6, 16, 16, 3]
    plain = torch_network(sizes, TORCH[activation])
    net = nn.mlp(sizes, activation=activation)
    load_means(net, plain)
    with torch.no_grad():
        for name, p in net.named_parameters():
            if name.endswith("log_std"):
                p.fill_(-40.0 if tiny else -torch.inf)
    x = torch.randn(20, 6, generator=seeded(1), requires_grad=True)
    y = torch.randn(20, 6, generator=seeded(1), requires_grad=True)
    o, want = net(x), plain(y)
    torch.testing.assert_close(o.mean, want, rtol=2e-5, atol=2e-6)
    assert o.variance.max() < 1e-12
    if not tiny:
        assert o.variance.max() < 1e-30  # ELU and SELU come from a quadrature with a least spread
    (o.mean.sin().sum() + o.variance.sum()).backward()
    want.sin().sum().backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-5)
    ours = dict(net.named_parameters())
    for name, p in plain.named_parameters():
        torch.testing.assert_close(ours[f"{name}.mean"].grad, p.grad, rtol=1e-4, atol=1e-5)
    assert all(p.grad.isfinite().all() for p in net.parameters())


def test_point_weights_give_torchs_network():
    """Weights known exactly, as `Moments` without a variance, need no variance at all."""
    plain = torch_network([6, 16, 3], torch.nn.ReLU())
    o = torch.randn(20, 6, generator=seeded(1))
    want, o = plain(o), Moments(o)
    for module in plain:
        if isinstance(module, torch.nn.Linear):
            o = kernels.linear(o, Moments(module.weight), Moments(module.bias))
        else:
            o = nn.ReLU()(o)
    assert o.variance is None
    torch.testing.assert_close(o.mean, want)


@pytest.mark.parametrize("family", ["gamma", "beta"])
def test_other_families_without_variance(family):
    """1 - exp(-x) and √x of plain sums."""
    net = nn.mlp([6, 16, 3], family, generator=seeded())
    with torch.no_grad():
        for name, p in net.named_parameters():
            if name.endswith(("log_cv", "logit_spread")):
                p.fill_(-40.0)
        x = torch.rand(20, 6, generator=seeded(1))
        a, averages = x, family == "beta"
        for layer in (net[0], net[2]):
            W = layer.weight.moments.mean
            o = a @ (W / W.sum(-1, keepdim=True) if averages else W).T
            o = o if averages else o + layer.bias.moments.mean
            a = o.sqrt() if averages else 1 - torch.exp(-o)
        got = net(x)
    torch.testing.assert_close(got.mean, o, rtol=1e-5, atol=1e-6)
    assert got.variance.max() < 1e-6  # a family's own least spread: 1e-7 relative to the mean


# Everything random ---------------------------------------------------------------------------------------------


def test_one_hidden_relu_layer_is_exact():
    """A point as input, Gaussian weights: hidden units are independent and Gaussian before ReLU; nothing is lost."""
    net = nn.mlp([3, 8, 2], generator=seeded())
    with torch.no_grad():
        for name, p in net.named_parameters():
            if name.endswith("log_std"):
                p.add_(1.5)  # variances that matter: std 0.45/√fan-in
    x, count = torch.randn(2, 3, generator=seeded(1)), 1_000_000
    o = net(x)
    mean, variance, fourth = monte_carlo.moments(net, "gaussian", (x.numpy(), None), count)
    assert (np.abs(o.mean.detach().numpy() - mean) < 5 * np.sqrt(variance / count)).all()
    assert (np.abs(o.variance.detach().numpy() - variance) < 5 * np.sqrt((fourth - variance**2) / count)).all()


def test_a_linear_layer_of_random_inputs_is_exact():
    net = nn.mlp([3, 2], generator=seeded())
    x, count = torch.randn(2, 3, generator=seeded(1)), 300_000
    o = net(Moments(x, torch.full_like(x, 0.49)))
    mean, variance, fourth = monte_carlo.moments(net, "gaussian", (x.numpy(), 0.7), count)
    assert (np.abs(o.mean.detach().numpy() - mean) < 5 * np.sqrt(variance / count)).all()
    assert (np.abs(o.variance.detach().numpy() - variance) < 5 * np.sqrt((fourth - variance**2) / count)).all()


def deviation(row, seed):
    """|mean - sampled|/std and |std/sampled - 1| of every output."""
    net = nn.mlp([8, *[16] * row.hidden, 3], row.family, generator=seeded(seed))
    x = torch.rand(4, 8, generator=seeded(100 + seed))
    std = row.input_std or None
    o = net(x if std is None else Moments(x, torch.full_like(x, std**2)))
    mean, variance, _ = monte_carlo.moments(net, row.family, (x.numpy(), std), row.samples)
    scale = np.sqrt(variance)
    return np.abs(o.mean.detach().numpy() - mean) / scale, np.abs(o.std.detach().numpy() / scale - 1)


@pytest.mark.slow
@pytest.mark.parametrize("row", network_bounds.ROWS, ids=lambda row: f"{row.family}-{row.hidden}-{row.input_std:g}")
def test_networks_keep_near_sampling(row):
    means, stds = zip(*(deviation(row, seed) for seed in (0, 1)), strict=True)
    assert np.max(means) <= row.bound.mean
    assert np.max(stds) <= row.bound.std


def test_the_page_quotes_the_bounds():
    page = (ROOT / "docs" / "networks.md").read_text(encoding="utf-8")
    assert network_bounds.table() in page, f"docs/networks.md should hold\n{network_bounds.table()}"


# Replicas ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [True, False], ids=["shared input", "own inputs"])
@pytest.mark.parametrize("family", ["gaussian", "gamma", "poisson", "beta", "rayleigh", "bernoulli"])
def test_replicas_are_networks_apart(family, shared):
    sizes, prior = [5, 6, 2], priors.Quadratic()
    together = nn.mlp(sizes, family, replicas=(3,), generator=seeded())
    x = torch.rand(4, 5, generator=seeded(1)) if shared else torch.rand(3, 4, 5, generator=seeded(1))
    o = together(Moments(x, 0.1 * x))
    assert o.mean.shape == o.variance.shape == (3, 4, 2)
    divergence = priors.kl(together, prior)
    assert divergence.shape == (3,)
    (o.mean.sum() + o.variance.sum() + divergence.sum()).backward()
    for k in range(3):
        one = nn.mlp(sizes, family)
        one.load_state_dict({name: value[k] for name, value in together.state_dict().items()})
        a = x if shared else x[k]
        alone, kl = one(Moments(a, 0.1 * a)), priors.kl(one, prior)
        torch.testing.assert_close((o.mean[k], o.variance[k]), tuple(alone), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(divergence[k], kl)
        (alone.mean.sum() + alone.variance.sum() + kl).backward()
        for p, q in zip(together.parameters(), one.parameters(), strict=True):
            torch.testing.assert_close(p.grad[k], q.grad, rtol=1e-4, atol=1e-5)


# At work -------------------------------------------------------------------------------------------------------


def digits():
    x, y = load_digits(return_X_y=True)
    return train_test_split(x / 16, y, test_size=0.25, random_state=0, stratify=y)


def accuracy(net, likelihood, x, y):
    with torch.no_grad():
        probabilities = likelihood.predict(net(torch.as_tensor(x, dtype=torch.float32))).probs
    return (probabilities.argmax(-1).numpy() == y).mean()


DIGITS = {  # family: learning rate, accuracy asked for; reached: .960, .944, .949, .940, .958
    "gamma": (3e-2, 0.94),
    "poisson": (3e-2, 0.92),
    "rayleigh": (3e-2, 0.93),
    "beta": (1e-1, 0.92),
    "bernoulli": (1e-2, 0.94),
}


@pytest.mark.slow
@pytest.mark.parametrize("family", DIGITS)
def test_every_family_learns_to_read_digits(family):
    """64 units of the family, and an output of either sign; beta weights see the ink and the paper."""
    x, x_test, y, y_test = digits()
    rate, level = DIGITS[family]
    net = nn.mlp([128 if family == "beta" else 64, 64, 10], family, output_family="gaussian", generator=seeded())
    if family == "beta":
        net = nn.Sequential(nn.Complement(), *net)
    likelihood = likelihoods.ScaledSoftmax(10)
    recipe = training.Recipe(epochs=20, batch_size=64, learning_rate=rate)
    training.train(net, (x, y), likelihood, recipe=recipe)
    assert accuracy(net, likelihood, x_test, y_test) >= level


def amounts():
    """Progression of diabetes, a positive amount, from ten measurements scaled to [0, 1]."""
    x, y = load_diabetes(return_X_y=True)
    x = (x - x.min(0)) / (x.max(0) - x.min(0))
    return train_test_split(x, y[:, None] / 100, test_size=0.25, random_state=0)


def counts():
    """How many of 16 points are inked in one block of a digit, from the other 63 blocks."""
    x, _ = load_digits(return_X_y=True)
    return train_test_split(np.delete(x, 36, 1) / 16, x[:, 36:37], test_size=0.25, random_state=0)


def proportions():
    x, x_test, y, y_test = counts()
    return x, x_test, (y + 0.5) / 17, (y_test + 0.5) / 17


def constant_gamma(y):
    shape, _, scale = stats.gamma.fit(y, floc=0)
    return stats.gamma(shape, scale=scale).logpdf


def constant_poisson(y):
    return stats.poisson(y.mean()).logpmf


def constant_negative_binomial(y):
    n = y.mean() ** 2 / (y.var() - y.mean())
    return stats.nbinom(n, n / (n + y.mean())).logpmf


def constant_beta(y):
    c, d, _, _ = stats.beta.fit(y, floc=0, fscale=1)
    return stats.beta(c, d).logpdf


def all_of(sizes, family):
    return nn.Sequential(nn.Complement(), *nn.mlp(sizes, family, generator=seeded()))


class Task(NamedTuple):
    """A network, what it is trained on, and by how many nats it must beat the best constant of the target's family."""

    network: Callable[[], torch.nn.Module]
    likelihood: Callable[[], likelihoods.Likelihood]
    data: Callable[[], tuple]
    constant: Callable
    epochs: int
    rate: float
    better: float
    prior: priors.Prior | None = None


def gaussian(*sizes):
    return lambda: nn.mlp(sizes, generator=seeded())


TASKS = {
    "all gamma": Task(
        lambda: all_of([20, 10, 1], "gamma"),
        lambda: likelihoods.Direct("gamma"),
        amounts,
        constant_gamma,
        epochs=100,
        rate=0.2,
        better=0.15,  # reached: 0.24
    ),
    "all Poisson": Task(
        lambda: all_of([126, 32, 1], "poisson"),
        lambda: likelihoods.Direct("poisson"),
        counts,
        constant_poisson,
        epochs=20,
        rate=0.1,
        better=0.9,  # reached: 1.18
    ),
    "Gaussian to amounts": Task(
        gaussian(10, 20, 1),
        likelihoods.GammaAmounts,
        amounts,
        constant_gamma,
        epochs=40,
        rate=0.01,
        better=0.04,  # reached: 0.07
        prior=priors.EmpiricalBayes(),
    ),
    "Gaussian to counts": Task(
        gaussian(63, 32, 1),
        likelihoods.PoissonCounts,
        counts,
        constant_negative_binomial,
        epochs=10,
        rate=0.01,
        better=0.4,  # reached: 0.50
    ),
    "Gaussian to overdispersed counts": Task(
        gaussian(63, 32, 1),
        likelihoods.NegativeBinomialCounts,
        counts,
        constant_negative_binomial,
        epochs=10,
        rate=0.01,
        better=0.4,  # reached: 0.51
    ),
    "Gaussian to proportions": Task(
        gaussian(63, 32, 1),
        likelihoods.BetaProportions,
        proportions,
        constant_beta,
        epochs=10,
        rate=0.01,
        better=0.45,  # reached: 0.57
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_families_mix(task):
    """Each network's log-likelihood of test data is better than that of the best constant of the target's family."""
    task = TASKS[task]
    (x, x_test, y, y_test), net, likelihood = task.data(), task.network(), task.likelihood()
    recipe = training.Recipe(epochs=task.epochs, batch_size=64, learning_rate=task.rate)
    training.train(net, (x, y), likelihood, task.prior, recipe)
    with torch.no_grad():
        o = net(torch.as_tensor(x_test, dtype=torch.float32))
        loss = likelihood.loss(o, torch.as_tensor(y_test, dtype=torch.float32)).mean().item()
        predicted = likelihood.predict(o)
    assert loss <= -task.constant(y)(y_test).mean() - task.better
    assert isinstance(predicted, families.ExponentialFamily)
    assert predicted.support.check(predicted.quantile(0.9)).all()  # amounts are positive, counts are counts
