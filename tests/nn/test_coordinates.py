"""Other coordinates of a random parameter: the same distributions, learnt in a family's own numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import torchnpn as npn
from torchnpn import nn, priors
from torchnpn.families import Gamma, Gaussian
from torchnpn.moments import Moments
from torchnpn.nn import COORDINATES, RandomParameter
from torchnpn.nn.coordinates import SHIFT
from torchnpn.training import Recipe, train

OTHERS = [choice for choice in COORDINATES if choice != "usual"]
K = {  # the paper's k(x)
    "": np.exp,
    "softplus": lambda x: np.log1p(np.exp(x)),
    "shifted": lambda x: np.exp(x - SHIFT),
}
CASES = [(family, choice) for family in ("gaussian", "gamma") for choice in OTHERS] + [
    (family, choice) for family in ("beta", "poisson", "rayleigh") for choice in OTHERS if choice.startswith("proxy")
]
EXTREMES = (-3e38, -1e30, -200.0, -50.0, 0.0, 50.0, 200.0, 1e30, 3e38)


def layer(family: str, choice: str) -> nn.Linear:
    return nn.Linear(4, 3, family=family, coordinates=choice, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("family", "choice"), CASES)
def test_the_first_distributions_are_those_of_the_usual_coordinates(family, choice):
    usual = nn.Linear(4, 3, family=family, posterior="mean_field", generator=torch.Generator().manual_seed(0))
    for ours, theirs in zip(layer(family, choice).weight.moments, usual.weight.moments, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=0)


@pytest.mark.parametrize("choice", OTHERS)
def test_gaussian_numbers_mean_what_the_paper_says(choice):
    kind, _, how = choice.partition("_")
    first, second = torch.tensor([0.7, -3.0]), torch.tensor([1.3, 0.4])
    parameter = RandomParameter("gaussian", Moments(torch.zeros(2), torch.ones(2)), coordinates=choice)
    with torch.no_grad():
        for tensor, value in zip(parameter.learnable, (first, second), strict=True):
            tensor.copy_(value)
    k = K[how](second.double().numpy())
    c = first.double().numpy()
    mean, variance = (c, k) if kind == "proxy" else (c / (2 * k), 1 / (2 * k))  # N(-c/2d, -1/2d) with d = -k
    np.testing.assert_allclose(parameter.moments.mean.detach(), mean, rtol=1e-5)
    np.testing.assert_allclose(parameter.moments.variance.detach(), variance, rtol=1e-5)


@pytest.mark.parametrize("choice", OTHERS)
def test_gamma_numbers_mean_what_the_paper_says(choice):
    how = choice.partition("_")[2]
    start = SHIFT if how == "shifted" else 0.0
    first, second = torch.tensor([0.7, 3.0]) + start, torch.tensor([1.3, 0.4]) + start
    parameter = RandomParameter("gamma", Moments(torch.ones(2), torch.ones(2)), coordinates=choice)
    with torch.no_grad():
        for tensor, value in zip(parameter.learnable, (first, second), strict=True):
            tensor.copy_(value)
    c, d = (K[how](one.double().numpy()) for one in (first, second))
    found = parameter.distribution
    assert isinstance(found, Gamma)
    np.testing.assert_allclose(found.c.detach(), c, rtol=1e-4)
    np.testing.assert_allclose(found.d.detach(), d, rtol=1e-4)


@pytest.mark.parametrize(("family", "choice"), CASES)
def test_every_number_gives_finite_moments_and_gradients(family, choice):
    parameter = layer(family, choice).weight
    for first in EXTREMES:
        for second in EXTREMES:
            with torch.no_grad():
                for tensor, value in zip(parameter.learnable, (first, second), strict=False):
                    tensor.fill_(value)
                    tensor.grad = None
            mean, variance = parameter.moments
            (1e-3 * (mean.sum() + variance.sum())).backward()
            found = mean, variance, *(tensor.grad for tensor in parameter.learnable)
            assert all(bool(one.isfinite().all()) for one in found), (first, second)
            assert bool((variance >= 0).all())


@pytest.mark.parametrize("choice", OTHERS)
def test_the_divergence_from_a_prior_and_its_gradient_are_those_of_the_distributions(choice):
    network = nn.Sequential(layer("gaussian", choice))
    prior = priors.IsotropicGaussian(2.0)
    expected = sum(
        npn.families.kl(Gaussian(*one.moments), Gaussian(torch.tensor(0.0), torch.tensor(0.5))).sum()
        for one in (network[0].weight, network[0].bias)
    )
    torch.testing.assert_close(npn.kl(network, prior), expected, rtol=1e-4, atol=1e-4)
    wanted = torch.autograd.grad(expected, list(network.parameters()))
    priors.add_kl_gradient_(network, prior, 1.0)
    for parameter, gradient in zip(network.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("choice", ["proxy_softplus", "natural"])
@pytest.mark.parametrize("family", ["gaussian", "gamma"])
def test_networks_learn_in_them_and_come_back_from_files(family, choice, tmp_path):
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(64, 3, generator=generator)
    y = x.sum(1, keepdim=True)
    network = nn.mlp([3, 8, 1], family, coordinates=choice, generator=generator)
    recipe = Recipe(epochs=60, batch_size=16, learning_rate=0.1)
    history = train(network, (x, y), npn.likelihoods.SquaredError(), priors.IsotropicGaussian(), recipe, device="cpu")
    assert history.epochs[-1].loss < 0.5 * history.epochs[0].loss
    npn.save(network, tmp_path / "network.npn")
    again = npn.load(tmp_path / "network.npn")
    assert again[0].coordinates == choice
    torch.testing.assert_close(again(x).mean, network.eval()(x).mean)


def test_what_cannot_be_had_is_refused_in_words():
    with pytest.raises(ValueError, match=r'coordinates="natural" expects weights of Gaussian, Gamma, got Beta'):
        layer("beta", "natural")
    with pytest.raises(ValueError, match="coordinates expects one of usual, proxy"):
        layer("gaussian", "polar")
    with pytest.raises(ValueError, match=r"tied.* expects the usual coordinates"):
        nn.Linear(2, 2, posterior="tied", coordinates="proxy")
    with pytest.raises(ValueError, match="usual coordinates"):
        layer("gaussian", "proxy").load_state_dict(torch.nn.Linear(4, 3).state_dict())


def test_a_standard_deviation_can_be_set():
    parameter = layer("gaussian", "natural_softplus").weight
    before = parameter.moments.mean.detach()
    parameter.fill_std_(0.3)
    torch.testing.assert_close(parameter.moments.variance, torch.full((3, 4), 0.09))
    torch.testing.assert_close(parameter.moments.mean, before)
