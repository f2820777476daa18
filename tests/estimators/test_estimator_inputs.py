"""Inputs of estimators: missing values, measurement errors, sparse rows and frames."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from torchnpn import NPNRegressor
from torchnpn.rows.inputs import Inputs

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = np.exp(0.6 * X[:, 0] + 0.3 * np.sin(2 * X[:, 1])) + 0.2 * RNG.normal(size=200)


def test_missing_value_is_the_distribution_of_its_feature():
    """NaN is the same as the feature's mean with its variance as measurement error; and it widens the prediction."""
    model = NPNRegressor(max_epochs=60, random_state=0, effort="quick").fit(X, Y)
    holes = X.copy()
    holes[:, 0] = np.nan
    filled = X.copy()
    filled[:, 0] = X[:, 0].mean()
    mean, std = model.predict(holes, return_std=True)
    told, told_std = model.predict(filled, return_std=True, X_variance=[X[:, 0].var(), 0, 0])
    np.testing.assert_allclose(mean, told, rtol=1e-5)
    np.testing.assert_allclose(std, told_std, rtol=1e-5)
    assert std.mean() > 1.2 * model.predict(filled, return_std=True)[1].mean()


def test_moments_of_inputs():
    holes = np.array([[1.0, 5.0, np.nan], [3.0, 5.0, np.nan], [np.nan, 5.0, np.nan]])
    inputs = Inputs.learn(holes, np.array([1.0, 3.0, 9.0]))
    np.testing.assert_allclose(inputs.center, [2.5, 5.0, 0.0])
    np.testing.assert_allclose(inputs.scale, [np.sqrt(0.75), 1.0, 1.0])
    x = inputs.moments(holes)
    np.testing.assert_allclose(x.mean, [[-np.sqrt(3), 0, 0], [1 / np.sqrt(3), 0, 0], [0, 0, 0]], rtol=1e-6)
    np.testing.assert_allclose(x.variance, [[0, 0, 0], [0, 0, 0], [1, 0, 0]])
    told = inputs.moments(holes, np.full((3, 3), 0.75))
    np.testing.assert_allclose(told.variance, [[1, 0.75, 0], [1, 0.75, 0], [1, 0.75, 0]], rtol=1e-6)


def test_missing_values_given_the_others():
    """Rows of a known Gaussian: means and variances of gaps are those of the textbook's conditional."""
    rng = np.random.default_rng(3)
    R = np.array([[1.0, 0.8, -0.3], [0.8, 1.0, 0.1], [-0.3, 0.1, 1.0]])
    rows = rng.multivariate_normal(np.zeros(3), R, size=40_000) * [1.0, 5.0, 0.1] + [3.0, 0.0, 2.0]
    gappy = np.where(rng.random(rows.shape) < 0.2, np.nan, rows)
    inputs = Inputs.learn(gappy, None, "conditional")
    np.testing.assert_allclose(inputs.correlation, R, atol=0.02)
    row = np.array([[np.nan, 10.0, np.nan], [4.0, np.nan, 2.1], [np.nan, np.nan, np.nan], [4.0, 10.0, 2.1]])
    x = inputs.moments(row)
    np.testing.assert_allclose(x.mean[0], [1.6, 2.0, 0.2], atol=0.06)
    np.testing.assert_allclose(x.variance[0], [1 - 0.64, 0.0, 1 - 0.01], atol=0.03)
    gain = np.linalg.solve(R[np.ix_([0, 2], [0, 2])], R[[0, 2], 1])
    np.testing.assert_allclose(x.mean[1, 1], gain @ [1.0, 1.0], atol=0.06)
    np.testing.assert_allclose(x.variance[1], [0, 1 - gain @ R[[0, 2], 1], 0], atol=0.03)
    np.testing.assert_allclose(x.mean[2], 0, atol=1e-6)
    np.testing.assert_allclose(x.variance[2], 1, atol=1e-6)
    np.testing.assert_array_equal(x.variance[3], 0)


