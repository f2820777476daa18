"""Distributions calibrated by held-out levels: laws of a distribution, against sums, integrals and numpy's own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from torchnpn.families import Calibrated, Distribution, Gamma, Gaussian, Mixture, Poisson, ZeroInflated

F64 = torch.float64


def full(value, rows, *shape):
    return torch.full((*shape, rows, 1), float(value), dtype=F64)


def narrow(rows):
    return Gaussian(full(1, rows), full(0.25, rows))


def two(rows):
    return Mixture(Gaussian(torch.stack([full(0, rows), full(2, rows)]), full(1, rows, 2)))


def counts(rows):
    return Poisson(full(3, rows))


def amounts(rows):
    return ZeroInflated(Gamma(full(2, rows), full(1, rows)), full(0.3, rows))


LEVELS = np.random.default_rng(0).beta(0.5, 0.7, size=(60, 1))
CASES = {
    "gaussian": lambda rows: Calibrated((narrow(rows),), (LEVELS,)),
    "folds": lambda rows: Calibrated((narrow(rows), two(rows)), (LEVELS[:35], LEVELS[35:])),
    "counts": lambda rows: Calibrated((counts(rows),), (LEVELS,)),
    "folds of counts": lambda rows: Calibrated((counts(rows), Poisson(full(5, rows))), (LEVELS[:30], LEVELS[30:])),
    "amounts": lambda rows: Calibrated((amounts(rows),), (LEVELS,)),
}
GRIDS = {"gaussian": (-20, 20), "folds": (-20, 20), "counts": (0, 80), "folds of counts": (0, 80), "amounts": (0, 60)}
each_case = pytest.mark.parametrize("name", CASES)


def grid(name, size=20_001):
    low, high = GRIDS[name]
    t = np.arange(low, high + 1.0) if "counts" in name else np.linspace(low, high, size)
    return t, CASES[name](len(t))


@each_case
def test_it_is_a_distribution(name):
    t, d = grid(name)
    assert isinstance(d, Distribution)
    F = d.cdf(torch.from_numpy(t[:, None])).numpy()[:, 0]
    assert (np.diff(F) >= 0).all()
    assert F[0] < 0.5
    np.testing.assert_allclose(F[-1], 1, atol=1e-6)


@each_case
def test_quantiles_invert_the_distribution_function(name):
    q = np.r_[0.001, np.linspace(0.01, 0.99, 40), 0.999]
    d = CASES[name](len(q))
    y = d.quantile(torch.from_numpy(q[:, None])).numpy()
    at = d.cdf(torch.from_numpy(y)).numpy()[:, 0]
    step = 1.0 if "counts" in name else 1e-9
    below = d.cdf(torch.from_numpy(y - step * np.maximum(np.abs(y), 1))).numpy()[:, 0]
    assert (at >= q - 1e-9).all()
    assert (below <= q).all()
    if name in ("gaussian", "folds"):
        np.testing.assert_allclose(at, q, atol=1e-9)
        assert d.quantile(0.0)[0] == -np.inf
        assert d.quantile(1.0)[0] == np.inf


@each_case
def test_its_density_has_an_integral_of_one(name):
    t, d = grid(name)
    p = np.exp(d.log_prob(torch.from_numpy(t[:, None])).numpy()[:, 0])
    if "counts" in name:
        np.testing.assert_allclose(p.sum(), 1, rtol=1e-6)
    else:
        atom = p[0] if name == "amounts" else 0.0
        np.testing.assert_allclose(atom + np.trapezoid(p[1:], t[1:]), 1, rtol=2e-3)


@each_case
@pytest.mark.parametrize("y", [0.0, 2.0, 7.0])
def test_its_score_is_the_integral(name, y):
    t, d = grid(name)
    F = d.cdf(torch.from_numpy(t[:, None])).numpy()[:, 0]
    h = (F - (t >= y)) ** 2
    expected = h[:-1].sum() if "counts" in name else np.trapezoid(h, t)
    np.testing.assert_allclose(d[[0]].crps(y).item(), expected, rtol=5e-3)  # the distribution function has kinks


@each_case
def test_draws_fall_at_levels_of_a_uniform_variable(name):
    d = CASES[name](3)
    draws = d.sample(2_000, torch.Generator().manual_seed(0))
    assert draws.shape == (2_000, 3, 1)
    y = draws.reshape(-1, 1)
    many = CASES[name](len(y))
    at, below = (many.cdf(t).numpy()[:, 0] for t in (y, torch.nextafter(y, torch.tensor(-torch.inf, dtype=F64))))
    u = below + np.random.default_rng(0).random(len(y)) * (at - below)
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    assert torch.equal(d.sample(5, torch.Generator().manual_seed(1)), d.sample(5, torch.Generator().manual_seed(1)))


def test_the_distribution_function_of_levels_is_numpys_interpolation():
    y = np.linspace(-1, 3, 9)[:, None]
    F = stats.norm(1, 0.5).cdf(y[:, 0])
    u = np.sort(LEVELS[:, 0])
    expected = np.interp(F, np.r_[0, u, 1], np.r_[0, np.arange(1, 61) / 61, 1])
    np.testing.assert_allclose(CASES["gaussian"](9).cdf(torch.from_numpy(y)).numpy()[:, 0], expected, rtol=1e-12)


def test_levels_of_a_right_distribution_change_nothing():
    n, y = 999, torch.linspace(-1, 3, 9, dtype=F64)[:, None]
    d = Calibrated((narrow(9),), (np.arange(1, n + 1)[:, None] / (n + 1),))
    torch.testing.assert_close(d.cdf(y), narrow(9).cdf(y))
    torch.testing.assert_close(d.quantile(0.3), narrow(9).quantile(0.3))
    torch.testing.assert_close(d.log_prob(y), narrow(9).log_prob(y), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(d.crps(y), narrow(9).crps(y), rtol=1e-4, atol=1e-5)


def test_the_density_learns_bias_and_spread():
    """Levels of N(1, 2²) in N(0, 1): the density is close to the true one, where the model's is far from it."""
    rng, rows = np.random.default_rng(0), 2_000
    model, truth = Gaussian(full(0, rows), full(1, rows)), stats.norm(1, 2)
    d = Calibrated((model,), (stats.norm.cdf(truth.rvs((500, 1), random_state=rng)),))
    y = truth.rvs((rows, 1), random_state=rng)
    ours, models = (x.log_prob(torch.from_numpy(y)).mean().item() for x in (d, model))
    best = truth.logpdf(y).mean()
    assert best - 0.05 < ours < best
    assert models < best - 0.7
    assert d[[0]].log_prob(60.0).isfinite().all()  # where F is 1 in float64


