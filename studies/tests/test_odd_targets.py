"""Gaps, durations and exposures: splits and likelihoods are what textbooks say."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from npn_studies.experiments import durations, exposure, gaps
from scipy import optimize, stats

RNG = np.random.default_rng(0)


def test_a_gap_is_the_middle_third_of_a_feature():
    X = RNG.normal(size=(31, 3))
    for column, (train, test) in zip(X.T, gaps.gaps(X), strict=True):
        assert sorted([*train, *test]) == list(range(31)) and len(test) == 11
        low, high = column[test].min(), column[test].max()
        assert not ((low < column[train]) & (column[train] < high)).any()


@pytest.mark.skipif(importlib.util.find_spec("lifelines") is None, reason="needs lifelines")
@pytest.mark.parametrize("method", ["Weibull AFT", "log-normal AFT", "NPN, Weibull"])
def test_durations_are_judged_by_the_censored_likelihood(method, monkeypatch):
    """Of one duration for all there is a likelihood by hand, near to which every method must come."""
    ends, seen = 10 * RNG.weibull(1.5, 400), RNG.uniform(2, 20, 400)
    X = RNG.normal(size=(400, 1))
    rows = durations.Durations(X, np.minimum(ends, seen), (ends <= seen).astype(float))
    train, test = (durations.Durations(*(column[part] for column in rows)) for part in (slice(200), slice(200, None)))
    twin = stats.weibull_min(1.5, scale=10)
    expected = np.where(test.observed == 1, twin.logpdf(test.time), twin.logsf(test.time)).mean()
    if method.startswith("NPN"):
        monkeypatch.setattr(durations, "NPNRegressor", _quick)
    found = durations._npn("weibull") if method.startswith("NPN") else durations.METHODS[method]
    logs, later = found(train, test)
    assert abs(logs - expected) < 0.1 and later.shape == (200,)


def _quick(family, **settings):
    from torchnpn.estimators import NPNRegressor

    return NPNRegressor(family, effort="quick", max_epochs=30, **settings)


def test_a_poisson_regression_has_policies_as_its_offset():
    """The same coefficients as by maximising Σ y (Xβ + log n) - n exp(Xβ)."""
    X, n = (RNG.normal(size=(80, 2)) > 0).astype(float), RNG.integers(1, 500, 80).astype(float)
    y = RNG.poisson(n * np.exp(X @ [0.5, -0.3] - 2)).astype(float)
    design = np.column_stack([np.ones(80), X])
    loss = lambda b: float((n * np.exp(design @ b) - y * (design @ b)).sum() / n.sum())
    best = optimize.minimize(loss, np.zeros(3), tol=1e-12).x
    rows = exposure.Groups(X, n, y)
    logs, mean = exposure.METHODS["Poisson regression with offset"](rows, rows)
    np.testing.assert_allclose(mean, n * np.exp(design @ best), rtol=1e-3)
    np.testing.assert_allclose(logs, stats.poisson.logpmf(y, mean))
