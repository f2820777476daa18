"""Gradients of small networks in numpy are those of autograd; training comes to the same weights either way."""

from __future__ import annotations

import copy
import itertools
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
import torch

import torchnpn as npn
from torchnpn import likelihoods, nn, priors, training
from torchnpn.training import small
from torchnpn.training.adversarial import Adversary
from torchnpn.training.data import Batch
from torchnpn.training.flat_adam import FlatAdam
from torchnpn.training.gradients import Autograd

RNG = np.random.default_rng(0)
ROWS = 20
TARGETS = {
    "noise": (likelihoods.GaussianNoise(), RNG.normal(size=(ROWS, 1))),
    "three noises": (likelihoods.GaussianNoise(3, elbo=0.3), RNG.normal(size=(ROWS, 3))),
    "shared noise": (likelihoods.GaussianNoise(1, elbo=1.0), RNG.normal(size=(ROWS, 2))),
    "noise beyond its limit": (likelihoods.GaussianNoise(1, initial_log_noise=21.0), RNG.normal(size=(ROWS, 1))),
    "varying noise": (likelihoods.HeteroscedasticGaussian(), RNG.normal(size=(ROWS, 1))),
    "two varying noises": (likelihoods.HeteroscedasticGaussian(2, elbo=0.3), RNG.normal(size=(ROWS, 2))),
    "varying noise beyond its limit": (
        likelihoods.HeteroscedasticGaussian(1, initial_log_noise=-21.0),
        1e-5 * RNG.normal(size=(ROWS, 1)),
    ),
    "gamma with ELBO": (likelihoods.GammaAmounts(elbo=0.3), RNG.gamma(2, size=(ROWS, 1))),
    "gamma": (likelihoods.GammaAmounts(), RNG.gamma(2, size=(ROWS, 1))),
    "counts": (likelihoods.NegativeBinomialCounts(), RNG.poisson(3, size=(ROWS, 1)).astype(float)),
    "poisson": (likelihoods.PoissonCounts(), RNG.poisson(3, size=(ROWS, 1)).astype(float)),
    "counts with ELBO": (
        likelihoods.NegativeBinomialCounts(2, elbo=0.3),
        RNG.poisson(3, size=(ROWS, 2)).astype(float),
    ),
    "poisson with ELBO": (likelihoods.PoissonCounts(elbo=0.3), RNG.poisson(3, size=(ROWS, 1)).astype(float)),
    "beta": (likelihoods.BetaProportions(), RNG.uniform(0.1, 0.9, size=(ROWS, 1))),
    "classes": (likelihoods.ScaledSoftmax(4), RNG.integers(4, size=ROWS)),
}
PRIORS = [None, priors.EmpiricalBayes(), priors.IsotropicGaussian(3.0)]


def tensor(y):
    return torch.as_tensor(y, dtype=torch.float32 if y.dtype.kind == "f" else None)


