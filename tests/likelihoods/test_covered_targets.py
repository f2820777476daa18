"""Laws that have no likelihood of their own: what another one loses by standing in for them, in nats per row."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import logsumexp

from torchnpn import NPNRegressor

SHARES = (np.arange(20_000) + 0.5) / 20_000


def lost(truth, stand_in, start):
    """How far the best member of a family is from a law: the least E log p(y) - E log q(y), over quantiles of p."""
    y = truth.ppf(SHARES)
    best = optimize.minimize(lambda free: -stand_in(*np.exp(free)).logpdf(y).mean(), start, method="Nelder-Mead")
    return truth.logpdf(y).mean() + best.fun


def test_student_t_stands_in_for_laplace():
    laplace = stats.laplace()
    assert lost(laplace, lambda df, scale: stats.t(df, scale=scale), [1.0, 0.0]) < 0.01
    assert lost(laplace, lambda scale: stats.norm(scale=scale), [0.0]) > 0.07  # a Gaussian does not


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.0, 5.0])
def test_weibull_or_log_normal_stands_in_for_gamma_durations(shape):
    durations = stats.gamma(shape)
    weibull = lost(durations, lambda k, scale: stats.weibull_min(k, scale=scale), [0.0, 0.0])
    log_normal = lost(durations, lambda s, scale: stats.lognorm(s, scale=scale), [0.0, 0.0])
    assert min(weibull, log_normal) < 0.02


def test_a_hurdle_stands_in_for_tweedie():
    """Sums of a Poisson number of gamma amounts: the whole loss beside the true law, what is yet to learn included."""
    rng, rows, power, dispersion = np.random.default_rng(0), 2_000, 1.5, 1.0
    X = rng.normal(size=(rows + 4_000, 3))
    mean = np.exp(X @ [0.5, -0.4, 0.3])
    rate = mean ** (2 - power) / (dispersion * (2 - power))
    shape, scale = (2 - power) / (power - 1), dispersion * (power - 1) * mean ** (power - 1)
    number = rng.poisson(rate)
    y = np.where(number > 0, rng.gamma(np.maximum(number, 1) * shape, scale), 0.0)
    n = np.arange(1, 100)[:, None]
    of_numbers = stats.poisson.logpmf(n, rate) + stats.gamma.logpdf(np.where(y > 0, y, 1.0), n * shape, scale=scale)
    truth = np.where(y > 0, logsumexp(of_numbers, axis=0), -rate)
    model = NPNRegressor("hurdle_gamma", effort="quick", random_state=0).fit(X[:rows], y[:rows])
    new = slice(rows, None)
    assert 0 < (truth[new] - model.log_likelihood(X[new], y[new])).mean() < 0.03
    low, high = model.predict_interval(X[new], 0.9)
    assert 0.87 < ((low <= y[new]) & (y[new] <= high)).mean() < 0.97
