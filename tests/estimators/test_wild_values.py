"""Values far beyond the others: of training rows, of new rows, and what is predicted of them."""

from __future__ import annotations

import numpy as np
import pytest

from torchnpn import NPNRegressor
from torchnpn.rows.inputs import LARGEST, Inputs

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = X[:, 0] ** 2 + X[:, 1] + 0.3 * RNG.normal(size=200)


def test_a_wild_training_value_leaves_the_scale_of_the_others():
    wild = X.copy()
    wild[5, 0] = 1e6
    tame, found = Inputs.learn(X, None), Inputs.learn(wild, None)
    np.testing.assert_allclose(found.scale, tame.scale, rtol=3)
    np.testing.assert_array_equal(found.scale[1:], tame.scale[1:])
    assert found.moments(wild).mean.abs().max() < 100


def test_a_value_beyond_the_margin_is_the_limit_with_an_error():
    inputs = Inputs.learn(X, None)
    low, high = X[:, 0].min(), X[:, 0].max()
    margin = (high - low) / 2
    rows = np.zeros((4, 3))
    rows[:, 0] = high + margin * np.array([0.5, 1.5, 3.0, 30.0])
    z = inputs.moments(rows)
    limit = (high + margin - inputs.center[0]) / inputs.scale[0]
    np.testing.assert_allclose(z.mean[1:, 0], limit, rtol=1e-5)
    beyond = margin / inputs.scale[0] * np.array([0, 0.5, 2.0])
    np.testing.assert_allclose(z.variance[:3, 0], beyond**2, rtol=1e-4, atol=1e-12)
    assert z.variance[3, 0] == 100
    assert inputs.moments(rows[:1]).variance is None  # within the margin nothing changes


@pytest.mark.parametrize("missing", ["marginal", "conditional"])
def test_a_value_that_is_none_of_its_feature_counts_as_missing(missing):
    inputs = Inputs.learn(X, None, missing)
    rows, gaps = X[:4].copy(), X[:4].copy()
    rows[:, 1], gaps[:, 1] = [1e6, -1e6, 999, -999], np.nan
    for found, expected in zip(inputs.moments(rows), inputs.moments(gaps), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("column", [np.zeros(200), np.full(200, np.nan), (np.arange(200) == 7) * 1.0], ids=str)
def test_features_of_one_value_or_two_have_no_wild_ones(column):
    rows = np.column_stack([X, column])
    inputs = Inputs.learn(rows, None)
    there = ~np.isnan(column)
    expected = (column[there] - inputs.center[3]) / inputs.scale[3]
    np.testing.assert_allclose(inputs.moments(rows).mean[there, 3], expected, rtol=1e-5, atol=1e-6)
    if np.nanmax(column, initial=0) == 0:
        assert inputs.high[3] >= LARGEST


def test_predictions_grow_wider_far_from_the_training_rows():
    model = NPNRegressor(max_epochs=40, random_state=0).fit(X, Y)
    rows = np.zeros((4, 3))
    rows[:, 0] = 0, 5, 8, 12
    mean, std = model.predict(rows, return_std=True)
    assert (np.diff(std) > 0).all()
    assert std[3] > 2 * std[0]
    assert np.abs(mean).max() < 10 * np.abs(Y).max()


def test_a_cell_of_a_million_says_no_more_than_a_gap():
    model = NPNRegressor(max_epochs=40, random_state=0).fit(X, Y)
    mean, std = model.predict([[1e6, 0, 0], [np.nan, 0, 0], [0, 0, 0]], return_std=True)
    assert mean[0] == mean[1] and std[0] == std[1] > 1.5 * std[2]