def networks(hidden, outputs, generator):
    """A multilayer network, and one with a last layer of two heads."""
    yield nn.mlp([5, *hidden, outputs], generator=generator)
    if outputs % 2 == 0:
        before = list(nn.mlp([5, *hidden, 1], generator=generator))[:-1]
        head = nn.MeanAndNoise([5, *hidden][-1], outputs // 2, generator=generator)
        head.noise.weight.free[0].data.normal_(0, 0.3, generator=generator)
        yield nn.Sequential(*before, head)


@pytest.mark.parametrize("hidden", [(), (7,), (6, 5)], ids=str)
@pytest.mark.parametrize("name", TARGETS)
def test_gradient_is_that_of_autograd(name, hidden):
    likelihood, y = TARGETS[name]
    outputs = likelihood.outputs(4 if y.ndim == 1 else y.shape[1])
    generator = torch.Generator().manual_seed(len(hidden))
    for (i, prior), k in itertools.product(enumerate(PRIORS), range(2 - outputs % 2)):
        net = list(networks(hidden, outputs, generator))[k]
        assert small.takes(net, prior, torch.device("cpu"))
        x = torch.randn(ROWS, 5, generator=generator)
        x = x if i == 0 else npn.Moments(x, torch.rand(ROWS, 5, generator=generator))
        batch = Batch(x, tensor(y), None if i == 1 else torch.rand(ROWS, generator=generator) + 0.1)
        taped = Autograd(net, net, likelihood, prior)
        loss = taped(batch, 0.02)
        want = {id(p): p.grad.clone() for p in taped.parameters}
        largest = max(float(gradient.abs().max()) for gradient in want.values())
        flat = small.SmallNetwork(net, likelihood, prior)
        np.testing.assert_allclose(flat(batch, 0.02), [float(part) for part in loss], rtol=1e-4)
        for parameter, gradient in zip(flat.own, flat.flat.grad.split([p.numel() for p in flat.own]), strict=True):
            torch.testing.assert_close(gradient, want[id(parameter)].reshape(-1), rtol=1e-3, atol=1e-4 * largest)
        flat.release()


@pytest.mark.parametrize("hidden", [(), (7,), (6, 5)], ids=str)
@pytest.mark.parametrize("name", TARGETS)
def test_gradient_at_moved_rows_is_that_of_autograd(name, hidden):
    likelihood, y = TARGETS[name]
    outputs = likelihood.outputs(4 if y.ndim == 1 else y.shape[1])
    generator = torch.Generator().manual_seed(len(hidden))
    for net, uncertain in itertools.product(networks(hidden, outputs, generator), (False, True)):
        x = torch.randn(ROWS, 5, generator=generator)
        x = npn.Moments(x, torch.rand(ROWS, 5, generator=generator)) if uncertain else x
        batch = Batch(x, tensor(y), torch.rand(ROWS, generator=generator) + 0.1)
        taped = Autograd(net.train(), net, likelihood, None, Adversary(net, likelihood, 0.5))
        loss = taped(batch, 0.0)
        want = torch.cat([p.grad.reshape(-1) for p in small.SmallNetwork(net, likelihood, None).own])
        flat = small.SmallNetwork(net, likelihood, None, radius=0.5)
        np.testing.assert_allclose(flat(batch, 0.0), [float(part) for part in loss], rtol=1e-3)
        torch.testing.assert_close(flat.flat.grad, want, rtol=1e-2, atol=1e-3 * float(want.abs().max()))
        flat.release()


def test_zero_input_variance_is_a_point():
    likelihood, net = likelihoods.GaussianNoise(), nn.mlp([5, 7, 1], generator=torch.Generator().manual_seed(0))
    x, y = torch.randn(ROWS, 5, generator=torch.Generator().manual_seed(1)), tensor(TARGETS["noise"][1])
    flat = small.SmallNetwork(net, likelihood, priors.EmpiricalBayes())
    flat(Batch(x, y, None), 0.1)
    want = flat.flat.grad.clone()
    flat(Batch(npn.Moments(x, torch.zeros_like(x)), y, None), 0.1)
    torch.testing.assert_close(flat.flat.grad, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("x", [None, "csr"])
def test_training_is_the_same_either_way(x):
    """A hook sends the network to autograd, whose weights after a few epochs are the same but for rounding."""
    rows = RNG.normal(size=(90, 4)).astype(np.float32)
    rows = scipy.sparse.csr_matrix(rows * (rows > 0)) if x else rows
    y = RNG.normal(size=(90, 1)).astype(np.float32)
    net = nn.mlp([4, 8, 1], generator=torch.Generator().manual_seed(0))
    twin = copy.deepcopy(net)
    handle = twin.register_forward_hook(lambda *_: None)
    recipe = training.Recipe(epochs=4, batch_size=32, learning_rate=1e-2, seed=3)
    histories = []
    for model in (net, twin):
        likelihood = likelihoods.GaussianNoise()
        assert small.takes(model, priors.EmpiricalBayes(), torch.device("cpu")) == (model is net)
        histories.append(npn.train(model, (rows, y), likelihood, priors.EmpiricalBayes(), recipe, device="cpu"))
    handle.remove()
    for a, b in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(histories[0].last.loss, histories[1].last.loss, rtol=1e-3)


def test_parameters_have_their_own_memory_afterwards():
    net, likelihood = nn.mlp([4, 8, 1]), likelihoods.GaussianNoise()
    rows, y = RNG.normal(size=(30, 4)).astype(np.float32), RNG.normal(size=(30, 1)).astype(np.float32)
    npn.train(net, (rows, y), likelihood, None, training.Recipe(epochs=1), device="cpu")
    owners = {p.untyped_storage().data_ptr() for p in [*net.parameters(), *likelihood.parameters()]}
    assert len(owners) == len([*net.parameters(), *likelihood.parameters()])


@pytest.mark.parametrize(
    "model",
    [
        nn.mlp([4, 3, 1], activation="tanh"),
        nn.mlp([4, 3, 1], "gamma"),
        nn.mlp([4, 3, 1], replicas=(2,)),
        nn.mlp([4, 3, 1], dropout=0.1),
        nn.mlp([4, 3, 1]).double(),
        nn.mlp([500, 100, 1]),
        nn.Sequential(nn.Linear(4, 1, bias=False)),
        nn.Linear(4, 1),
    ],
)
def test_other_networks_go_to_autograd(model):
    assert not small.takes(model, None, torch.device("cpu"))
    assert not small.takes(nn.mlp([4, 3, 1]), priors.ScaleMixture(), torch.device("cpu"))
    assert small.takes(nn.mlp([4, 3, 1]), None, torch.device("cpu"))


@pytest.mark.parametrize("scheduler", [None, training.cosine])
def test_flat_adam_is_torchs(scheduler):
    """Against torch's own on the same sequence of gradients."""
    start, gradients = torch.randn(50), [torch.randn(50) * 10.0 ** -(i % 4) for i in range(40)]
    ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    ours.grad = torch.zeros(50)
    flat = FlatAdam(ours, 0.01, None if scheduler is None else 40)
    optimizer = training.adam([theirs], 0.01)
    schedule = None if scheduler is None else scheduler(optimizer, 40)
    for gradient in gradients:
        ours.grad.copy_(gradient)
        theirs.grad = gradient.clone()
        flat.step()
        optimizer.step()
        if schedule is not None:
            schedule.step()
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_small_fit_does_not_load_torchs_compiler():
    """It takes seconds to import, and a small network trains in less."""
    code = (
        "import sys, numpy, torchnpn; X = numpy.random.rand(50, 3); "
        "m = torchnpn.NPNRegressor(max_epochs=2).fit(X, X[:, 0]); m.predict_interval(X); m.predict_variance(X); "
        "print([name for name in ('torch._dynamo', 'sympy', 'torch._inductor') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
