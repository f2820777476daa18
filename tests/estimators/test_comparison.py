"""`family="auto"`: which families are compared, which one is taken, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import torchnpn as npn
from torchnpn import NPNRegressor
from torchnpn.estimators import comparison

RNG = np.random.default_rng(0)
ROWS = 300
X = RNG.normal(size=(ROWS, 3))
F = np.sin(2 * X[:, 0]) + X[:, 1]
RATE = np.exp(F)
SHORT = {"effort": "quick", "max_epochs": 1, "random_state": 0}
TARGETS = {
    "student_t": F + 0.3 * RNG.standard_t(2, ROWS),
    "lognormal": np.exp(F + RNG.normal(size=ROWS)),
    "hurdle_gamma": RNG.gamma(2, RATE) * (RNG.random(ROWS) < 0.5),
    "negative_binomial": RNG.poisson(RATE * RNG.gamma(0.7, 1 / 0.7, ROWS)),
    "zero_inflated_negative_binomial": RNG.poisson(9 * RATE) * (RNG.random(ROWS) < 0.5),
    "gaussian": np.clip(np.round(RNG.normal(10 + 2 * F, 1)), 0, 20),
    "beta": RNG.beta(4 * RATE / (1 + RATE), 4 / (1 + RATE)),
}


@pytest.fixture(autouse=True)
def steps(monkeypatch):
    """A function that sets how many; few are enough where it does not matter which family is the best."""

    def of_trials(count):
        monkeypatch.setattr(comparison, "_NETWORKS", comparison._NETWORKS._replace(steps=count))

    of_trials(40)
    return of_trials


@pytest.mark.parametrize("family", TARGETS)
def test_the_family_that_targets_were_drawn_from_is_taken(family, steps):
    steps(300)
    model = NPNRegressor("auto", **SHORT).fit(X, TARGETS[family])
    found = model.families_
    assert found[model.family_] >= max(found.values()) - 0.005
    assert found[family] >= max(found.values()) - 0.03


def test_log_likelihoods_are_those_of_the_targets_in_their_own_units():
    y = np.exp(F + RNG.normal(size=ROWS))
    found, larger = (NPNRegressor("auto", **SHORT).fit(X, unit * y).families_ for unit in (1.0, 1e3))
    for family in found:
        assert larger[family] == pytest.approx(found[family] - np.log(1e3), abs=1e-3)
    assert found["lognormal"] == pytest.approx(np.mean(-0.5 * np.log(2 * np.pi * np.e) - F), abs=0.5)


def test_a_model_file_says_what_was_compared(tmp_path):
    model = NPNRegressor("auto", **SHORT).fit(X, RATE)
    npn.save(model, tmp_path / "model.npn")
    again = npn.load(tmp_path / "model.npn")
    assert (again.family, again.family_, again.families_) == ("auto", model.family_, model.families_)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_exposed_and_censored_targets_have_families_of_their_own():
    counts = NPNRegressor("auto", **SHORT).fit(X, RNG.poisson(2 * RATE), exposure=np.full(ROWS, 2.0))
    assert set(counts.families_) == {"negative_binomial", "zero_inflated_negative_binomial"}
    durations = npn.censored(RNG.weibull(3, ROWS) * RATE, observed=RNG.random(ROWS) < 0.8)
    assert set(NPNRegressor("auto", **SHORT).fit(X, durations).families_) == {"lognormal", "weibull"}
    with pytest.raises(ValueError, match="not below 0"):
        NPNRegressor("auto", **SHORT).fit(X, F, exposure=np.ones(ROWS))


def test_of_very_few_rows_the_usual_family_is_taken():
    model = NPNRegressor("auto", **SHORT).fit(X[:15], F[:15])
    assert (model.family_, model.families_) == ("gaussian", {})


def test_several_targets_and_weights():
    weight = np.where(np.arange(ROWS) < 250, 1.0, 0.0)
    y = np.column_stack([RATE, 2 + RATE])
    model = NPNRegressor("auto", **SHORT).fit(X, y, sample_weight=weight)
    assert set(model.families_) == {"gaussian", "student_t", "gamma", "lognormal"}
    assert model.predict(X).shape == (ROWS, 2)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: NPNRegressor("auto", **SHORT).fit(scipy.sparse.csr_matrix(X), F), "expects dense X"),
        (lambda: NPNRegressor("auto").partial_fit(X, F), "expects a family by its name"),
        (lambda: NPNRegressor("automatic").fit(X, F), 'family expects one of .*"auto"'),
    ],
)
def test_what_it_does_not_go_with_is_said(act, words):
    with pytest.raises(ValueError, match=words):
        act()
