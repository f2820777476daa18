"""A pipeline answers what the estimator at its end answers for transformed rows, and has no other methods than that."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline as Theirs
from sklearn.preprocessing import StandardScaler

import torchnpn as npn

RNG = np.random.default_rng(0)
X = 100 + RNG.normal(size=(60, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=60)
QUICK = {"hidden": (4,), "max_epochs": 2, "random_state": 0}
NAMES = (
    "predict_dist",
    "predict_interval",
    "predict_quantile",
    "predict_variance",
    "predict_members",
    "log_likelihood",
)


def steps(last: object) -> list:
    return [("scaled", StandardScaler()), ("model", last)]


def test_answers_are_those_of_the_last_step():
    made = npn.Pipeline(steps(npn.NPNRegressor(**QUICK, n_estimators=2))).fit(X, Y)
    rows, last = made[:-1].transform(X), made[-1]
    np.testing.assert_array_equal(made.predict_dist(X).std, last.predict_dist(rows).std)
    np.testing.assert_array_equal(made.predict_interval(X, 0.5), last.predict_interval(rows, 0.5))
    np.testing.assert_array_equal(made.predict_quantile(X, q=[0.1, 0.9]), last.predict_quantile(rows, q=[0.1, 0.9]))
    np.testing.assert_array_equal(made.predict_variance(X), last.predict_variance(rows))
    np.testing.assert_array_equal(made.predict_members(X), last.predict_members(rows))
    np.testing.assert_array_equal(made.log_likelihood(X, Y), last.log_likelihood(rows, Y))
    np.testing.assert_array_equal(made.predict(X), last.predict(rows))
    alone = npn.Pipeline([("model", last)])
    np.testing.assert_array_equal(alone.predict_interval(rows), last.predict_interval(rows))


def test_codes_with_variances():
    made = npn.Pipeline(steps(npn.NPNAutoencoder(**QUICK))).fit(X)
    np.testing.assert_array_equal(
        made.transform_dist(X).variance, made[-1].transform_dist(made[:-1].transform(X)).variance
    )


def test_methods_are_there_if_the_last_step_has_them():
    made = npn.Pipeline(steps(Ridge())).fit(X, Y)
    assert not any(hasattr(made, name) for name in NAMES)
    with pytest.raises(AttributeError, match="has no attribute 'predict_interval'"):
        made.predict_interval(X)
    assert hasattr(npn.Pipeline(steps(npn.NPNClassifier())), "predict_dist")
    with pytest.raises(NotFittedError):
        npn.Pipeline(steps(npn.NPNRegressor())).predict_interval(X)


def test_searches_and_pipelines_that_are_fitted_already():
    search = GridSearchCV(npn.Pipeline(steps(npn.NPNRegressor(**QUICK))), {"model__kl_weight": [0.1, 1.0]}, cv=2).fit(
        X, Y
    )
    low, high = search.best_estimator_.predict_interval(X)
    assert (low < high).all() and isinstance(clone(search.best_estimator_), npn.Pipeline)
    theirs = Theirs(steps(npn.NPNRegressor(**QUICK))).fit(X, Y)
    np.testing.assert_array_equal(npn.Pipeline(theirs.steps).predict_dist(X).mean, theirs.predict(X))


@pytest.mark.parametrize("kind", [Theirs, npn.Pipeline])
def test_a_model_file_takes_the_estimator_alone(kind, tmp_path):
    with pytest.raises(TypeError, match=r"Pipeline\. Estimators read text, categories, dates"):
        npn.save(kind(steps(npn.NPNRegressor(**QUICK))).fit(X, Y), tmp_path / "model.npn")