def test_related_features_fill_each_other_s_gaps():
    rng = np.random.default_rng(4)
    hidden = rng.normal(size=(300, 1))
    features = hidden + 0.1 * rng.normal(size=(300, 4))
    y = 3 * hidden[:, 0] + 0.1 * rng.normal(size=300)
    gappy = np.where(rng.random(features.shape) < 0.3, np.nan, features)
    gappy[:, 3] = 7.0  # a constant column is no trouble
    marginal, conditional = (
        NPNRegressor(missing=missing, max_epochs=100, random_state=0, effort="quick").fit(gappy[:200], y[:200])
        for missing in ("marginal", "conditional")
    )
    gain = conditional.log_likelihood(gappy[200:], y[200:]) - marginal.log_likelihood(gappy[200:], y[200:])
    assert gain.mean() > 0.3
    assert np.isfinite(conditional.predict(np.full((1, 4), np.nan))).all()
    with pytest.raises(ValueError, match="at most 300 features"):
        NPNRegressor(missing="conditional", effort="quick").fit(np.ones((12, 301)), np.arange(12))


def test_training_on_missing_values_works():
    holes = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
    model = NPNRegressor(max_epochs=100, random_state=0, effort="quick").fit(holes, Y)
    assert model.score(X, Y) > 0.6
    everything_missing = model.predict(np.full((1, 3), np.nan), return_std=True)
    assert np.isfinite(everything_missing).all()


@pytest.mark.parametrize(
    ("variance", "message"),
    [(-1.0, "≥ 0"), (np.nan, "finite"), (np.ones(4), "shape"), (np.ones((3, 3)), "shape")],
)
def test_wrong_variances_are_refused(variance, message):
    model = NPNRegressor(max_epochs=1, random_state=0, effort="quick").fit(X, Y)
    with pytest.raises(ValueError, match=message):
        model.predict(X, X_variance=variance)


def test_sparse_and_dense_rows_predict_the_same():
    rows = scipy.sparse.random(150, 30, density=0.1, random_state=0, format="csr")
    y = rows.toarray() @ np.linspace(-1, 1, 30)
    model = NPNRegressor(max_epochs=30, random_state=0, effort="quick").fit(rows, y)
    np.testing.assert_allclose(model.predict(rows), model.predict(rows.toarray()), rtol=1e-6, atol=1e-9)
    assert model.score(rows, y) > 0.5
    broken = rows.copy()
    broken.data[0] = np.nan
    with pytest.raises(ValueError, match="toarray"):
        model.predict(broken)
    with pytest.raises(ValueError, match="sparse"):
        model.predict(rows, X_variance=1.0)


def test_wide_sparse_rows_are_not_made_dense():
    """A hundred thousand columns, twenty words a row."""
    rows = scipy.sparse.random(200, 100_000, density=2e-4, random_state=0, format="csr")
    model = NPNRegressor(hidden=(2,), max_epochs=1, random_state=0).fit(rows, np.arange(200.0))
    assert np.isfinite(model.predict(rows)).all()


def test_frames_carry_names():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = NPNRegressor(max_epochs=5, random_state=0, effort="quick").fit(frame, pd.Series(Y))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"a": "z"}))


def test_several_quantiles_at_once_are_those_one_by_one():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
    levels = [0.05, 0.5, 0.95]
    for y in (Y[:, 0], Y):
        found = NPNRegressor(hidden=(4,), n_estimators=2, max_epochs=3, random_state=0).fit(X, y).predict_dist(X[:5])
        one_by_one = np.stack([found.quantile(level) for level in levels], -1)
        np.testing.assert_allclose(found.quantile(levels), one_by_one, rtol=1e-9)


def test_plain_rows_are_looked_at_although_scikit_learn_is_not_asked():
    X = np.random.default_rng(0).normal(size=(30, 3))
    model = NPNRegressor(hidden=(4,), n_estimators=1, max_epochs=2, random_state=0).fit(X, X[:, 0])
    assert model.predict(X[:1]) == pytest.approx(model.predict(X[:1].tolist()))
    with pytest.raises(ValueError, match="3 features"):
        model.predict(X[:, :2])
    with pytest.raises(ValueError, match="infinity"):
        model.predict(np.full((1, 3), np.inf))
