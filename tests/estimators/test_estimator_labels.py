"""Targets that estimators refuse, in words: labels that cannot be sorted, missing ones, and what is no number."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from torchnpn import (
    BayesianLogisticRegression,
    NPNClassifier,
    NPNRegressor,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=40)
QUICK = {"hidden": (4,), "max_epochs": 2, "random_state": 0}
CLASSIFIERS = (NPNClassifier(**QUICK, effort="quick"), BayesianLogisticRegression())
MIXED = {
    "text and numbers": np.array(["a", 1] * 20, dtype=object),
    "dictionaries": np.array([{}, {1: 2}] * 20, dtype=object),
}
MISSING = {
    "None": np.array([None, "a"] * 20, dtype=object),
    "NaN": np.array([np.nan, "a"] * 20, dtype=object),
    "pandas' NA": pd.array([pd.NA, "a"] * 20, dtype="string"),
    "a category that is missing": pd.Categorical([None, "a"] * 20),
}


@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("y", MIXED.values(), ids=MIXED)
def test_labels_that_cannot_be_sorted_are_refused_in_words(model, y):
    words = "expects labels that can be sorted together.*got|Unknown label type"
    with pytest.raises(ValueError, match=words):
        clone(model).fit(X, y)
    fitted = clone(model).fit(X, Y > 0)
    with pytest.raises(ValueError, match=words):
        fitted.score(X, y)
    if isinstance(model, NPNClassifier):
        with pytest.raises(ValueError, match=words):
            fitted.partial_fit(X, Y > 0, classes=y)
        for call in (fitted.partial_fit, fitted.log_likelihood):
            with pytest.raises(ValueError, match="labels of the type of the classes, which are bool, got"):
                call(X, y)


@pytest.mark.parametrize(
    "model", [*CLASSIFIERS, NPNRegressor(**QUICK, effort="quick")], ids=lambda model: type(model).__name__
)
@pytest.mark.parametrize("y", MISSING.values(), ids=MISSING)
def test_rows_without_a_target_are_refused_in_words(model, y):
    with pytest.raises(ValueError, match=r"y expects a target in every row, got None|contains NaN"):
        clone(model).fit(X, y)


def test_scores_of_what_is_no_number_are_refused_in_words():
    model = NPNRegressor(**QUICK, effort="quick").fit(X, Y)
    assert model.score(X, Y) == model.score(X, Y.tolist())
    for y in (["a"] * 40, pd.Series(["a"] * 40), [None] * 39 + [object()]):
        with pytest.raises(ValueError, match="y expects"):
            model.score(X, y)
