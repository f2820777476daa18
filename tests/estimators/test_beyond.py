"""Rows beyond the training rows: how far they are, and what that does to predictions."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import torchnpn as npn
from torchnpn import NPNClassifier, NPNRegressor
from torchnpn.families import LimitedLogNormal, LogNormal
from torchnpn.rows import Beyond

RNG = np.random.default_rng(7)
ROWS = 160
X = np.column_stack([RNG.uniform(-2, 2, ROWS), RNG.choice([-2.0, -1.0, 1.0, 2.0], ROWS), RNG.normal(size=ROWS)])
Y = 2 * X[:, 0] + np.abs(X[:, 1]) + RNG.normal(0, 0.1, ROWS)
SHORT = {"max_epochs": 40, "random_state": 0}


@pytest.fixture(scope="module")
def model():
    return NPNRegressor(**SHORT).fit(X, Y)


def rows(*features):
    """Rows that stand in the middle but for some features."""
    found = np.zeros((len(features), 3)) + np.array([0.1, 1.0, 0.0])
    for row, (place, value) in zip(found, features, strict=True):
        row[place] = value
    return found


@pytest.mark.parametrize(
    ("z", "expected"),
    [
        (0.0, 0.0),  # a value that was there
        (-0.1, 0.0),  # between values that are near
        (1.5, 0.5 * 0.5 * 0.5),  # in the middle of a hole of width one: d (w - d)/2
        (1.2, 0.2 * 0.8 / 2),
        (1.8, 0.2 * 0.8 / 2),
        (4.0, 2.0 * 2.0 / 2),
        (2.5, 0.5 * 2.5 / 2),  # at the edge of a wide one, as outside: d (2 + d)/2
        (6.5, 0.5 * 2.5 / 2),
        (-1.2, 1.0 * 3.0 / 2),
        (100.0, 10.0 * 12.0 / 2),  # farther than ten is no farther
        (np.nan, 0.0),
    ],
)
def test_deviations(z, expected):
    seen = np.array([-0.2, 0.0, 0.0, 1.0, 2.0, 6.0, np.nan])[:, None]
    beyond = Beyond.learn(seen, np.ones((1, 1)))
    np.testing.assert_allclose(beyond.deviations(np.array([[z]])), [[expected]], rtol=1e-12)


def test_slopes_are_those_of_the_predicted_mean(model):
    """Against differences of predictions, in units of the features and of the target."""
    step = 1e-4 * model.inputs_.scale
    inside = np.clip(X, X.min(0) + step, X.max(0) - step)
    for j in (0, 2):  # the values of the other one are where its bins end
        moved = np.zeros(3)
        moved[j] = step[j]
        slope = (model.predict(inside + moved) - model.predict(inside - moved)) / (2e-4 * model.units_.scale)
        np.testing.assert_allclose(model._beyond.slope[0, j], (slope**2).mean(), rtol=0.05)


def test_rows_among_the_others_are_predicted_as_without(model):
    """And others have the same mean, and a larger variance."""
    X_new = np.vstack([X[:20], rows((0, 5.0), (1, 0.0))])
    mean, std = model.predict(X_new, return_std=True)
    kept, model._beyond = model._beyond, None
    plain_mean, plain_std = model.predict(X_new, return_std=True)
    model._beyond = kept
    np.testing.assert_array_equal(mean, plain_mean)
    np.testing.assert_array_equal(std[:20], plain_std[:20])
    assert (std[20:] > [5 * plain_std[20], 1.1 * plain_std[21]]).all()


def test_uncertainty_grows_faster_than_the_way(model):
    _, std = model.predict(rows((0, 2.0), (0, 4.0), (0, 6.0), (0, 8.0)), return_std=True)
    assert (np.diff(std, 2) > 0).all() and std[-1] > 10 * std[0]


def test_a_feature_that_says_nothing_adds_little(model):
    _, std = model.predict(rows((0, 6.0), (2, 6.0)), return_std=True)
    assert std[0] > 5 * std[1]


def test_files_and_targets(model, tmp_path):
    """A file holds it; each of several targets has its own; logits and logarithms have none."""
    npn.save(model, tmp_path / "model.npn")
    far = rows((0, 6.0), (1, 0.0))
    np.testing.assert_array_equal(npn.load(tmp_path / "model.npn").predict_interval(far), model.predict_interval(far))
    two = NPNRegressor(**SHORT).fit(X, np.column_stack([Y, X[:, 2]]))
    std = two.predict(rows((0, 6.0), (2, 6.0)), return_std=True)[1] / two.units_.scale
    assert std[0, 0] > 3 * std[0, 1] and std[1, 1] > 3 * std[1, 0]
    assert NPNClassifier(**SHORT).fit(X, Y > 0)._beyond is None
    assert NPNRegressor("lognormal", **SHORT).fit(X, np.exp(Y))._beyond is None


@pytest.mark.parametrize("m", [-1.0, 0.5, 4.0])
@pytest.mark.parametrize("s", [0.01, 1.0, 9.0])
def test_limited_means(m, s):
    """E min(x, c) by quadrature of P(x > t) up to c; the rest is the log-normal distribution."""
    c = 3.0
    limited = LimitedLogNormal(*(torch.tensor(x, dtype=torch.float64) for x in (m, s, c)))
    twin = stats.lognorm(s**0.5, scale=np.exp(m))
    expected, _ = integrate.quad(twin.sf, 0, c, points=[min(np.exp(m), c)], epsabs=0, epsrel=1e-10, limit=200)
    np.testing.assert_allclose(float(limited.mean), expected, rtol=1e-8)
    plain = LogNormal(limited.m, limited.s)
    for name in ("cdf", "log_prob", "crps"):
        torch.testing.assert_close(getattr(limited, name)(2.0), getattr(plain, name)(2.0))
    assert limited.quantile(0.9) == plain.quantile(0.9) and limited.variance == plain.variance
    larger = limited.scaled(torch.tensor(0.0), torch.tensor(2.0, dtype=torch.float64))
    torch.testing.assert_close(larger.mean, 2 * limited.mean)


@pytest.mark.parametrize(("family", "y"), [("lognormal", np.exp(3 * Y)), ("hurdle_lognormal", np.exp(3 * Y) * (Y > 0))])
def test_no_mean_is_far_above_all_that_was_seen(family, y, tmp_path):
    fitted = NPNRegressor(family, **SHORT).fit(X, y)
    far = rows((0, 4.0), (0, 8.0), (0, 50.0))
    mean = fitted.predict(far)
    assert (mean <= 2 * y.max()).all() and (mean > 0.1 * y.max()).all()
    npn.save(fitted, tmp_path / "model.npn")
    np.testing.assert_array_equal(npn.load(tmp_path / "model.npn").predict(far), mean)
    np.testing.assert_allclose(fitted.predict_variance(far).total, fitted.predict_dist(far).variance, rtol=1e-9)
