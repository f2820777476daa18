"""Gradients of chains in numpy and in torch are those of autograd; training comes to the same weights either way."""

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
from torchnpn.training.cpu_chain import NumpyChainSteps, WideChainSteps, why_not_numpy
from torchnpn.training.data import Rows
from torchnpn.training.engine import device_engine
from torchnpn.training.epoch import HostPlan
from torchnpn.training.tape import Objective, TapeSteps

RNG = np.random.default_rng(0)
ROWS = 20
CPU = torch.device("cpu")


def ranges():
    """Durations that are known, or known to be above, between and below; a quarter each."""
    lower = RNG.gamma(2, size=ROWS)
    upper = np.choose(np.arange(ROWS) % 4, [lower, np.inf, lower + RNG.gamma(1, size=ROWS), lower])
    return np.column_stack([np.where(np.arange(ROWS) % 4 == 3, 0.0, lower), upper])


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
    "heavy tails": (likelihoods.StudentTNoise(elbo=0.3), RNG.standard_t(2.5, size=(ROWS, 1))),
    "varying heavy tails": (likelihoods.HeteroscedasticStudentT(2, elbo=0.3), RNG.standard_t(2.5, size=(ROWS, 2))),
    "gamma with ELBO": (likelihoods.GammaAmounts(elbo=0.3), RNG.gamma(2, size=(ROWS, 1))),
    "gamma": (likelihoods.GammaAmounts(), RNG.gamma(2, size=(ROWS, 1))),
    "counts": (likelihoods.NegativeBinomialCounts(), RNG.poisson(3, size=(ROWS, 1)).astype(float)),
    "poisson": (likelihoods.PoissonCounts(), RNG.poisson(3, size=(ROWS, 1)).astype(float)),
    "counts with ELBO": (
        likelihoods.NegativeBinomialCounts(2, elbo=0.3),
        RNG.poisson(3, size=(ROWS, 2)).astype(float),
    ),
    "poisson with ELBO": (likelihoods.PoissonCounts(elbo=0.3), RNG.poisson(3, size=(ROWS, 1)).astype(float)),
    "zeros": (likelihoods.ZeroInflatedPoisson(), RNG.poisson(1, size=(ROWS, 2)).astype(float)),
    "zeros with ELBO": (
        likelihoods.ZeroInflatedNegativeBinomial(2, elbo=0.3),
        RNG.poisson(1, size=(ROWS, 2)).astype(float),
    ),
    "exposed counts": (
        likelihoods.Exposed(likelihoods.ZeroInflatedNegativeBinomial(2, elbo=0.3)),
        np.column_stack([RNG.poisson(1, size=(ROWS, 2)).astype(float), RNG.normal(size=ROWS)]),
    ),
    "exposed amounts": (
        likelihoods.Exposed(likelihoods.HeteroscedasticLogNormal(2, elbo=0.3)),
        np.column_stack([RNG.gamma(2, size=(ROWS, 2)), RNG.normal(size=ROWS)]),
    ),
    "weibull": (likelihoods.WeibullDurations(2, 0.3, 0.4), RNG.gamma(2, size=(ROWS, 2))),
    "censored weibull": (likelihoods.Censored(likelihoods.WeibullDurations(1, 0.3, 0.4)), ranges()),
    "censored lognormal": (likelihoods.Censored(likelihoods.LogNormalAmounts(elbo=0.3)), ranges()),
    "censored varying lognormal": (likelihoods.Censored(likelihoods.HeteroscedasticLogNormal(elbo=0.3)), ranges()),
    "hurdle": (likelihoods.HurdleGamma(2, elbo=0.3), RNG.poisson(1, size=(ROWS, 2)) * RNG.gamma(2, size=(ROWS, 2))),
    "shared hurdle": (likelihoods.HurdleLogNormal(), RNG.poisson(1, size=(ROWS, 2)) * RNG.gamma(2, size=(ROWS, 2))),
    "beta": (likelihoods.BetaProportions(), RNG.uniform(0.1, 0.9, size=(ROWS, 1))),
    "ordered classes": (likelihoods.OrderedClasses(4), RNG.integers(4, size=ROWS)),
    "two ordered classes": (likelihoods.OrderedClasses(2), RNG.integers(2, size=ROWS)),
    "classes": (likelihoods.ScaledSoftmax(4), RNG.integers(4, size=ROWS)),
}
PRIORS = [None, priors.EmpiricalBayes(), priors.IsotropicGaussian(3.0)]


