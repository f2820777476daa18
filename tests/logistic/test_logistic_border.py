"""Bayesian logistic regression at the border: what it refuses, and its files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from test_bayesian_logistic import made

from torchnpn import BayesianLogisticRegression, io


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "exact"}, 'method expects one of "laplace", "variational", got \'exact\''),
        ({"precision": "none"}, 'precision expects "evidence", "ard" or a number above 0'),
        ({"precision": 0.0}, "precision expects"),
        ({"precision": True}, "precision expects"),
        ({"precision": float("nan")}, "precision expects"),
        ({"max_iter": 0}, "max_iter expects a whole number from 1 to 100,000"),
        ({"tol": -1.0}, "tol expects a number above 0"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    X, y = made(20, [1.0])
    with pytest.raises(ValueError, match=message):
        BayesianLogisticRegression(**settings).fit(X, y)


def test_one_class_is_refused():
    X, _ = made(20, [1.0])
    with pytest.raises(ValueError, match=r"at least two classes, got one class: \[7\]"):
        BayesianLogisticRegression().fit(X, np.full(20, 7))
    with pytest.raises(ValueError, match="one class"):  # the other has no weight
        BayesianLogisticRegression().fit(X, np.arange(20) % 2, np.arange(20) % 2)


@pytest.mark.parametrize("variance", [-1.0, np.ones(3), np.inf])
def test_bad_variances_are_refused(variance):
    X, y = made(20, [1.0, 1.0])
    with pytest.raises(ValueError, match="X_variance expects"):
        BayesianLogisticRegression().fit(X, y, X_variance=variance)


def test_too_few_rounds_are_told():
    X, y = made(50, [1.0, -2.0])
    with pytest.warns(UserWarning, match="still changes by more than .* after 2 iterations"):
        BayesianLogisticRegression("variational", max_iter=2).fit(X, y)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_models_come_back(count, intercept, tmp_path):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < count], y[y < count]
    model = BayesianLogisticRegression(precision=0.5, fit_intercept=intercept).fit(X, y)
    io.save(model, tmp_path / "model.npn")
    loaded = io.load(tmp_path / "model.npn")
    assert loaded.get_params() == model.get_params() and loaded.n_iter_ == model.n_iter_
    for name in ("classes_", "coef_", "intercept_", "covariance_", "precision_", "log_evidence_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name), strict=True)
    np.testing.assert_allclose(loaded.predict_proba(X, 0.1), model.predict_proba(X, 0.1), rtol=1e-9)


@pytest.mark.parametrize("spoil", ["covariance", "coef", "features", "classes", "settings", "more"])
def test_a_state_that_cannot_be_is_refused(spoil):
    X, y = made(30, [1.0, -1.0])
    plain, arrays = BayesianLogisticRegression().fit(X, y)._state()
    plain = json.loads(json.dumps(plain))
    BayesianLogisticRegression._from_state(plain, arrays)
    if spoil in arrays:
        arrays[spoil] = -arrays[spoil] if spoil == "covariance" else arrays[spoil][:, :1]
    elif spoil == "more":
        arrays["more"] = np.zeros(1)
    else:
        plain[spoil] = {"features": 3, "classes": {"dtype": "<i8", "values": [1, 0]}, "settings": {"tol": 1.0}}[spoil]
    with pytest.raises(ValueError, match=r"should (be|have)"):
        BayesianLogisticRegression._from_state(plain, arrays)


def test_unfitted():
    with pytest.raises(NotFittedError):
        BayesianLogisticRegression().predict_proba([[0.0]])
    with pytest.raises(NotFittedError):
        BayesianLogisticRegression()._state()


def test_log_odds_that_overflow_are_refused():
    X, y = made(20, [1.0])
    model = BayesianLogisticRegression(precision=1e-300).fit(1e-150 * X, y)
    with pytest.raises(ValueError, match="X expects features whose log-odds are"):
        model.predict_proba(1e59 * X)
