"""Student-t targets: how far the predictive distribution is from the true one, what outliers do, and robust units."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from torchnpn import likelihoods as L
from torchnpn.likelihoods.targets import robust
from torchnpn.moments import Moments

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(200)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
GRID = np.sinh(np.linspace(-11, 11, 4001))
WIDTH = np.gradient(GRID)


def point(*values: float) -> torch.Tensor:
    return torch.tensor([values], dtype=torch.float64)


@pytest.mark.parametrize("nu", [2.1, 2.5, 4.0, 20.0])
@pytest.mark.parametrize(
    ("ratio", "divergence", "probability"), [(0.1, 5e-4, 5e-3), (1.0, 0.01, 0.02), (4.0, 0.03, 0.04)]
)
def test_a_gaussian_plus_student_t_is_nearly_student_t(nu, ratio, divergence, probability):
    """The error that the docstring states, against the density by quadrature; the variance is exact."""
    likelihood = L.StudentTNoise(initial_log_noise=0.0, initial_log_excess=float(np.log(nu - 2))).double()
    predicted = likelihood.predict(Moments(point(0.0), point(ratio)))
    density = (stats.t(nu).pdf(GRID[:, None] - np.sqrt(ratio) * NODES) * WEIGHTS).sum(1)
    logs = predicted.log_prob(torch.tensor(GRID)[:, None]).detach().numpy()[:, 0]
    assert 0 <= (density * (np.log(density) - logs) * WIDTH).sum() < divergence
    below = predicted.cdf(torch.tensor(GRID)[:, None]).numpy()[:, 0]
    assert np.abs(np.cumsum(density * WIDTH) - below).max() < probability
    np.testing.assert_allclose(predicted.variance.item(), nu / (nu - 2) + ratio, rtol=1e-6)


@pytest.mark.parametrize("elbo", [0.0, 0.4, 1.0])
def test_the_bound_is_one(elbo):
    """Above E -log t(y; o, …), by quadrature, and equal to it where nothing is uncertain."""
    likelihood = L.HeteroscedasticStudentT(1, 1.0, -1.2, 0.3).double()
    nu = 2 + np.exp(0.3)
    for y in (-4.0, 0.3, 1.0):
        for s in (0.0, 0.5):
            loss = likelihood.loss(Moments(point(0.3, 0.2), point(s, s)), point(y)).item()
            o, a = (m + np.sqrt(s) * NODES for m in (0.3, 0.2))
            scale = np.exp(0.5 * (a - 1.2))
            exact = -(WEIGHTS[:, None] * WEIGHTS * stats.t.logpdf(y, nu, o[:, None], scale)).sum()
            assert loss >= exact - 1e-7
            if s == 0:
                np.testing.assert_allclose(loss, exact, rtol=1e-7)
    mixed = L.StudentTNoise(1, elbo, -1.2, 0.3).double()
    parts = [L.StudentTNoise(1, share, -1.2, 0.3).double() for share in (0.0, 1.0)]
    o = Moments(point(0.3), point(0.5))
    predictive, bound = (part.loss(o, point(1.0)) for part in parts)
    torch.testing.assert_close(mixed.loss(o, point(1.0)), (1 - elbo) * predictive + elbo * bound)


def test_varying_noise_learns_from_the_centre_and_leaves_it_alone():
    o = Moments(point(0.3, 0.7).requires_grad_(), point(0.4, 0.2).requires_grad_())
    varying, even = L.HeteroscedasticStudentT(1, 0.3, -1.2, 0.3), L.StudentTNoise(1, 0.3, -1.2, 0.3)
    found = torch.autograd.grad(varying.loss(o, point(2.0)).sum(), [*o, varying.log_noise])
    f = Moments(*(part[:, :1].detach().requires_grad_() for part in o))
    wanted = torch.autograd.grad(even.loss(f, point(2.0)).sum(), [*f, even.log_noise])
    torch.testing.assert_close(found[0][:, :1], wanted[0])
    torch.testing.assert_close(found[1][:, :1], wanted[1])
    torch.testing.assert_close(found[2], wanted[2])
    assert found[0][0, 1] != 0 and found[1][0, 1] != 0


def test_one_value_far_out_moves_a_gaussian_and_not_student_t():
    slopes = {}
    for likelihood in (L.GaussianNoise(elbo=0.0), L.StudentTNoise(elbo=0.0)):
        m = point(0.0).requires_grad_()
        slopes[type(likelihood)] = [
            abs(torch.autograd.grad(likelihood.loss(Moments(m, point(0.1)), point(y)).sum(), m)[0].item())
            for y in (10.0, 1e6)
        ]
    assert slopes[L.GaussianNoise][1] > 1e4 * slopes[L.GaussianNoise][0]
    assert slopes[L.StudentTNoise][1] < 1e-3 * slopes[L.StudentTNoise][0]


def test_robust_units():
    rng = np.random.default_rng(0)
    y = np.stack([3 + 2 * rng.normal(size=20_001), rng.standard_cauchy(20_001)], 1)
    units = robust(y, None)
    np.testing.assert_allclose(units.shift, np.median(y, 0))
    np.testing.assert_allclose(units.scale, stats.iqr(y, axis=0) / (2 * stats.norm.ppf(0.75)), rtol=1e-3)
    np.testing.assert_allclose(units.scale, [2, 1 / stats.norm.ppf(0.75)], rtol=0.04)
    far = y.copy()
    far[:100] = 1e9
    assert np.abs(robust(far, None).scale / units.scale - 1).max() < 0.05
    weight = rng.integers(0, 3, len(y)).astype(float)
    for one, other in zip(robust(y, weight), robust(np.repeat(y, weight.astype(int), 0), None), strict=True):
        np.testing.assert_allclose(one, other)


@pytest.mark.parametrize(
    ("values", "scale"), [([5.0, 5.0, 5.0], 1.0), ([0.0] * 9 + [10.0], 1.0), ([1e9 + 1e-6, 1e9, 1e9, 1e9], 1.0)]
)
def test_units_of_numbers_that_are_mostly_the_same(values, scale):
    np.testing.assert_allclose(robust(np.array(values)[:, None], None).scale, scale)