def tensor(y):
    return torch.as_tensor(y, dtype=torch.float32 if y.dtype.kind == "f" else None)


def networks(hidden, outputs, generator):
    """A multilayer network, one with tied standard deviations, and one with a last layer of two heads."""
    yield nn.mlp([5, *hidden, outputs], generator=generator)
    tied = nn.mlp([5, *hidden, outputs], posterior="tied", generator=generator)
    for one in tied[::2]:  # factors that differ
        for log_std in one.weight.free[1:]:
            log_std.data += 0.5 * torch.randn(log_std.shape, generator=generator)
    yield tied
    if outputs % 2 == 0:
        before = list(nn.mlp([5, *hidden, 1], generator=generator))[:-1]
        head = nn.MeanAndNoise([5, *hidden][-1], outputs // 2, generator=generator)
        head.noise.weight.free[0].data.normal_(0, 0.3, generator=generator)
        yield nn.Sequential(*before, head)


def one_step(kind, net, likelihood, prior, data, beta=0.0, radius=0.0):
    """The gradient of one batch of all rows, left by the steps of a kind; and its loss."""
    recipe = training.Recipe(epochs=1, batch_size=ROWS, kl_weight=training.constant(beta), adversarial=radius)
    steps = kind(Objective(net, likelihood, prior, recipe), HostPlan(Rows(*data), recipe, CPU))
    steps.plan.begin(0)
    steps.gradient()
    return steps, float(steps.plan.loss())


def taped_gradients(*arguments, **settings):
    steps, loss = one_step(TapeSteps, *arguments, **settings)
    return {id(p): p.grad.clone() for p in steps.parameters}, loss


def chained_gradients(steps):
    """Each parameter with the gradient by it, flat."""
    parts = steps.chain.parts
    if isinstance(steps, WideChainSteps):
        return [(p, p.grad.reshape(-1)) for p in parts]
    return zip(parts, steps.chain.flat.grad.split([p.numel() for p in parts]), strict=True)


@pytest.mark.parametrize("hidden", [(), (7,), (6, 5)], ids=str)
@pytest.mark.parametrize("name", TARGETS)
def test_gradient_is_that_of_autograd(name, hidden):
    likelihood, y = TARGETS[name]
    outputs = likelihood.outputs(4 if y.ndim == 1 else y.shape[1])
    generator = torch.Generator().manual_seed(len(hidden))
    for (i, prior), k in itertools.product(enumerate(PRIORS), range(3 - outputs % 2)):
        net = list(networks(hidden, outputs, generator))[k]
        assert why_not_numpy(net, prior, CPU) is None
        x = torch.randn(ROWS, 5, generator=generator)
        x = x if i == 0 else npn.Moments(x, torch.rand(ROWS, 5, generator=generator))
        data = (x, tensor(y), None if i == 1 else torch.rand(ROWS, generator=generator) + 0.1)
        want, loss = taped_gradients(net, likelihood, prior, data, 0.4)
        largest = max(float(gradient.abs().max()) for gradient in want.values())
        for kind in (NumpyChainSteps, WideChainSteps):
            steps, found = one_step(kind, net, likelihood, prior, data, 0.4)
            np.testing.assert_allclose(found, loss, rtol=1e-4)
            for parameter, gradient in chained_gradients(steps):
                torch.testing.assert_close(gradient, want[id(parameter)].reshape(-1), rtol=1e-3, atol=1e-4 * largest)
            steps.release()


@pytest.mark.parametrize("hidden", [(), (7,), (6, 5)], ids=str)
@pytest.mark.parametrize("name", TARGETS)
def test_gradient_at_moved_rows_is_that_of_autograd(name, hidden):
    likelihood, y = TARGETS[name]
    outputs = likelihood.outputs(4 if y.ndim == 1 else y.shape[1])
    generator = torch.Generator().manual_seed(len(hidden))
    for net, uncertain in itertools.product(networks(hidden, outputs, generator), (False, True)):
        x = torch.randn(ROWS, 5, generator=generator)
        x = npn.Moments(x, torch.rand(ROWS, 5, generator=generator)) if uncertain else x
        data = (x, tensor(y), torch.rand(ROWS, generator=generator) + 0.1)
        gradients, loss = taped_gradients(net.train(), likelihood, None, data, radius=0.5)
        for kind in (NumpyChainSteps, WideChainSteps):
            steps, found = one_step(kind, net, likelihood, None, data, radius=0.5)
            want = torch.cat([gradients[id(p)].reshape(-1) for p in steps.chain.parts])
            got = torch.cat([gradient for _, gradient in chained_gradients(steps)])
            np.testing.assert_allclose(found, loss, rtol=1e-3)
            torch.testing.assert_close(got, want, rtol=1e-2, atol=1e-3 * float(want.abs().max()))
            steps.release()


def test_zero_input_variance_is_a_point():
    likelihood, net = likelihoods.GaussianNoise(), nn.mlp([5, 7, 1], generator=torch.Generator().manual_seed(0))
    x, y = torch.randn(ROWS, 5, generator=torch.Generator().manual_seed(1)), tensor(TARGETS["noise"][1])
    prior, uncertain = priors.EmpiricalBayes(), npn.Moments(x, torch.zeros_like(x))
    want = one_step(NumpyChainSteps, net, likelihood, prior, (x, y), 2.0)[0].chain.flat.grad
    got = one_step(NumpyChainSteps, net, likelihood, prior, (uncertain, y), 2.0)[0].chain.flat.grad
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


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
        reason = why_not_numpy(model, priors.EmpiricalBayes(), CPU)
        assert reason == (None if model is net else "a hook listens to a module")
        histories.append(npn.train(model, (rows, y), likelihood, priors.EmpiricalBayes(), recipe, device="cpu"))
    handle.remove()
    for a, b in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(histories[0].last.loss, histories[1].last.loss, rtol=1e-3)


SETTINGS = {
    "KL weights": {"kl_weight": lambda progress: np.array([0.1, 1.0, 3.0])},
    "rates": {"learning_rate": np.array([0.01, 0.02, 0.003])},
    "adversaries": {"adversarial": 0.1},
}


AT_ONCE = [
    *("noise", "varying noise", "gamma with ELBO", "counts", "beta", "classes"),
    *("heavy tails", "varying heavy tails", "zeros with ELBO", "hurdle", "ordered classes"),
]


@pytest.mark.parametrize("own_rows", [False, True], ids=["all rows", "own rows"])
@pytest.mark.parametrize("name", AT_ONCE)
@pytest.mark.parametrize("setting", SETTINGS)
def test_replicas_at_once_are_trained_as_by_autograd(name, setting, own_rows):
    one, y = TARGETS[name]
    replicas, classes = 3, y.ndim == 1
    x = torch.randn(ROWS, 5, generator=torch.Generator().manual_seed(0))
    rows = Rows(x, tensor(y))
    if own_rows:
        rows = rows.restricted(np.stack([np.random.default_rng(k).permutation(ROWS)[:11] for k in range(replicas)]))
    recipe = training.Recipe(**{"epochs": 2, "batch_size": 4, "learning_rate": 0.01, "seed": 3, **SETTINGS[setting]})
    ends = []
    for fused in (None, False):
        own = {"replicas": (replicas,)} if [*one.parameters()] else {}
        likelihood = type(one)(4 if classes else 1, **own)
        net = nn.mlp(
            [5, 7, 6, likelihood.outputs(4 if classes else y.shape[1])],
            posterior="tied" if own_rows else "mean_field",
            replicas=(replicas,),
            generator=torch.Generator().manual_seed(1),
        )
        engine = device_engine(net, rows, likelihood, priors.EmpiricalBayes(), recipe, fused=fused)
        assert engine.name == ("NumpyChainSteps" if fused is None else "TapeSteps")
        last = [engine.epoch(number) for number in range(2)][-1]
        engine.stepper.release()
        ends.append((last.loss, last.divergence, *net.parameters(), *likelihood.parameters()))
    for ours, theirs in zip(*ends, strict=True):
        torch.testing.assert_close(torch.as_tensor(ours), torch.as_tensor(theirs), rtol=1e-3, atol=1e-4)


def test_parameters_have_their_own_memory_afterwards():
    net, likelihood = nn.mlp([4, 8, 1]), likelihoods.GaussianNoise()
    rows, y = RNG.normal(size=(30, 4)).astype(np.float32), RNG.normal(size=(30, 1)).astype(np.float32)
    npn.train(net, (rows, y), likelihood, None, training.Recipe(epochs=1), device="cpu")
    owners = {p.untyped_storage().data_ptr() for p in [*net.parameters(), *likelihood.parameters()]}
    assert len(owners) == len([*net.parameters(), *likelihood.parameters()])


def repeated():
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.ReLU(), layer)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (repeated(), "a layer is there twice"),
        (nn.mlp([4, 3, 1], activation="tanh"), "Tanh stands where a ReLU is expected"),
        (nn.mlp([4, 3, 1], "gamma"), "Linear is not a Gaussian Linear layer"),
        (nn.mlp([4, 3, 1], replicas=(2, 2)), "replicas along several dimensions"),
        (nn.mlp([4, 3, 1], dropout=0.1), "not a Sequential of Linear layers"),
        (nn.mlp([4, 3, 1]).double(), "not float32"),
        (nn.mlp([5000, 100, 1]), "1,000,402 free numbers"),
        (nn.Sequential(nn.Linear(4, 1, bias=False)), "with a bias"),
        (nn.Linear(4, 1), "not a Sequential"),
    ],
)
def test_other_networks_go_to_autograd_and_are_told_why(model, words):
    assert words in why_not_numpy(model, None, CPU)


