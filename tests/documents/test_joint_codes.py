"""Codes with covariances against enumerated masks, quadrature and Monte Carlo."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
import scipy.sparse
import torch

from torchnpn import DocumentAutoencoder, Moments
from torchnpn.documents import checked_counts, joint
from torchnpn.documents.layers import WordLinear, as_words
from torchnpn.documents.start import linear_layers
from torchnpn.moments import JointMoments
from torchnpn.nn import ACTIVATIONS, Linear

SMALL = {"hidden": (12, 6), "max_epochs": 20, "batch_size": 16, "learning_rate": 0.02}


def counts(documents: int = 60, words: int = 40) -> np.ndarray:
    rng = np.random.default_rng(0)
    found = (rng.random((documents, words)) < 0.3) * rng.integers(1, 4, (documents, words))
    found[0] = 0  # an empty document
    return found


@pytest.fixture(scope="module")
def encoder():
    return DocumentAutoencoder(**SMALL, initial_variance=0.3, device="cpu", random_state=0).fit(counts())


def filled(layer: Linear, spread: float) -> Linear:
    """A layer with means of unit size and variances `spread`², in float64."""
    generator = torch.Generator().manual_seed(0)
    layer.double()
    for parameter in (layer.weight, layer.bias):
        parameter.free[0].data.normal_(generator=generator)
        parameter.free[1].data.fill_(np.log(spread))
    return layer


def test_words_are_correlated_as_over_all_masks():
    layer, x, p = filled(WordLinear(5, 3), 1e-9), np.array([1.0, 0.5, 0.0, 0.2, 0.7]), 0.3
    W, b = layer.weight.moments.mean.detach().numpy(), layer.bias.moments.mean.detach().numpy()
    masks = np.array(list(itertools.product([0, 1], repeat=5)))
    chance = np.prod(np.where(masks, 1 - p, p), axis=1)
    o = (masks * x / (1 - p)) @ W.T + b
    mean = chance @ o
    covariance = (chance[:, None] * (o - mean)).T @ (o - mean)
    words = as_words(scipy.sparse.csr_matrix(x[None]))
    found = joint.of_words(layer, words._replace(values=words.values.double()), p)
    np.testing.assert_allclose(found.mean[0].detach(), mean, rtol=1e-6)  # x is taken in float32 on its way
    np.testing.assert_allclose(found.covariance[0].detach(), covariance, rtol=1e-6, atol=1e-7)


def test_linear_layer_is_that_of_draws():
    layer, rng, n = filled(Linear(4, 3), 0.3), np.random.default_rng(0), 400_000
    root = rng.normal(size=(4, 4))
    a = JointMoments(torch.tensor(rng.normal(size=4)), torch.tensor(root @ root.T))
    W, b = layer.weight.moments.mean.detach().numpy(), layer.bias.moments.mean.detach().numpy()
    drawn = rng.multivariate_normal(a.mean.numpy(), a.covariance.numpy(), n)
    weights = W + 0.3 * rng.normal(size=(n, 3, 4))
    o = np.einsum("nkl,nl->nk", weights, drawn) + b + 0.3 * rng.normal(size=(n, 3))
    found = joint.linear(layer, a)
    np.testing.assert_allclose(found.mean.detach(), o.mean(0), atol=0.02)
    np.testing.assert_allclose(found.covariance.detach(), np.cov(o.T), rtol=0.02, atol=0.05)


def hermite(correlation: float, mean: np.ndarray, std: np.ndarray, f) -> np.ndarray:
    """Covariance of f(x), f(y) for correlated Gaussians, by a product of Gauss-Hermite rules."""
    z, w = np.polynomial.hermite_e.hermegauss(60)
    w = w / w.sum()
    x, y = np.meshgrid(z, z, indexing="ij")
    weight = np.outer(w, w)
    one, other = f(mean[0] + std[0] * x), f(mean[1] + std[1] * (correlation * x + np.sqrt(1 - correlation**2) * y))
    return (weight * one * other).sum() - (weight * one).sum() * (weight * other).sum()


@pytest.mark.parametrize(("name", "f"), [("tanh", np.tanh), ("sigmoid", lambda x: 1 / (1 + np.exp(-x)))])
@pytest.mark.parametrize(("correlation", "relative"), [(0.01, 0.01), (0.5, 0.06), (-0.8, 0.12)])
def test_neurons_are_correlated_to_first_order(name, f, correlation, relative):
    """Price's theorem to first order: the error grows with the correlation, as the tolerance does."""
    mean, std = np.array([0.3, -0.4]), np.array([0.8, 0.5])
    covariance = np.outer(std, std) * np.array([[1, correlation], [correlation, 1]])
    o = JointMoments(torch.tensor(mean), torch.tensor(covariance))
    a = joint.activated(ACTIVATIONS[name](), o)
    alone = ACTIVATIONS[name]()(Moments(o.mean, o.variance))
    torch.testing.assert_close(a.mean, alone.mean)
    torch.testing.assert_close(a.variance, alone.variance)
    assert float(a.covariance[0, 1]) == pytest.approx(hermite(correlation, mean, std, f), rel=relative)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 2.0])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_neurons_have_a_covariance(name, scale):
    """Without eigenvalues below zero, but for rounding, whatever the activation and however sure the sums."""
    rng = np.random.default_rng(0)
    mean, root = torch.tensor(2 * rng.normal(size=(50, 5))), torch.tensor(scale * rng.normal(size=(50, 5, 5)))
    found = joint.activated(ACTIVATIONS[name](), JointMoments(mean, root @ root.mT)).covariance
    assert found.isfinite().all()
    least = torch.linalg.eigvalsh(found)[:, 0] / found.diagonal(dim1=1, dim2=2).sum(1).clamp_min(1e-30)
    assert float(least.min()) > -1e-9


