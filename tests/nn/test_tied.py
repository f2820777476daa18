"""Tied standard deviations, std_ij = r_i c_j: the same as if each variance were written out, at less cost."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch

import torchnpn as npn
from torchnpn import kernels, likelihoods, maps, nn, priors
from torchnpn.moments import Moments, TiedMoments
from torchnpn.sparse import SparseRows

REPLICAS = [(), (2,), (2, 3)]


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def tied_layer(replicas=(), dtype=torch.float64, bias=True):
    """A layer whose standard deviations differ along both dimensions."""
    generator = torch.Generator().manual_seed(0)
    layer = nn.Linear(5, 4, bias, posterior="tied", replicas=replicas, generator=generator).to(dtype)
    with torch.no_grad():
        for seed, parameter in enumerate(layer.parameters()):
            parameter.add_(0.5 * drawn(*parameter.shape, seed=seed, dtype=dtype))
    return layer


def given(*shape, point=False, dtype=torch.float64):
    mean = drawn(*shape, 5, seed=9, dtype=dtype)
    return Moments(mean, None if point else 0.1 + mean.square() / 3)


def written_out(layer):
    """The variance of each weight, by numpy."""
    log_out, log_in = (t.detach().numpy() for t in layer.weight.free[1:])
    return torch.from_numpy(np.exp(2 * log_out) * np.exp(2 * log_in))


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("point", [False, True], ids=["moments", "point"])
@pytest.mark.parametrize("replicas", REPLICAS, ids=str)
def test_moments_and_gradients_are_those_of_the_variances_written_out(replicas, point, bias):
    layer, a = tied_layer(replicas, bias=bias), given(*replicas, 7, point=point)
    variance = written_out(layer)
    torch.testing.assert_close(layer.weight.moments.variance.detach(), variance)
    W, b = layer.weight.moments, layer.bias.moments if bias else None
    leaves = [*layer.parameters(), *(x.requires_grad_() for x in a if x is not None)]
    weights = drawn(2, *replicas, 7, 4, seed=5)

    def gradients(o):
        return torch.autograd.grad(
            sum((w * part).sum() for w, part in zip(weights, o, strict=True)), leaves, retain_graph=True
        )

    want, plain = maps.linear(a, W, b), maps.linear(a, layer.weight.tied_moments, b)
    found = layer(a)
    torch.testing.assert_close(want.variance.detach(), maps.linear(a, Moments(W.mean, variance), b).variance.detach())
    for o in (found, plain):
        torch.testing.assert_close(tuple(o), tuple(want))
        torch.testing.assert_close(gradients(o), gradients(want))


def test_kernel_gives_each_gradient_that_is_asked_for():
    a, W = given(7), tied_layer().weight.tied_moments
    arguments = [x.detach() for x in (*a, *W)]

    def gradient(i, function):
        tensors = [x.clone().requires_grad_(i == k) for k, x in enumerate(arguments)]
        o = function(Moments(*tensors[:2]), TiedMoments(*tensors[2:]))
        return torch.autograd.grad(o.mean.sum() + o.variance.square().sum(), tensors[i])[0]

    for i in range(5):
        torch.testing.assert_close(gradient(i, kernels.linear), gradient(i, maps.linear))


@pytest.mark.parametrize("point", [False, True], ids=["moments", "point"])
def test_second_derivatives(point):
    layer, a = tied_layer(), given(3, point=point)
    names, values = zip(*layer.named_parameters(), strict=True)
    numbers = [value.detach().clone().requires_grad_() for value in (*values, *(x for x in a if x is not None))]

    def outputs(*numbers):
        named, inputs = dict(zip(names, numbers, strict=False)), numbers[len(names) :]
        return tuple(torch.func.functional_call(layer, named, (Moments(*inputs),)))

    assert torch.autograd.gradcheck(outputs, numbers)
    assert torch.autograd.gradgradcheck(outputs, numbers)


@pytest.mark.parametrize("replicas", REPLICAS[:2], ids=str)
def test_sparse_rows(replicas):
    layer = tied_layer(replicas, torch.float32)
    x = np.where(np.random.default_rng(0).random((6, 5)) < 0.5, 0, 1.5).astype(np.float32)
    want = layer(torch.from_numpy(x))
    rows = SparseRows.from_csr(scipy.sparse.csr_matrix(x)).all()
    for found in (layer(rows), layer(scipy.sparse.csr_matrix(x))):
        torch.testing.assert_close(tuple(found), tuple(want))


def test_the_scale_may_stand_in_either_factor():
    """Factors that are no float32 numbers, of variances that are."""
    layer, other, a = (tied_layer(dtype=torch.float32), tied_layer(dtype=torch.float32), given(7, dtype=torch.float32))
    with torch.no_grad():
        other.weight.log_std_out += 60
        other.weight.log_std_in -= 60
    torch.testing.assert_close(tuple(other(a)), tuple(layer(a)), rtol=1e-4, atol=1e-6)
    for one in (layer, other):
        one(a).variance.sum().backward()
    torch.testing.assert_close(other.weight.log_std_in.grad, layer.weight.log_std_in.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("replicas", REPLICAS[:2], ids=str)
@pytest.mark.parametrize("log_std", [-3e38, -200.0, 40.0, 3e38])
@pytest.mark.parametrize("size", [1e-38, 1.0, 3e38])
def test_values_and_gradients_are_finite_for_all_numbers(size, log_std, replicas):
    layer = tied_layer(replicas, torch.float32)
    with torch.no_grad():
        layer.weight.mean.sign_().mul_(size)
        layer.weight.log_std_out.fill_(log_std)
    a = given(3, dtype=torch.float32)
    a = Moments(*((x * size).clamp(max=3e38).detach().requires_grad_() for x in a))
    o = layer(a)
    assert all(part.isfinite().all() for part in o)
    assert (o.variance >= 0).all()
    (o.mean.sum() + o.variance.sum()).backward()
    assert all(x.grad.isfinite().all() for x in (*a, *layer.parameters()))


@pytest.mark.parametrize("prior", [priors.IsotropicGaussian(3.0), priors.EmpiricalBayes()], ids=["isotropic", "learnt"])
@pytest.mark.parametrize("replicas", REPLICAS[:2], ids=str)
def test_divergence_is_that_of_the_variances_written_out(replicas, prior):
    layer = tied_layer(replicas, bias=False)
    m, s = layer.weight.mean.detach().numpy(), written_out(layer).numpy()
    v = (m**2 + s).mean(-2, keepdims=True) if isinstance(prior, priors.EmpiricalBayes) else 1 / prior.precision
    want = 0.5 * ((m**2 + s) / v - 1 + np.log(v) - np.log(s)).sum((-2, -1))
    found = npn.kl(layer, prior)
    np.testing.assert_allclose(found.detach(), want, rtol=1e-12)
    each = torch.linspace(0.5, 2, found.numel(), dtype=torch.float64).view(found.shape)
    (each * found).sum().backward()
    want, found = [p.grad.clone() for p in layer.parameters()], tied_layer(replicas, bias=False)
    priors.add_kl_gradient_(found, prior, each)
    torch.testing.assert_close([p.grad for p in found.parameters()], want)


def test_other_priors_take_the_variances_written_out():
    layer = tied_layer(bias=False)
    prior = priors.Quadratic(2.0, 3.0, 0.1)
    m, s = layer.weight.moments
    torch.testing.assert_close(npn.kl(layer, prior), (m.square() + 1.5 * (s - 0.1).square()).sum())


def test_moments_become_the_nearest_outer_product():
    r, c = drawn(4, 1).exp(), drawn(1, 5, seed=1).exp()
    parameter = nn.RandomParameter("gaussian", Moments(drawn(4, 5), r * c), in_dims=1, posterior="tied")
    torch.testing.assert_close(parameter.moments.variance, r * c)
    zero = nn.RandomParameter("gaussian", Moments(drawn(4, 5), torch.zeros(4, 5)), in_dims=1, posterior="tied")
    assert (zero.moments.variance == 0).all() and (zero.tied_moments.variance == 0).all()


def test_weights_of_torch_come_in():
    theirs = torch.nn.Linear(5, 4)
    ours = nn.Linear(5, 4, posterior="tied")
    before = ours.weight.moments.variance.clone()
    ours.load_state_dict(theirs.state_dict())
    torch.testing.assert_close(ours.weight.mean.detach(), theirs.weight.detach())
    torch.testing.assert_close(ours.weight.moments.variance, before)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("replicas", REPLICAS[:2], ids=str)
def test_a_network_trains(replicas, activation):
    generator = torch.Generator().manual_seed(0)
    network = nn.mlp([1, 20, 1], activation=activation, posterior="tied", replicas=replicas, generator=generator)
    x = torch.linspace(-2, 2, 64)[:, None]
    recipe = npn.Recipe(epochs=30, batch_size=16, learning_rate=0.03, seed=0)
    likelihood = likelihoods.GaussianNoise(1, replicas=replicas)
    history = npn.train(network, (x, x.square()), likelihood, priors.EmpiricalBayes(), recipe, device="cpu")
    assert history.epochs[-1].loss < history.epochs[0].loss
    assert all(parameter.isfinite().all() for parameter in network.parameters())


def test_what_cannot_be_tied_is_refused():
    with pytest.raises(ValueError, match='posterior="tied" expects Gaussian weights of a matrix, got Gamma weights'):
        nn.Linear(3, 2, family="gamma", posterior="tied")
    with pytest.raises(ValueError, match="got a tensor with 0 dimensions of inputs"):
        nn.RandomParameter("gaussian", Moments(torch.zeros(3), torch.ones(3)), posterior="tied", in_dims=0)
    with pytest.raises(ValueError, match="posterior expects one of mean_field, tied, got 'full'"):
        nn.Linear(3, 2, posterior="full")
    W = TiedMoments(torch.zeros(2, 3), torch.ones(3, 1), torch.ones(1, 3))
    with pytest.raises(ValueError, match=r"tied weights of shapes .*got \(2, 3\), \(3, 1\), \(1, 3\)"):
        maps.linear(Moments(torch.zeros(4, 3)), W)