def test_a_chain_in_numpy_needs_a_prior_that_it_knows_and_a_cpu():
    net = nn.mlp([4, 3, 1])
    assert why_not_numpy(net, None, CPU) is None
    assert why_not_numpy(net, priors.ScaleMixture(), CPU) == "the prior is ScaleMixture"
    assert why_not_numpy(net, None, torch.device("cuda")) == "it trains on cuda"


@pytest.mark.parametrize("scheduler", [None, training.cosine])
def test_adam_in_numpy_is_torchs(scheduler):
    """Against torch's own on the same sequence of gradients."""
    recipe = training.Recipe(epochs=4, batch_size=1, learning_rate=0.01, scheduler=scheduler)
    plan = HostPlan(Rows(torch.zeros(10, 3), torch.zeros(10, 1)), recipe, CPU)
    net = nn.Sequential(nn.Linear(3, 1))
    steps = NumpyChainSteps(Objective(net, likelihoods.GaussianNoise(), None, recipe), plan)
    ours = steps.chain.flat
    theirs = torch.nn.Parameter(ours.detach().clone())
    optimizer = training.adam([theirs], 0.01)
    falling = None if scheduler is None else scheduler(optimizer, 40)
    generator = torch.Generator().manual_seed(0)
    for i in range(40):
        if i % 10 == 0:
            plan.begin(i // 10)
        plan.next()
        gradient = torch.randn(len(ours), generator=generator) * 10.0 ** -(i % 4)
        ours.grad.copy_(gradient)
        theirs.grad = gradient.clone()
        steps.update.step()
        optimizer.step()
        if falling is not None:
            falling.step()
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_small_fit_does_not_load_torchs_compiler():
    """It takes seconds to import, and a small network trains in less."""
    code = (
        "import sys, numpy, torchnpn; X = numpy.random.rand(50, 3); "
        "m = torchnpn.NPNRegressor(max_epochs=2, effort='quick').fit(X, X[:, 0]); "
        "m.predict_interval(X); m.predict_variance(X); "
        "print([name for name in ('torch._dynamo', 'sympy', 'torch._inductor') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
