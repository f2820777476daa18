"""Scores by name in scikit-learn's searches, quantile losses and coverage by group, against formulas."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_pinball_loss
from sklearn.model_selection import GridSearchCV, cross_val_score

from torchnpn import NPNClassifier, NPNRegressor, Predictive, metrics
from torchnpn.families import Gaussian

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
STD = np.exp(X[:, 1])
Y = X[:, 0] + STD * RNG.normal(size=300)
LEVELS = np.arange(1, 20) / 20


class Stated(BaseEstimator):
    """Says N(x₁, (width · e^x₂)²): right for a width of one."""

    def __init__(self, width=1.0):
        self.width = width

    def fit(self, X, y):
        return self

    def predict_dist(self, X):
        m, s = X[:, :1], (self.width * np.exp(X[:, 1:])) ** 2
        return Predictive(Gaussian(*map(torch.tensor, (m, s))))

    def log_likelihood(self, X, y):
        return self.predict_dist(X).log_prob(y)


@pytest.mark.parametrize("width", [0.5, 1.0, 2.0])
def test_scores_are_minus_the_formulas(width):
    twin, z = stats.norm(X[:, 0], width * STD), (Y - X[:, 0]) / STD / width
    low, high = twin.interval(0.9)
    expected = {
        "neg_log_likelihood": -twin.logpdf(Y).mean(),
        "crps": (width * STD * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))).mean(),
        "interval_score": (high - low + 20 * np.maximum(0, np.maximum(low - Y, Y - high))).mean(),
        "pinball": np.mean([mean_pinball_loss(Y, twin.ppf(q), alpha=q) for q in LEVELS]),
        "calibration": metrics.regression_calibration_error(twin.cdf(Y)),
    }
    assert set(expected) == set(metrics.scorers)
    for name, loss in expected.items():
        np.testing.assert_allclose(metrics.scorers[name](Stated(width), X, Y), -loss, rtol=1e-9)


@pytest.mark.parametrize("name", list(metrics.scorers))
def test_searches_find_the_right_width(name):
    search = GridSearchCV(Stated(), {"width": [0.3, 1.0, 3.0]}, scoring=metrics.scorers[name]).fit(X, Y)
    assert search.best_params_ == {"width": 1.0}


@pytest.mark.parametrize("name", list(metrics.scorers))
def test_they_take_our_estimators_and_can_be_sent_to_other_processes(name):
    scorer = pickle.loads(pickle.dumps(metrics.scorers[name]))
    assert repr(scorer) == f'scorers["{name}"]'
    short = {"max_epochs": 2, "random_state": 0}
    models = [(NPNRegressor(**short), Y), (NPNRegressor("poisson", **short), np.floor(np.abs(Y)))]
    if name in ("neg_log_likelihood", "calibration"):
        models.append((NPNClassifier(**short), np.where(Y > 0, "yes", "no")))
    for model, y in models:
        scores = cross_val_score(model, X, y, scoring=scorer, cv=2)
        assert np.isfinite(scores).all()
    both = NPNRegressor(**short).fit(X, np.stack([Y, Y], 1))
    one = NPNRegressor(**short).fit(X, Y)
    assert np.isfinite([scorer(both, X, np.stack([Y, Y], 1)), scorer(one, X, Y)]).all()


@pytest.mark.parametrize("name", list(metrics.scorers))
def test_estimators_without_distributions_are_refused(name):
    with pytest.raises(TypeError, match=f"{name} expects an estimator .*, such as NPNRegressor, got LinearRegression"):
        metrics.scorers[name](LinearRegression().fit(X, Y), X, Y)


def test_names_that_are_none():
    with pytest.raises(KeyError):
        metrics.scorers["crsp"]
    with pytest.raises(TypeError):
        metrics.scorers["mine"] = len


@pytest.mark.parametrize("level", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_pinball_is_scikit_learns(level):
    guess = RNG.normal(size=300)
    np.testing.assert_allclose(metrics.pinball(guess, Y, level).mean(), mean_pinball_loss(Y, guess, alpha=level))


def test_twice_the_mean_pinball_loss_is_the_crps():
    levels = (np.arange(2_000) + 0.5) / 2_000
    losses = [metrics.pinball(stats.norm.ppf(q), 0.7, q) for q in levels]
    np.testing.assert_allclose(2 * np.mean(losses), metrics.crps_gaussian(0.0, 1.0, 0.7), rtol=1e-4)


def test_interval_score_is_that_of_scoringrules():
    scoringrules = pytest.importorskip("scoringrules")
    low, high = Y - RNG.uniform(0, 1, 300), Y + RNG.uniform(-0.5, 1, 300)
    low, high = np.minimum(low, high), np.maximum(low, high)
    ours = metrics.interval_score(low, high, X[:, 0], level=0.8)
    np.testing.assert_allclose(ours, scoringrules.interval_score(X[:, 0], low, high, 0.2))


def test_coverage_by_group_counts_each_group():
    group = np.where(X[:, 1] > 0, "loud", "quiet")
    low, high = X[:, 0] - 1, X[:, 0] + 1
    found = metrics.coverage_by_group(Y, low, high, group)
    assert found.group.tolist() == ["loud", "quiet"]
    for name, share, least, most, rows in zip(*found, strict=True):
        inside = (np.abs(Y - X[:, 0]) <= 1)[group == name]
        assert rows == len(inside)
        np.testing.assert_allclose(share, inside.mean())
        test = stats.binomtest(int(inside.sum()), len(inside)).proportion_ci(0.9, method="wilson")
        np.testing.assert_allclose((least, most), test, rtol=1e-4)
    assert found.high[0] < found.low[1]  # one width for all holds fewer of the loud rows


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.pinball([1.0], [1.0], 1.5), r"pinball expects level in \[0, 1\], got 1.5"),
        (lambda: metrics.pinball([1.0, 2.0], [1.0, 2.0, 3.0], 0.5), "one shape"),
        (lambda: metrics.coverage_by_group([1.0], [0.0], [2.0], ["a", "b"]), r"a group for each row, shape \(1,\)"),
        (lambda: metrics.coverage_by_group([1.0, 2.0], [0.0], [2.0], ["a"]), r"shape \(rows,\)"),
        (lambda: metrics.coverage_by_group([np.nan], [0.0], [2.0], ["a"]), "1 NaN in y"),
    ],
)
def test_wrong_arguments(call, words):
    with pytest.raises(ValueError, match=words):
        call()
