"""Losses of likelihoods: formulas of the textbook, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch
from scipy import optimize, special, stats
from test_likelihoods import COUNTS, NAMED, PROPER, ROWS, TARGETS, quadrature
from torch.nn import functional as F

from torchnpn import likelihoods as L
from torchnpn.likelihoods.gradients import autograd_loss_gradient, loss_gradient
from torchnpn.moments import Moments


@pytest.mark.parametrize("elbo", [0.0, 0.5, 1.0])
def test_gaussian_loss_mixes_predictive_and_elbo(elbo):
    case, noise = NAMED["gaussian"], np.exp(-1.2)
    o, y = case.latent(), case.y.numpy()
    predictive = -stats.norm(o.mean.numpy(), np.sqrt(o.variance.numpy() + noise)).logpdf(y)
    bound = -quadrature(lambda f: stats.norm(f, noise**0.5).logpdf(y[..., None]), o)
    loss = L.GaussianNoise(TARGETS, elbo, -1.2).loss(o, case.y)
    np.testing.assert_allclose(loss.detach(), ((1 - elbo) * predictive + elbo * bound).sum(-1), rtol=1e-6)


@pytest.mark.parametrize("elbo", [0.0, 0.5, 1.0])
def test_heteroscedastic_loss_mixes_predictive_and_elbo(elbo):
    case = NAMED["heteroscedastic"]
    o, y = case.latent(), case.y.numpy()
    f, varying = (Moments(o.mean[..., part], o.variance[..., part]) for part in (slice(0, 2), slice(2, 4)))
    log_noise = Moments(varying.mean - 1.2, varying.variance)
    variance = f.variance.numpy() + quadrature(np.exp, log_noise)
    predictive = -stats.norm(f.mean.numpy(), np.sqrt(variance)).logpdf(y)
    square = quadrature(lambda x: (y[..., None] - x) ** 2, f)
    bound = 0.5 * (square * quadrature(lambda x: np.exp(-x), log_noise) + log_noise.mean.numpy() + np.log(2 * np.pi))
    loss = L.HeteroscedasticGaussian(TARGETS, elbo, -1.2).double().loss(o, case.y)
    np.testing.assert_allclose(loss.detach(), ((1 - elbo) * predictive + elbo * bound).sum(-1), rtol=1e-6)


@pytest.mark.parametrize("elbo", [0.0, 0.3])
def test_varying_noise_learns_from_the_mean_and_leaves_it_alone(elbo):
    """Gradients of the mean are those under constant noise, those of the noise belong to its own loss."""
    case = NAMED["heteroscedastic"]
    o = [part.clone().requires_grad_() for part in case.latent()]
    varying = L.HeteroscedasticGaussian(TARGETS, elbo, -1.2).double()
    constant = L.GaussianNoise(TARGETS, elbo, -1.2).double()
    found = torch.autograd.grad(varying.loss(Moments(*o), case.y).sum(), [*o, varying.log_noise])
    f = [part.detach()[..., :TARGETS].clone().requires_grad_() for part in o]
    wanted = torch.autograd.grad(constant.loss(Moments(*f), case.y).sum(), [*f, constant.log_noise])
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one[..., :TARGETS], other)

    def loss(*noise):
        parts = (torch.cat([mean.detach(), part], -1) for mean, part in zip(f, noise, strict=True))
        return varying.loss(Moments(*parts), case.y)

    assert torch.autograd.gradcheck(loss, [part.detach()[..., TARGETS:].clone().requires_grad_() for part in o])


@pytest.mark.parametrize("case", PROPER, ids=lambda case: case.name)
def test_loss_is_minus_the_log_of_the_prediction(case):
    o, likelihood = case.latent(), case.make()
    o = Moments(o.mean.abs(), o.variance) if case.name.startswith("direct") else o
    log_prob = likelihood.predict(o).log_prob(case.y)
    torch.testing.assert_close(likelihood.loss(o, case.y), -(log_prob if case.y.ndim == 1 else log_prob.sum(-1)))


def test_kl_to_target_is_the_kl_of_two_gaussians():
    case, o = NAMED["kl_to_target"], NAMED["kl_to_target"].latent()
    Normal = torch.distributions.Normal
    expected = torch.distributions.kl_divergence(Normal(case.y, 0.05**0.5), Normal(o.mean, o.std)).sum(-1)
    torch.testing.assert_close(L.KLToTarget(0.05).loss(o, case.y), expected, rtol=1e-6, atol=0.0)


def test_squared_error_is_an_expectation():
    case, o = NAMED["squared_error"], NAMED["squared_error"].latent()
    expected = quadrature(lambda x: (case.y.numpy()[..., None] - x) ** 2, o).sum(-1)
    np.testing.assert_allclose(L.SquaredError().loss(o, case.y), expected)


def test_direct_poisson_is_the_corrected_error():
    o = Moments(torch.rand(ROWS, TARGETS, dtype=torch.float64) + 0.1, torch.rand(ROWS, TARGETS, dtype=torch.float64))
    expected = -stats.poisson(o.mean.numpy()).logpmf(COUNTS.numpy()).sum(-1)
    np.testing.assert_allclose(L.Direct("poisson").loss(o, COUNTS), expected)


def test_poisson_kl_is_a_poisson_with_the_rate_nearest_in_divergence():
    """c minimises KL(N(c, c) ‖ N(m, s)), searched here for by scipy."""
    m, s = np.array([[0.2, 1.0, 3.0], [0.5, 2.0, 0.1]]), np.array([[0.3, 0.5, 1.0], [0.5, 4.0, 0.02]])
    o, y = Moments(torch.tensor(m), torch.tensor(s)), np.array([[0.0, 1.0, 4.0], [2.0, 7.0, 0.0]])

    def nearest(mean, variance):
        def divergence(c):
            return 0.5 * (c / variance + (c - mean) ** 2 / variance - np.log(c))

        return optimize.minimize_scalar(divergence, bounds=(1e-9, 20), method="bounded", options={"xatol": 1e-12}).x

    c = np.vectorize(nearest)(m, s)
    np.testing.assert_allclose(L.PoissonKL().predict(o).mean, c, rtol=1e-6)
    expected = -stats.poisson(c).logpmf(y).sum(-1)
    np.testing.assert_allclose(L.PoissonKL().loss(o, torch.tensor(y)), expected, rtol=1e-6)


def test_scaled_sigmoids_have_the_papers_gradients():
    """∂E/∂o_m = (σ(κ o_m) - y) κ and ∂E/∂o_s = (σ(κ o_m) - y) o_m · (-π/16) (1 + π o_s/8)^-3/2 (supplement)."""
    case = NAMED["scaled_sigmoids"]
    o = Moments(*(part.requires_grad_() for part in case.latent()))
    by_m, by_s = torch.autograd.grad(case.make().loss(o, case.y).sum(), list(o))
    m, s = (part.detach().numpy() for part in o)
    kappa = 1 / np.sqrt(1 + np.pi * s / 8)
    residual = special.expit(kappa * m) - np.eye(m.shape[-1])[case.y.numpy()]
    np.testing.assert_allclose(by_m, residual * kappa, rtol=1e-9)
    np.testing.assert_allclose(by_s, residual * m * -np.pi / 16 * kappa**3, rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "torchs"),
    [
        ("gaussian", lambda m, y: F.gaussian_nll_loss(m, y, torch.full_like(m, np.exp(-1.2)), True, reduction="none")),
        ("squared_error", lambda m, y: F.mse_loss(m, y, reduction="none")),
        ("poisson", lambda m, y: F.poisson_nll_loss(m, y, reduction="none") + torch.lgamma(y + 1)),
        ("softmax_mean", lambda m, y: F.cross_entropy(m, y, reduction="none")[:, None]),
        ("scaled_softmax", lambda m, y: F.cross_entropy(m, y, reduction="none")[:, None]),
        ("scaled_sigmoids", lambda m, y: F.binary_cross_entropy_with_logits(m, F.one_hot(y).to(m), reduction="none")),
        ("sigmoids", lambda m, y: F.binary_cross_entropy(m.sigmoid(), F.one_hot(y).to(m), reduction="none")),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("point", [True, False])
def test_zero_variance_is_the_ordinary_loss(name, torchs, dtype, point):
    case = NAMED[name]
    m = case.latent(dtype=dtype).mean.requires_grad_()
    y = case.y if case.y.ndim == 1 else case.y.to(dtype)
    loss = case.make().loss(Moments(m, None if point else torch.zeros_like(m)), y)
    expected = torchs(m, y).sum(-1)
    tolerance = {"rtol": 1e-6 if dtype == torch.float64 else 2e-5, "atol": 1e-6}
    torch.testing.assert_close(loss, expected, **tolerance)
    torch.testing.assert_close(*(torch.autograd.grad(x.sum(), m)[0] for x in (loss, expected)), **tolerance)


@pytest.mark.parametrize("elbo", [0.3, 1.0])
@pytest.mark.parametrize("alpha", [0.0, 0.4])
def test_counts_mix_predictive_and_elbo(elbo, alpha):
    """-E log p(y | o) by quadrature for Poisson counts; for overdispersed ones the bound of the docstring, above it."""
    m, s, y = np.array([[0.3, -1.0, 2.0]]), np.array([[0.5, 2.0, 0.01]]), np.array([[0.0, 3.0, 9.0]])
    likelihoods = [
        L.NegativeBinomialCounts(3, np.log(alpha), share) if alpha else L.PoissonCounts(share) for share in (0.0, elbo)
    ]
    o = Moments(*(torch.tensor(part) for part in (m, s)))
    predictive, loss = (likelihood.loss(o, torch.tensor(y)).item() for likelihood in likelihoods)
    bound = (loss - (1 - elbo) * predictive) / elbo
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    rate = np.exp(m[..., None] + np.sqrt(s)[..., None] * nodes)
    logs = scipy.stats.nbinom(1 / alpha, 1 / (1 + alpha * rate)) if alpha else scipy.stats.poisson(rate)
    expected = -(logs.logpmf(y[..., None]) @ weights).sum() / weights.sum()
    if alpha:
        mean = np.exp(m + 0.5 * s)
        at_mean = scipy.stats.nbinom(1 / alpha, 1 / (1 + alpha * mean)).logpmf(y)
        assert bound > expected
        expected = (0.5 * y * s - at_mean).sum()
    np.testing.assert_allclose(bound, expected, rtol=1e-5)


@pytest.mark.parametrize("elbo", [0.0, 0.3])
@pytest.mark.parametrize("make", [L.PoissonCounts, L.NegativeBinomialCounts])
def test_gradients_of_counts_in_closed_form_hold_beyond_the_limits(make, elbo):
    """Latents that mean "surely 0", and others that no data lead to, against autograd."""
    m, s = (
        part.reshape(-1, 1).astype(np.float32) for part in np.meshgrid([-80.0, -20, 0, 3, 12], [0.01, 3.9, 4.5, 90])
    )
    y, share = np.resize([0.0, 1.0, 7.0], m.shape).astype(np.float32), np.full(len(m), 1 / len(m), np.float32)
    likelihood = make(elbo=elbo)
    found, expected = (
        loss_gradient(likelihood)(m, s, y, share),
        autograd_loss_gradient(likelihood, m, s, y, share),
    )
    np.testing.assert_allclose(found.rows, expected.rows, rtol=1e-3)  # 1 - p of huge means has few digits
    for name in ("by_mean", "by_variance"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=2e-3, atol=1e-6)


def test_a_mean_of_counts_is_not_made_of_uncertainty():
    """The mean is at most e^2.2 times the median rate, however uncertain the latent is."""
    o = Moments(torch.tensor([[-12.0]]), torch.tensor([[500.0]]))
    assert L.PoissonCounts().predict(o).mean.item() < np.exp(-12 + 2.2)


def test_counts_keep_their_gradient_near_the_poisson_limit():
    """∂ log p/∂v → ((y - μ)² - y)/2 and ∂ log p/∂s = that + ½ ∂ log p/∂m, also in float32."""
    m, y = torch.tensor([[np.log(50.0)]], dtype=torch.float32), torch.tensor([[61.0]])
    for variance in (0.0, 1e-9, 1e-7, 1e-6):
        s = torch.full_like(m, variance).requires_grad_()
        (slope,) = torch.autograd.grad(L.PoissonCounts().loss(Moments(m, s), y).sum(), s)
        np.testing.assert_allclose(slope.item(), -(((61 - 50) ** 2 - 61) / 2 + (61 - 50) / 2), rtol=2e-3)
