"""Targets with zeros of another sort: losses and moments by quadrature, where outputs start, what they say of zeros."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import special, stats

from torchnpn import likelihoods as L
from torchnpn.estimators import NPNRegressor
from torchnpn.likelihoods.guards import folded
from torchnpn.moments import Moments

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(100)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
ALPHA = np.exp(-0.5)


def point(*values: float) -> torch.Tensor:
    return torch.tensor([values], dtype=torch.float64)


def count(rate: np.ndarray, alpha: float) -> stats.rv_discrete:
    return stats.nbinom(1 / alpha, 1 / (1 + alpha * rate)) if alpha else stats.poisson(rate)


COUNTS = {
    "poisson": (L.ZeroInflatedPoisson, 0.0),
    "negative_binomial": (lambda elbo=0.0: L.ZeroInflatedNegativeBinomial(1, -0.5, elbo), ALPHA),
}
every_count = pytest.mark.parametrize("name", COUNTS)
LATENTS = [(0.4, -0.8, 0.3, 0.5), (-1.5, 2.0, 1.0, 2.0), (2.0, -3.0, 0.0, 0.0)]


@every_count
@pytest.mark.parametrize("latent", LATENTS)
def test_moments_follow_the_law_of_total_variance(name, latent):
    make, alpha = COUNTS[name]
    m1, m2, s1, s2 = latent
    rate, zero = np.exp(m1 + s1**0.5 * NODES)[:, None], special.expit(m2 + s2**0.5 * NODES)
    weight = WEIGHTS[:, None] * WEIGHTS
    mean = (weight * (1 - zero) * rate).sum()
    epistemic = (weight * ((1 - zero) * rate) ** 2).sum() - mean**2
    variance = (1 - zero) * (count(rate, alpha).var() + rate**2) - ((1 - zero) * rate) ** 2
    o, likelihood = Moments(point(m1, m2), point(s1, s2)), make()
    parts, predicted = likelihood.variance_parts(o), likelihood.predict(o)
    np.testing.assert_allclose(predicted.mean.item(), mean, rtol=1e-5)
    np.testing.assert_allclose(parts.epistemic.item(), epistemic, rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(parts.aleatoric.item(), (weight * variance).sum(), rtol=1e-5)
    np.testing.assert_allclose(predicted.variance.item(), parts.total.item(), rtol=1e-6)


@every_count
@pytest.mark.parametrize("y", [0.0, 1.0, 6.0])
def test_the_bound_is_one(name, y):
    """Above -E log P(y | rate) for the predicted share of zeros, and equal to it for a known rate."""
    make, alpha = COUNTS[name]
    for m1, m2, s1, s2 in LATENTS:
        loss = make(elbo=1.0).loss(Moments(point(m1, m2), point(s1, s2)), point(y)).item()
        share = (WEIGHTS * special.expit(m2 + s2**0.5 * NODES)).sum()
        rate = np.exp(m1 + s1**0.5 * NODES)
        logs = np.log1p(-share) + count(rate, alpha).logpmf(y)
        exact = -(WEIGHTS * (np.logaddexp(np.log(share), logs) if y == 0 else logs)).sum()
        assert loss >= exact - 1e-6
        if s1 == 0:
            np.testing.assert_allclose(loss, exact, rtol=1e-5)


def test_a_folded_logit_has_nearly_the_same_probability():
    """To 0.003, which the docstring states; up to a variance of 4 it is the same."""
    z = np.linspace(-12, 12, 20_001)
    density = stats.norm.pdf(z) / stats.norm.pdf(z).sum()
    for s in (0.5, 4.0, 5.0, 20.0, 400.0, 1e4):
        for ratio in (0.0, 0.3, 1.0, 2.0, 3.0):
            m = ratio * np.sqrt(s)
            near = folded(point(m), point(s))
            exact, found = (
                (density * special.expit(a + np.sqrt(b) * z)).sum() for a, b in ((m, s), map(torch.Tensor.item, near))
            )
            assert abs(found - exact) < (1e-12 if s <= 4 else 0.003)


def test_surely_zero_is_said_by_the_probability_of_a_zero():
    """Where the rate has to say it, it does so by a huge variance, and means explode."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(600, 1))
    y = np.where(x[:, 0] < 0, 0, rng.poisson(5.0, 600)).astype(float)
    model = NPNRegressor("zero_inflated_poisson", max_epochs=150, random_state=0, effort="quick").fit(x, y)
    never, often = model.predict_dist([[-0.7]]), model.predict_dist([[0.7]])
    assert never.distribution.p > 0.95 and often.distribution.p < 0.05
    assert never.mean < 0.3 and abs(often.mean - 5) < 0.5
    assert abs(model.log_likelihood([[0.7]], [5.0]) - stats.poisson(5).logpmf(5)) < 0.2


