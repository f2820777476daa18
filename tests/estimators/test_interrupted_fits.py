"""A fit that is interrupted, by Ctrl-C or by an error, leaves the estimator as it was."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

import torchnpn.logistic.posterior as logistic_posterior
from torchnpn import (
    BayesianLogisticRegression,
    DocumentAutoencoder,
    LinkPredictor,
    NPNAutoencoder,
    NPNClassifier,
    NPNRegressor,
)
from torchnpn.estimators import EpochRecord
from torchnpn.training.tape import Steps

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=40)
COUNTS = RNG.poisson(1.0, size=(40, 6))
QUICK = {"hidden": (4,), "max_epochs": 5, "random_state": 0}
CASES = {
    "regressor": (lambda: NPNRegressor(**QUICK, effort="quick"), (X, Y), NPNRegressor.predict),
    "ensemble": (lambda: NPNRegressor(n_estimators=2, dropout=0.2, **QUICK), (X, Y), NPNRegressor.predict),
    "classifier": (lambda: NPNClassifier(**QUICK, effort="quick"), (X, Y > 0), NPNClassifier.predict_proba),
    "autoencoder": (lambda: NPNAutoencoder(**QUICK), (X,), NPNAutoencoder.transform),
    "words": (lambda: DocumentAutoencoder("gamma", **QUICK), (COUNTS,), DocumentAutoencoder.transform),
}


class Interrupting:
    """A callback that breaks off when so much is done."""

    def __init__(self, error: type[BaseException], at: float) -> None:
        self.error, self.at = error, at

    def __call__(self, record: EpochRecord) -> None:
        if record.share >= self.at:
            raise self.error


@pytest.mark.parametrize("at", [0.0, 0.5, 1.0], ids=["at once", "half-way", "at the end"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
@pytest.mark.parametrize("name", CASES)
def test_an_interrupted_fit_leaves_the_estimator_as_it_was(name, error, at):
    make, data, answer = CASES[name]
    model = make()
    with pytest.raises(error):
        model.fit(*data, callbacks=[Interrupting(error, at)])
    with pytest.raises(NotFittedError):
        answer(model, data[0])
    assert vars(model) == vars(make())
    model.fit(*data)
    before, attributes = answer(model, data[0]), dict(vars(model))
    with pytest.raises(error):
        model.fit(*(part[::-1] for part in data), callbacks=[Interrupting(error, at)])
    np.testing.assert_array_equal(answer(model, data[0]), before)
    assert vars(model) == attributes


@pytest.mark.parametrize("name", ["regressor", "ensemble", "classifier"])
def test_an_interrupted_partial_fit_leaves_the_estimator_as_it_was(name, monkeypatch):
    make, (X, y), answer = CASES[name]
    model, twin = make(), make()
    first = {"classes": [False, True]} if name == "classifier" else {}
    step = Steps.step

    def broken_step(run, *args):
        step(run, *args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Steps, "step", broken_step)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X, y, **first)
    with pytest.raises(NotFittedError):
        answer(model, X)
    for one in (model, twin):
        one.partial_fit(X, y, **first)
    before = answer(model, X)
    with monkeypatch.context() as patch:
        patch.setattr(Steps, "step", broken_step)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X, y)
    np.testing.assert_array_equal(answer(model, X), before)
    for one in (model, twin):  # Adam's averages are those of before, too
        one.partial_fit(X, y)
    np.testing.assert_array_equal(answer(model, X), answer(twin, X))
    assert not np.array_equal(answer(model, X), before)


def test_interrupted_logistic_regressions_are_as_before(monkeypatch):
    model = BayesianLogisticRegression().fit(X, Y > 0)
    before = model.predict_proba(X)
    codes, links = RNG.normal(size=(20, 3)), [(i, i + 1) for i in range(19)]
    linked = LinkPredictor(negatives=30, random_state=0).fit(codes, links)
    scores = linked.scores([0, 1], range(20))

    def broken(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(logistic_posterior, "laplace", broken)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :2], Y > 1)
    with pytest.raises(KeyboardInterrupt):
        linked.fit(2 * codes, links[:5])
    np.testing.assert_array_equal(model.predict_proba(X), before)
    np.testing.assert_array_equal(linked.scores([0, 1], range(20)), scores)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", CASES)
def test_a_fit_learns_whatever_the_mode_of_gradients(name, mode):
    make, data, answer = CASES[name]
    expected = answer(make().fit(*data), data[0])
    with mode():
        np.testing.assert_array_equal(answer(make().fit(*data), data[0]), expected)


@pytest.mark.parametrize("name", CASES)
def test_an_interrupted_fit_leaves_gradients_switched_on(name):
    """Ctrl-C at the first instant of `with torch.no_grad()` switches them off for good, but for the fit around it."""

    def interrupt(record: EpochRecord) -> None:
        torch.set_grad_enabled(False)
        raise KeyboardInterrupt

    make, data, _ = CASES[name]
    with pytest.raises(KeyboardInterrupt):
        make().fit(*data, callbacks=[interrupt])
    assert torch.is_grad_enabled()
