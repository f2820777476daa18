"""The recipes of docs/integrations.md do what they say, where the library that they are for is installed."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import torchnpn as npn
from benchmarks import integrations


@pytest.fixture(scope="module")
def names():
    return integrations.beginning()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of other libraries are theirs
@pytest.mark.parametrize("library", integrations.FIGURES)
def test_recipe(library, names):
    pytest.importorskip(library.lower(), reason=f"{library} is not installed: pip install {library.lower()}")
    figures = integrations.run(library, names)
    if "largest_difference" in figures:
        assert figures["largest_difference"] == 0
    elif "error" in figures:  # the noise alone is 0.36
        assert 0.3 < figures["error"] < 0.45
    else:
        assert 0.85 < figures["coverage"] < 0.96


def test_page_is_rendered_from_the_record():
    record = json.loads(integrations.RECORD.read_text(encoding="utf-8"))
    page = integrations.PAGE.read_text(encoding="utf-8")
    assert integrations.with_table(page, record) == page, "run `python benchmarks/integrations.py`"


def fitted(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    match name:
        case "NPNRegressor":
            return npn.NPNRegressor(effort="quick", max_epochs=3, random_state=0).fit(X, X[:, 0]), X
        case "NPNClassifier":
            return npn.NPNClassifier(effort="quick", max_epochs=3, random_state=0).fit(X, X[:, 0] > 0), X
        case "BayesianLogisticRegression":
            return npn.BayesianLogisticRegression().fit(X, X[:, 0] > 0), X
    raise ValueError(name)


@pytest.mark.parametrize("name", ["NPNRegressor", "NPNClassifier", "BayesianLogisticRegression"])
def test_plain_state_is_the_whole_model(name):
    """What skops stores: text and arrays, from which an estimator comes back that predicts the same."""
    model, X = fitted(name)
    state = model.__getstate__()
    assert {type(value) for value in state["arrays"].values()} == {np.ndarray}
    again = type(model).__new__(type(model))
    again.__setstate__({"torchnpn": json.loads(json.dumps(state["torchnpn"])), "arrays": state["arrays"]})
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.get_params() == model.get_params()


def test_pickle_keeps_the_history():
    model, _ = fitted("NPNRegressor")
    again = pickle.loads(pickle.dumps(model))
    assert again.history_.epochs == model.history_.epochs and model.history_.epochs


def test_unfitted_estimators_have_their_settings():
    again = npn.NPNRegressor.__new__(npn.NPNRegressor)
    again.__setstate__(npn.NPNRegressor(hidden=(7,)).__getstate__())
    assert again.get_params()["hidden"] == (7,)


def test_a_wrong_state_is_refused():
    model, _ = fitted("NPNRegressor")
    state = model.__getstate__()
    del state["arrays"]["inputs.center"]
    with pytest.raises(ValueError, match=r"inputs\.center is missing"):
        npn.NPNRegressor.__new__(npn.NPNRegressor).__setstate__(state)
