"""Exposure: log e is added to the log mean, wherever exposures stand and in whatever unit they are written."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from scipy import stats
from sklearn.linear_model import PoissonRegressor
from sklearn.model_selection import cross_val_score

import torchnpn as npn
from torchnpn import NPNRegressor

RNG = np.random.default_rng(0)
ROWS = 60
X = RNG.normal(size=(ROWS, 3))
E = RNG.uniform(0.05, 4, ROWS)
RATE = np.exp(0.5 * X[:, 0])
COUNTS = RNG.poisson(2 * RATE * E).astype(float)
TARGETS = {
    "poisson": COUNTS,
    "negative_binomial": COUNTS,
    "zero_inflated_poisson": COUNTS,
    "zero_inflated_negative_binomial": COUNTS,
    "gamma": RNG.gamma(3, RATE * E),
    "lognormal": RATE * E * RNG.lognormal(0, 0.4, ROWS),
}
SHORT = {"max_epochs": 3, "effort": "quick", "random_state": 0}
every_family = pytest.mark.parametrize("family", TARGETS)


def fitted(family="poisson", x=X, exposure=E, **settings):
    return NPNRegressor(family, **{**SHORT, **settings}).fit(x, TARGETS[family], exposure=exposure)


@every_family
def test_one_exposure_for_all_rows_changes_nothing(family):
    plain = NPNRegressor(family, **SHORT).fit(X, TARGETS[family])
    exposed = fitted(family, exposure=np.full(ROWS, 0.3))
    np.testing.assert_allclose(exposed.predict(X, exposure=0.3), plain.predict(X), rtol=1e-5)


@every_family
def test_the_unit_of_exposure_does_not_matter(family):
    years, months = fitted(family), fitted(family, exposure=12 * E)
    np.testing.assert_allclose(months.predict(X, exposure=12 * E), years.predict(X, exposure=E), rtol=1e-4)


@every_family
@pytest.mark.parametrize("settings", [{}, {"n_estimators": 2}, {"effort": "best"}], ids=str)
def test_means_are_in_proportion(family, settings):
    model = fitted(family, **settings)
    one, two = (model.predict_dist(X, exposure=e) for e in (1.0, 2.0))
    np.testing.assert_allclose(two.mean, 2 * one.mean, rtol=1e-6)
    if family in ("gamma", "lognormal"):
        y = TARGETS[family]
        np.testing.assert_allclose(two.cdf(2 * y), one.cdf(y), rtol=1e-6)
    epistemic = [model.predict_variance(X, exposure=e).epistemic for e in (1.0, 2.0)]
    np.testing.assert_allclose(epistemic[1], 4 * epistemic[0], rtol=1e-6)


def test_a_linear_model_comes_to_the_coefficients_of_a_poisson_regression():
    """Many rows, a weak prior: the reference takes rates y/e with weights e, which has the same likelihood."""
    rng = np.random.default_rng(1)
    x, e = rng.normal(size=(3_000, 2)), np.exp(rng.normal(size=3_000))
    y = rng.poisson(e * np.exp(0.3 + 0.5 * x[:, 0] - 0.2 * x[:, 1])).astype(float)
    want = PoissonRegressor(alpha=0).fit(x, y / e, sample_weight=e).predict(x)
    model = NPNRegressor("poisson", (), kl_weight=0.1, max_epochs=40, random_state=0).fit(x, y, exposure=e)
    np.testing.assert_allclose(model.predict(x, exposure=1.0), want, rtol=0.05)
    np.testing.assert_allclose(
        model.log_likelihood(x, y, exposure=e).mean(), stats.poisson(want * e).logpmf(y).mean(), atol=5e-3
    )


def test_a_column_serves_as_well_as_an_array():
    beside, frame = fitted(), pd.DataFrame(X, columns=["a", "b", "c"]).assign(years=E)[["a", "years", "b", "c"]]
    want = beside.predict(X, exposure=E)
    named = fitted(x=frame, exposure="years")
    assert named.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(named.predict(frame), want)
    np.testing.assert_array_equal(named.predict(frame[["a", "b", "c"]], exposure=E), want)
    np.testing.assert_array_equal(named.predict(frame, exposure=1.0), beside.predict(X, exposure=1.0))
    numbered = fitted(x=np.insert(X, 1, E, axis=1), exposure=1)
    np.testing.assert_array_equal(numbered.predict(np.insert(X, 1, E, axis=1)), want)
    sparse = scipy.sparse.csr_matrix(np.insert(X, 1, E, axis=1))
    np.testing.assert_array_equal(
        fitted(x=sparse, exposure=1).predict(sparse),
        fitted(x=scipy.sparse.csr_matrix(X)).predict(sparse[:, [0, 2, 3]], exposure=E),
    )
    assert beside.score(X, COUNTS, exposure=E) == named.score(frame, COUNTS)


def test_cross_validation_takes_the_name_of_a_column():
    frame = pd.DataFrame(X, columns=list("abc")).assign(years=E)
    scores = cross_val_score(NPNRegressor("poisson", **SHORT), frame, COUNTS, cv=3, params={"exposure": "years"})
    assert np.isfinite(scores).all()


def test_several_targets_share_an_exposure():
    y = np.column_stack([COUNTS, COUNTS[::-1]])
    model = NPNRegressor("negative_binomial", **SHORT).fit(X, y, exposure=E)
    assert model.predict(X, exposure=E).shape == (ROWS, 2)
    np.testing.assert_allclose(model.predict(X, exposure=3 * E), 3 * model.predict(X, exposure=E), rtol=1e-6)


def test_more_rows_keep_the_unit():
    model = NPNRegressor("poisson", **SHORT)
    model.partial_fit(X[:30], COUNTS[:30], exposure=E[:30]).partial_fit(X[30:], COUNTS[30:], exposure=E[30:])
    assert model.exposure_.unit == E[:30].mean()
    with pytest.raises(ValueError, match="all calls of partial_fit"):
        model.partial_fit(X, COUNTS)


@pytest.mark.parametrize("column", [None, 3, "years"])
def test_a_model_file_knows_exposures(column, tmp_path):
    x = np.column_stack([X, E])
    x = X if column is None else pd.DataFrame(x, columns=[*"abc", "years"]) if column == "years" else x
    model = fitted(x=x, exposure=E if column is None else column)
    npn.save(model, tmp_path / "model.npn")
    found, given = npn.load(tmp_path / "model.npn"), {"exposure": E} if column is None else {}
    np.testing.assert_array_equal(found.predict(x, **given), model.predict(x, **given))


@pytest.mark.parametrize(
    ("exposure", "words"),
    [
        (np.zeros(ROWS), "exposure expects numbers above 0, got 0 in row 0"),
        (np.where(np.arange(ROWS) == 7, np.nan, E), "got nan in row 7"),
        (np.where(np.arange(ROWS) == 7, 1e-20, E), "about the size of their mean, .* in row 7"),
        (E[1:], "for each of 60 rows, got shape"),
        ("years", "the name of a column of a frame"),
        (3, "the number of a column"),
        (["a"] * ROWS, "exposure expects real numbers"),
    ],
)
def test_no_exposure_is_refused_in_words(exposure, words):
    with pytest.raises(ValueError, match=words):
        fitted(exposure=exposure)


def test_models_and_exposures_must_belong_together():
    with pytest.raises(ValueError, match=r'families whose mean it can multiply.*got family="gaussian"'):
        NPNRegressor(**SHORT).fit(X, COUNTS, exposure=E)
    with pytest.raises(ValueError, match=r"Pass exposure=.*; exposure=1.0 asks for"):
        fitted().predict(X)
    with pytest.raises(ValueError, match="this one was not"):
        NPNRegressor("poisson", **SHORT).fit(X, COUNTS).predict(X, exposure=E)