@pytest.mark.slow
def test_codes_are_nearer_to_draws_than_those_of_independent_units(encoder):
    x = torch.from_numpy(encoder._architecture.inputs(checked_counts(counts())).toarray()).double()[1:9]
    n, generator = 20_000, torch.Generator().manual_seed(0)
    normal = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    a = 2 * x * (torch.rand(n, *x.shape, generator=generator) < 0.5)
    for layer in linear_layers(encoder.network_)[:2]:  # draws of sums, given what comes in, are draws of weights
        (W_m, W_s), (b_m, b_s) = ([part.detach().double() for part in p.moments] for p in (layer.weight, layer.bias))
        o = a @ W_m.T + b_m
        a = torch.tanh(o + (a**2 @ W_s.T + b_s).sqrt() * normal(*o.shape))
    draws = a.permute(1, 2, 0).numpy()  # (documents, units, draws)
    together, alone = encoder.transform_joint(counts()[1:9]), encoder.transform_dist(counts()[1:9])
    exact = np.stack([np.cov(one) for one in draws])

    def errors(mean, covariance):
        return np.abs(mean - draws.mean(-1)).mean(), np.abs(covariance - exact).mean()

    own = errors(alone.mean, np.stack([np.diag(one) for one in alone.variance]))
    found = errors(together.mean, together.covariance)
    assert found[0] < 0.6 * own[0] and found[1] < 0.2 * own[1]  # .0059 of .0119, .0061 of .0421


@pytest.mark.parametrize("noise", [0.0, 0.5, 0.99])
def test_it_is_a_covariance(encoder, noise):
    found = copy.copy(encoder).set_params(encoding_noise=noise).transform_joint(counts())
    assert found.mean.shape == (60, 6) and found.covariance.shape == (60, 6, 6)
    np.testing.assert_allclose(found.covariance, found.covariance.swapaxes(1, 2), atol=1e-6)
    assert np.linalg.eigvalsh(found.covariance).min() > 0
    np.testing.assert_array_equal(found.variance, np.stack([np.diag(one) for one in found.covariance]))


def test_first_layer_has_the_variances_of_the_network(encoder):
    words = as_words(encoder._architecture.inputs(checked_counts(counts())))
    layer = encoder.network_[1]
    torch.testing.assert_close(joint.of_words(layer, words, 0.5).variance, layer.noisy(words, 0.5).variance)


def test_an_estimator_gives_them():
    model = DocumentAutoencoder(hidden=(12, 6), max_epochs=2, device="cpu", random_state=0).fit(counts())
    every, one = model.transform_joint(counts()), model.transform_joint(counts()[7:8])
    assert every.mean.dtype == every.covariance.dtype == np.float64
    np.testing.assert_allclose(one.mean, every.mean[7:8], rtol=1e-12)
    np.testing.assert_allclose(one.covariance, every.covariance[7:8], rtol=1e-9, atol=1e-15)


def test_networks_without_them_say_so():
    with pytest.raises(ValueError, match="transform_joint expects a Gaussian network, got a gamma one"):
        DocumentAutoencoder("gamma", hidden=(5,), max_epochs=1, device="cpu").fit(counts()).transform_joint(counts())