@pytest.mark.parametrize("name", ["hurdle_gamma", "hurdle_lognormal"])
def test_a_hurdle_is_two_losses(name):
    """The cross-entropy of a zero, and the loss of the amount where there is one; its variance by simulation."""
    kind = L.BY_NAME[name]
    likelihood, amounts = kind(elbo=0.3), kind.amounts(elbo=0.3)
    o = Moments(point(0.4, -0.8), point(0.3, 0.5))
    P = (WEIGHTS * special.expit(-0.8 + 0.5**0.5 * NODES)).sum()
    amount = amounts.loss(Moments(point(0.4), point(0.3)), point(2.5)).item()
    np.testing.assert_allclose(likelihood.loss(o, point(0.0)).item(), -np.log(P), rtol=1e-5)
    np.testing.assert_allclose(likelihood.loss(o, point(2.5)).item(), amount - np.log1p(-P), rtol=1e-5)
    rng = np.random.default_rng(0)
    of_base = amounts.predict(Moments(point(0.4), point(0.3))).sample(400_000, torch.Generator().manual_seed(0))
    y = of_base.detach().numpy()[:, 0, 0] * (rng.random(400_000) > P)
    predicted, parts = likelihood.predict(o), likelihood.variance_parts(o)
    np.testing.assert_allclose(predicted.mean.item(), y.mean(), rtol=0.01)
    np.testing.assert_allclose(parts.total.item(), y.var(), rtol=0.03)
    np.testing.assert_allclose(parts.total.item(), predicted.variance.item(), rtol=1e-6)
    known = likelihood.variance_parts(Moments(o.mean, point(0.0, 0.0)))
    assert known.epistemic == 0 < parts.epistemic < parts.total
    start = kind.start(np.array([[0.0, 0.0], [0.0, 2.0], [3.0, 2.0], [0.0, 2.0]]), None)
    np.testing.assert_allclose(np.exp(start[:2]), [3.0, 2.0])
    np.testing.assert_allclose(special.expit(start[2:]), [0.75, 0.25])
    assert np.isfinite(kind.start(np.zeros((4, 1)), np.ones(4))).all()


@pytest.mark.parametrize("name", ["hurdle_gamma", "hurdle_lognormal"])
@pytest.mark.parametrize("variance", [1e-6, 0.5, 1.0, 7.0, 1e4])
def test_what_is_known_of_amounts_without_features(name, variance):
    marginal = L.BY_NAME[name].marginal(Moments(point(2.0), point(4 * variance)))
    np.testing.assert_allclose(marginal.mean.item(), 2.0, rtol=1e-6)
    np.testing.assert_allclose(marginal.variance.item(), 4 * variance, rtol=1e-4)
    assert 0 < marginal.p < 1 and marginal.log_prob(0.0).isfinite()


@every_count
def test_outputs_start_near_the_best_constant(name):
    kind = L.BY_NAME[f"zero_inflated_{name}"]
    rng = np.random.default_rng(0)
    y = (rng.poisson(4.0, 5_000) * (rng.random(5_000) < 0.3)).astype(float)[:, None]
    start = kind.start(y, None)
    assert start.shape == (2,)
    np.testing.assert_allclose([np.exp(start[0]), special.expit(start[1])], [4.0, 0.7], rtol=0.15)
    for odd in (np.zeros((5, 1)), np.full((5, 1), 9.0)):
        assert np.isfinite(kind.start(odd, None)).all()