def test_mean_and_variance_are_those_of_the_parts():
    d = CASES["folds"](4)
    torch.testing.assert_close(d.mean, full(1.0, 4))
    torch.testing.assert_close(d.variance, full(0.5 * (0.25 + 2.0), 4))


def test_several_targets_have_their_own_levels():
    m = torch.tensor([[0.0, 10.0], [1.0, 20.0]], dtype=F64)
    u = np.random.default_rng(1).uniform(size=(50, 2))
    d = Calibrated((Gaussian(m, torch.ones(2, 2, dtype=F64)),), (u,))
    for j in range(2):
        one = Calibrated((Gaussian(m[:, [j]], torch.ones(2, 1, dtype=F64)),), (u[:, [j]],))
        y = m[:, [j]] + 0.3
        torch.testing.assert_close(d.cdf(m + 0.3)[:, [j]], one.cdf(y))
        torch.testing.assert_close(d.log_prob(m + 0.3)[:, [j]], one.log_prob(y))
        torch.testing.assert_close(d.quantile(0.9)[:, [j]], one.quantile(0.9))
    moved = d.scaled(torch.tensor(3.0, dtype=F64), torch.tensor(2.0, dtype=F64))
    torch.testing.assert_close(moved.quantile(0.7), 3 + 2 * d.quantile(0.7))
    torch.testing.assert_close(d[[1]].quantile(0.7), d.quantile(0.7)[[1]])


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("n", [19, 20, 199, 1_000])
def test_ranks_are_rounded_outwards(level, n):
    """Against whole numbers: the largest k with 100 · 2 k ≤ (n + 1) · (100 - percent) is the lower rank."""
    percent = round(100 * level)
    d = Calibrated((narrow(1),), (np.random.default_rng(0).uniform(size=(n, 1)),))
    k = max(k for k in range(n + 1) if 200 * k <= (n + 1) * (100 - percent))
    if k == 0:
        with pytest.raises(ValueError, match=rf"at least {-(-200 // (100 - percent)) - 1} held-out rows, got {n}"):
            d.central_levels(level)
    else:
        np.testing.assert_allclose(d.central_levels(level), (k / (n + 1), 1 - k / (n + 1)), rtol=1e-12)


def test_ties():
    d = Calibrated((narrow(2),), (np.full((40, 1), 0.5),))
    for q in (0.1, 0.5, 0.9):
        torch.testing.assert_close(d.quantile(q), full(1, 2))
    assert d.log_prob(1.2).isfinite().all()
    ends = Calibrated((narrow(2),), (np.repeat([0.0, 1.0], 20)[:, None],))  # all targets beyond all that was possible
    assert ends.quantile(0.2)[0] == -np.inf
    assert ends.quantile(0.8)[0] == np.inf
    assert ends.log_prob(1.2).isfinite().all()


@pytest.mark.parametrize("levels", [(), (np.array([[1.5]]),), (np.zeros((0, 1)),), (np.zeros((3, 2)),)])
def test_levels_that_are_none_are_refused(levels):
    with pytest.raises(ValueError, match="Calibrated expects levels"):
        Calibrated((narrow(2),), levels)
