"""Losses for words: textbook formulas, finite everywhere, the same in parts or whole and sparse or dense."""

import numpy as np
import pytest
import scipy.sparse
import torch
from scipy import integrate, special, stats

from torchnpn import likelihoods, nn
from torchnpn.likelihoods.words import BernoulliPoisson, CrossEntropy, GammaWords, PoissonRate
from torchnpn.moments import Moments
from torchnpn.sparse import SparseRows
from torchnpn.training.wide import wide_loss


def outputs(shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(shape, generator=generator, dtype=torch.float64) * scale + 0.05 for scale in (3.0, 2.0))


def cross_entropy(y, p):
    return -(special.xlogy(y, p) + special.xlog1py(1 - y, -p)).sum(-1)


def gamma_of(m, s):
    return stats.gamma(m**2 / s, scale=s / m)


TEXTBOOK = {
    "bce": (CrossEntropy(), lambda m, s, y: cross_entropy(y, special.expit(m / np.sqrt(1 + np.pi * s / 8)))),
    "link": (BernoulliPoisson(), lambda m, s, y: cross_entropy(y, 1 - (1 + s / m) ** (-(m**2) / s))),
    "poisson": (
        PoissonRate(),
        lambda m, s, y: -(stats.poisson(m).logpmf(np.round(y)) + special.gammaln(np.round(y) + 1)).sum(-1),
    ),
    "gamma": (GammaWords(0.02), lambda m, s, y: -gamma_of(m, s).logpdf(y + 0.02).sum(-1)),
}


@pytest.mark.parametrize("name", TEXTBOOK)
def test_losses_are_those_of_the_textbook(name):
    likelihood, formula = TEXTBOOK[name]
    m, s = outputs((5, 7))
    y = torch.from_numpy(np.random.default_rng(0).choice([0.0, 0.3, 1.0], (5, 7)))
    y = y.round() * 3 if name == "poisson" else y
    likelihood.check_targets(y)
    found = likelihood.loss(Moments(m, s), y)
    np.testing.assert_allclose(found, formula(m.numpy(), s.numpy(), y.numpy()), rtol=1e-10)


def test_the_link_is_the_mean_over_a_gamma_rate():
    m, s = outputs((4,))
    for i in range(4):
        chance = gamma_of(m[i].item(), s[i].item()).expect(lambda o: -np.expm1(-o))
        np.testing.assert_allclose(BernoulliPoisson().predict(Moments(m, s)).p[i], chance, rtol=1e-6)


def test_the_scaled_logit_is_near_the_mean_of_the_sigmoid():
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    for mean in (-5.0, -1.0, 0.0, 2.0):
        for variance in (0.0, 0.5, 2.0, 10.0):
            exact = weights @ special.expit(mean + np.sqrt(variance) * nodes) / weights.sum()
            o = Moments(torch.tensor([[mean]]), torch.tensor([[variance]]))
            assert abs(CrossEntropy().predict(o).p.item() - exact) < 0.02  # the approximation's own error


@pytest.mark.parametrize("name", TEXTBOOK)
def test_parts_of_the_variance_add_up_and_the_epistemic_one_is_that_of_the_output(name):
    likelihood, _ = TEXTBOOK[name]
    m, s = outputs((3, 4))
    parts = likelihood.variance_parts(Moments(m, s))
    torch.testing.assert_close(parts.total, parts.epistemic + parts.aleatoric)
    if name == "link":
        p = gamma_of(m.numpy(), s.numpy())
        low, high = p.ppf(1e-14), p.ppf(1 - 1e-14)
        for place in np.ndindex(3, 4):
            density = lambda o, k, at=place: np.exp(-k * o) * stats.gamma.pdf(o, *_shape(m, s, at))
            first, second = (integrate.quad(density, low[place], high[place], args=(k,), limit=200)[0] for k in (1, 2))
            np.testing.assert_allclose(parts.epistemic[place], second - first**2, rtol=1e-3, atol=1e-6)
    else:
        assert (parts.epistemic >= 0).all() and (parts.aleatoric >= 0).all()


def _shape(m, s, place):
    mean, variance = m[place].item(), s[place].item()
    return mean**2 / variance, 0, variance / mean


@pytest.mark.parametrize("name", TEXTBOOK)
@pytest.mark.parametrize("variance", [0.0, 1e-12, 1.0, 1e6])
def test_losses_stay_finite_far_out(name, variance):
    likelihood, _ = TEXTBOOK[name]
    m = torch.tensor([[1e-12, 1e-3, 1.0, 50.0, 1e4]], requires_grad=True)
    s = torch.full((1, 5), variance, requires_grad=True)
    for y in (torch.zeros(1, 5), torch.ones(1, 5)):
        loss = likelihood.loss(Moments(m, s), y).sum()
        gradients = torch.autograd.grad(loss, (m, s), allow_unused=True, materialize_grads=True)
        assert loss.isfinite() and all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize(
    ("likelihood", "family"),
    [
        (CrossEntropy(), "gaussian"),
        (BernoulliPoisson(), "gamma"),
        (PoissonRate(), "gamma"),
        (GammaWords(), "gamma"),
        (likelihoods.KLToTarget(0.01), "gaussian"),
        (likelihoods.SquaredError(), "gamma"),
    ],
    ids=lambda case: case if isinstance(case, str) else type(case).__name__,
)
def test_in_parts_or_whole_and_sparse_or_dense_the_loss_is_the_same(likelihood, family):
    layer = nn.Linear(5, 37, family=family, generator=torch.Generator().manual_seed(0)).double()
    dense = np.random.default_rng(0).choice([0.0, 0.5, 1.0], (6, 37), p=[0.8, 0.1, 0.1])
    y = SparseRows.from_csr(scipy.sparse.csr_matrix(dense), dtype=torch.float64).all()
    a = Moments(*(part.requires_grad_() for part in outputs((6, 5))))
    share = torch.linspace(-1, 2, 6, dtype=torch.float64)
    leaves = [*a, *layer.parameters()]
    expected = likelihood.loss(layer(a), torch.from_numpy(dense))
    slopes = torch.autograd.grad((expected * share).sum(), leaves)
    for chunk in (1, 10, 37):
        found = wide_loss(a, layer, likelihood, y, share, chunk)
        torch.testing.assert_close(found.rows, expected.detach())
        torch.testing.assert_close(torch.autograd.grad(found.total, leaves), slopes)


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (CrossEntropy(), 1.5, "from 0 to 1"),
        (BernoulliPoisson(), -0.1, "from 0 to 1"),
        (PoissonRate(), -1.0, "got -1"),
        (GammaWords(), float("nan"), "finite"),
    ],
)
def test_targets_that_are_no_words_are_refused(likelihood, y, message):
    with pytest.raises(ValueError, match=message):
        likelihood.check_targets(torch.tensor([[0.0, y]]))
