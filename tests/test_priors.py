"""Priors: closed forms against torch, quadrature and numerical minimisation; the sum over a network's parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, stats
from torch.distributions import Normal, kl_divergence

from torchnpn import families, nn, priors
from torchnpn.moments import Moments
from torchnpn.priors import Place

WEIGHT, FIRST, BIAS = Place(first=False, bias=False), Place(first=True, bias=False), Place(first=False, bias=True)


def parameter(family="gaussian", shape=(4, 3), seed=0):
    generator = torch.Generator().manual_seed(seed)
    mean = torch.randn(shape, generator=generator, dtype=torch.float64)
    std = 0.1 + torch.rand(shape, generator=generator, dtype=torch.float64)
    if family == "gamma":
        mean = mean.abs() + 0.2
    if family == "beta":
        mean, std = mean.sigmoid(), 0.1 * std
    return nn.RandomParameter(family, Moments(mean, std**2))


def double(*values):
    return [torch.tensor(value, dtype=torch.float64) for value in values]


def close(got, want, rtol=1e-10):
    np.testing.assert_allclose(got.detach(), want, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("precision", [1e-4, 1.0, 100.0])
def test_isotropic_gaussian_is_the_divergence_of_two_gaussians(precision):
    p = parameter()
    got = priors.IsotropicGaussian(precision).divergence(p, WEIGHT)
    q = p.distribution
    close(got, kl_divergence(Normal(q.m, q.s.sqrt()), Normal(*double(0.0, precision**-0.5))).detach())
    zero = families.Gaussian(*double(0.0, 1 / precision))
    close(got, families.kl(q, zero).detach())
    assert (got >= 0).all()


def test_isotropic_gaussian_is_zero_at_itself():
    p = nn.RandomParameter("gaussian", Moments(torch.zeros(5), torch.full((5,), 0.25)))
    np.testing.assert_allclose(priors.IsotropicGaussian(4.0).divergence(p, WEIGHT).detach(), 0, atol=1e-6)


@pytest.mark.parametrize("precision", [0.1, 10.0])
def test_isotropic_gaussian_of_gamma_weights_by_quadrature(precision):
    p = parameter("gamma", (5,))
    got = priors.IsotropicGaussian(precision).divergence(p, WEIGHT).detach().numpy()
    for value, c, d in zip(got, *(x.detach().numpy() for x in (p.distribution.c, p.distribution.d)), strict=True):
        gamma, normal = stats.gamma(c, scale=1 / d), stats.norm(0, precision**-0.5)
        integrand = lambda x: gamma.pdf(x) * (gamma.logpdf(x) - normal.logpdf(x))
        want = integrate.quad(integrand, 0, gamma.mean(), limit=200)[0]
        want += integrate.quad(integrand, gamma.mean(), gamma.ppf(1 - 1e-15), limit=200)[0]
        np.testing.assert_allclose(value, want, rtol=1e-6)


def test_gaussian_divergence_has_the_right_gradient():
    p = parameter()
    mean, log_std = (t.detach().clone().requires_grad_() for t in p.free)
    assert torch.autograd.gradcheck(lambda *free: priors.gaussian_divergence(free, 3.0), (mean, log_std))


def test_scale_mixture_bounds_the_divergence():
    """Above the true KL, by quadrature; equal to it where both components are one."""
    p, prior = parameter(shape=(6,)), priors.ScaleMixture(0.3, (1.0, 0.01))
    got = prior.divergence(p, WEIGHT).detach().numpy()
    for value, m, s in zip(got, *(x.detach().numpy() for x in p.moments), strict=True):
        q = stats.norm(m, s**0.5)
        mixture = lambda x: 0.3 * stats.norm(0, 1).pdf(x) + 0.7 * stats.norm(0, 0.1).pdf(x)
        x = m + s**0.5 * np.linspace(-9, 9, 20_001)
        true = np.trapezoid(q.pdf(x) * (q.logpdf(x) - np.log(mixture(x))), x)
        assert value >= true - 1e-7
        assert value - true < 1.0
    single = priors.ScaleMixture(0.3, (0.5, 0.5)).divergence(p, WEIGHT)
    close(single, priors.IsotropicGaussian(2.0).divergence(p, WEIGHT).detach(), rtol=1e-6)


def test_scale_mixture_bounds_the_divergence_of_gamma_weights():
    """Above the true KL, by quadrature; equal to it where both components are one."""
    p, prior = parameter("gamma", (6,)), priors.ScaleMixture(0.3, (1.0, 0.05))
    got = prior.divergence(p, WEIGHT).detach().numpy()
    for value, c, d in zip(got, *(x.detach().numpy() for x in (p.distribution.c, p.distribution.d)), strict=True):
        q = stats.gamma(c, scale=1 / d)
        mixture = lambda x: 0.3 * stats.norm(0, 1).pdf(x) + 0.7 * stats.norm(0, 0.05**0.5).pdf(x)
        integrand = lambda x: q.pdf(x) * (q.logpdf(x) - np.log(mixture(x)))
        true = sum(
            integrate.quad(integrand, *ends, limit=200)[0] for ends in [(0, q.mean()), (q.mean(), q.ppf(1 - 1e-12))]
        )
        assert true - 1e-6 <= value < true + 1.5
    single = priors.ScaleMixture(0.3, (0.5, 0.5)).divergence(p, WEIGHT)
    close(single, priors.IsotropicGaussian(2.0).divergence(p, WEIGHT).detach(), rtol=1e-6)


@pytest.mark.parametrize("place", [FIRST, WEIGHT], ids=["first", "later"])
def test_empirical_bayes_minimises_the_divergence(place):
    p = parameter()
    m, s = (x.detach().numpy() for x in p.moments)

    def total(log_v, columns):
        v = math.exp(log_v)
        return 0.5 * ((m**2 + s)[:, columns] / v - 1 + log_v - np.log(s[:, columns])).sum()

    groups = [[i] for i in range(m.shape[1])] if place.first else [list(range(m.shape[1]))]
    want = sum(optimize.minimize_scalar(total, args=(group,), tol=1e-12).fun for group in groups)
    np.testing.assert_allclose(priors.EmpiricalBayes().divergence(p, place).sum().item(), want, rtol=1e-10)


def test_empirical_bayes_has_the_gradient_through_its_minimum():
    """Though v is held fixed, the gradient is that of the minimised KL: by differences."""
    p = parameter()
    total = lambda: priors.EmpiricalBayes().divergence(p, FIRST).sum()
    got = torch.autograd.grad(total(), p.free)
    for tensor, gradient in zip(p.free, got, strict=True):
        for index in [(0, 0), (3, 2)]:
            values = []
            for step in (1e-5, -1e-5):
                with torch.no_grad():
                    tensor[index] += step
                    values.append(total().item())
                    tensor[index] -= step
            np.testing.assert_allclose(gradient[index].item(), (values[0] - values[1]) / 2e-5, rtol=1e-6, atol=1e-8)


def test_empirical_bayes_of_biases_and_of_other_families():
    p = parameter(shape=(4,))
    close(
        priors.EmpiricalBayes().divergence(p, BIAS), priors.IsotropicGaussian(1.0).divergence(p, BIAS).detach().numpy()
    )
    with pytest.raises(TypeError, match="EmpiricalBayes expects Gaussian weights, got Gamma"):
        priors.EmpiricalBayes().divergence(parameter("gamma"), WEIGHT)


def test_a_member_of_the_family_as_prior():
    p = parameter("beta")
    prior = families.Beta(2.0, 3.0)
    got = priors.Member(prior).divergence(p, WEIGHT)
    q = p.distribution
    want = kl_divergence(torch.distributions.Beta(q.c, q.d), torch.distributions.Beta(*double(2.0, 3.0))).detach()
    close(got, want)
    gamma = parameter("gamma")
    q = torch.distributions.Gamma(gamma.distribution.c, gamma.distribution.d)
    want = kl_divergence(q, torch.distributions.Gamma(*double(2.0, 3.0))).detach()
    close(priors.Member(families.Gamma(2.0, 3.0)).divergence(gamma, WEIGHT), want)
    with pytest.raises(TypeError, match="kl has no formula for Beta ‖ Gamma"):
        priors.Member(families.Gamma(2.0, 3.0)).divergence(p, WEIGHT)


def test_quadratic_is_its_formula():
    p = parameter("gamma")
    m, s = (x.detach() for x in p.moments)
    got = priors.Quadratic(precision=2.0, variance_weight=5.0, variance=0.3).divergence(p, WEIGHT)
    close(got, 0.5 * 2 * m**2 + 0.5 * 5 * (s - 0.3) ** 2)


def test_bad_precision():
    for value in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="precision > 0"):
            priors.IsotropicGaussian(value)


# Over a network ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [priors.IsotropicGaussian(3.0), priors.EmpiricalBayes(), priors.Quadratic()])
def test_kl_sums_over_all_parameters(prior):
    net = nn.mlp([5, 4, 4, 3], generator=torch.Generator().manual_seed(0))
    places = [FIRST, WEIGHT, WEIGHT]
    want = sum(
        prior.divergence(layer.weight, place).sum() + prior.divergence(layer.bias, BIAS).sum()
        for layer, place in zip([net[0], net[2], net[4]], places, strict=True)
    )
    got = priors.kl(net, prior)
    assert got.shape == ()
    torch.testing.assert_close(got, want)
    got.backward()
    assert all(p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.parametrize("prior", [priors.IsotropicGaussian(3.0), priors.EmpiricalBayes(), priors.ScaleMixture()])
def test_kl_of_replicas_is_that_of_each(prior):
    net = nn.mlp([5, 4, 3], replicas=(2, 3), generator=torch.Generator().manual_seed(0))
    got = priors.kl(net, prior)
    assert got.shape == (2, 3)
    one = nn.mlp([5, 4, 3])
    for index in np.ndindex(2, 3):
        one.load_state_dict({name: value[index] for name, value in net.state_dict().items()})
        torch.testing.assert_close(got[index], priors.kl(one, prior))


def test_kl_in_double_and_single_precision_agree():
    net = nn.mlp([5, 4, 3], generator=torch.Generator().manual_seed(0))
    for prior in (priors.IsotropicGaussian(), priors.EmpiricalBayes(), priors.ScaleMixture(), priors.Quadratic()):
        single = priors.kl(net.float(), prior)
        double = priors.kl(net.double(), prior)
        assert (single.dtype, double.dtype) == (torch.float32, torch.float64)
        np.testing.assert_allclose(single.item(), double.item(), rtol=1e-5)


def test_kl_of_a_layer_and_of_a_shared_one():
    layer = nn.Linear(4, 4, generator=torch.Generator().manual_seed(0))
    prior = priors.IsotropicGaussian()
    torch.testing.assert_close(priors.kl(nn.Sequential(layer, nn.ReLU(), layer), prior), priors.kl(layer, prior))


def test_kl_needs_random_parameters():
    with pytest.raises(ValueError, match="random parameters"):
        priors.kl(torch.nn.Linear(3, 2), priors.IsotropicGaussian())


@pytest.mark.parametrize(
    ("replicas", "weight"), [((), 0.3), ((3,), 0.3), ((), torch.tensor([0.3])), ((3,), torch.tensor([0.3, 0.0, 2.0]))]
)
@pytest.mark.parametrize(
    "prior",
    [priors.IsotropicGaussian(3.0), priors.EmpiricalBayes(), priors.ScaleMixture(), priors.Quadratic()],
    ids=lambda prior: type(prior).__name__,
)
def test_gradient_added_in_place_is_that_of_autograd(prior, replicas, weight):
    net = nn.mlp([4, 5, 2], replicas=replicas, generator=torch.Generator().manual_seed(0))
    frozen = net[0].bias.log_std.requires_grad_(False)
    (weight * priors.kl(net, prior)).sum().backward()
    want = {name: None if p.grad is None else p.grad.clone() for name, p in net.named_parameters()}
    for p in net.parameters():
        p.grad = None
    net[0].weight.mean.grad = torch.ones_like(net[0].weight.mean)  # one that is there already, to be added to
    priors.add_kl_gradient_(net, prior, weight)
    net[0].weight.mean.grad -= 1
    assert frozen.grad is None
    for name, p in net.named_parameters():
        if want[name] is not None:
            torch.testing.assert_close(p.grad, want[name], rtol=1e-5, atol=1e-6)


def test_empirical_bayes_of_a_kernel_has_a_precision_for_each_input():
    """Of weights (out, in, height, width) the first layer's precisions are means over outputs alone."""
    m, s = torch.randn(6, 3, 2, 2, generator=torch.Generator().manual_seed(0)), torch.full((6, 3, 2, 2), 0.5)
    kernel = nn.RandomParameter("gaussian", Moments(m, s))
    first, later = (priors.EmpiricalBayes().precision_of(kernel, Place(place, False)) for place in (True, False))
    torch.testing.assert_close(first, 1 / (m**2 + s).mean(0, keepdim=True))
    torch.testing.assert_close(later, 1 / (m**2 + s).mean().view(1, 1, 1, 1))


def test_a_bias_is_known_by_its_dimensions_not_by_its_name():
    class Shift(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = nn.RandomParameter("gaussian", Moments(torch.ones(3), torch.ones(3)), in_dims=0)

    model = torch.nn.Sequential(Shift(), nn.Linear(3, 2))
    places = [place for _, place in priors._placed(model)]
    assert places == [Place(False, True), Place(True, False), Place(False, True)]
