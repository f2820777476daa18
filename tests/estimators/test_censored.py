"""Censored durations: losses of ranges by scipy, fits beside scipy's and lifelines' own, survival and concordance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.model_selection import cross_val_score

import torchnpn as npn
from torchnpn import NPNRegressor, likelihoods, metrics
from torchnpn.moments import Moments

RNG = np.random.default_rng(0)
ROWS = 80
X = RNG.normal(size=(ROWS, 2))
TRUE = np.exp(1 + 0.5 * X[:, 0]) * RNG.weibull(1.5, ROWS)
LAST_SEEN = RNG.uniform(1, 8, ROWS)
Y = npn.censored(np.minimum(TRUE, LAST_SEEN), TRUE <= LAST_SEEN)
SHORT = {"max_epochs": 3, "effort": "quick", "random_state": 0}
every_family = pytest.mark.parametrize("family", ["lognormal", "weibull"])
ENDS = [(0.0, 2.0), (1.5, np.inf), (0.5, 0.7), (30.0, np.inf), (0.0, 1e-3), (2.0, 2.0)]


def point(*values: float) -> torch.Tensor:
    return torch.tensor([values], dtype=torch.float64)


@pytest.mark.parametrize("ends", ENDS, ids=str)
@pytest.mark.parametrize(
    ("make", "twin"),
    [
        (
            lambda: likelihoods.LogNormalAmounts(elbo=0.0, initial_log_noise=-1.0),
            stats.lognorm(np.exp(-0.5), scale=np.exp(0.3)),
        ),
        (
            lambda: likelihoods.HeteroscedasticLogNormal(elbo=0.0, initial_log_noise=-1.5),
            stats.lognorm(np.exp(-0.5), scale=np.exp(0.3)),
        ),
        (lambda: likelihoods.WeibullDurations(1, 0.4), stats.weibull_min(np.exp(0.4), scale=np.exp(0.3))),
    ],
    ids=["lognormal", "varying", "weibull"],
)
def test_the_loss_of_a_known_latent_is_that_of_scipy(make, twin, ends):
    """Of a range -log (F(upper) - F(lower)), of a known duration -log p."""
    likelihood = likelihoods.Censored(make())
    o = Moments(point(0.3, 0.5)[:, : likelihood.outputs(2)], torch.zeros(1, likelihood.outputs(2), dtype=torch.float64))
    lower, upper = ends
    want = (
        twin.logpdf(lower)
        if lower == upper
        else twin.logsf(lower)
        if upper == np.inf
        else np.log(twin.cdf(upper) - twin.cdf(lower))
    )
    assert likelihood.loss(o, point(*ends)).item() == pytest.approx(-want, rel=1e-5)
    assert likelihood.log_prob(o, point(*ends)).item() == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize(("family", "twin"), [("lognormal", stats.lognorm), ("weibull", stats.weibull_min)])
def test_without_features_it_comes_to_scipys_censored_fit(family, twin):
    """A single constant column, a weak prior: the distribution of all rows, fitted by maximum likelihood."""
    rng = np.random.default_rng(2)
    time, end = rng.weibull(1.7, 600) * 3, rng.uniform(0, 5, 600)
    seen = time <= end
    data = stats.CensoredData.right_censored(np.minimum(time, end), ~seen)
    shape, _, scale = twin.fit(data, floc=0)
    settings = {"noise": "constant", "kl_weight": 0.01, "max_epochs": 60, "random_state": 0}
    model = NPNRegressor(family, (), **settings).fit(np.zeros((600, 1)), npn.censored(np.minimum(time, end), seen))
    t = np.array([0.5, 2.0, 4.0, 8.0])
    found = [model.predict_dist([[0.0]]).survival(value)[0] for value in t]
    np.testing.assert_allclose(found, twin(shape, scale=scale).sf(t), atol=0.02)


@every_family
def test_what_had_not_ended_is_not_taken_for_short(family):
    """A fit to the times last seen, as if all had ended, predicts less than the truth; the censored one does not."""
    settings = {"hidden": (), "max_epochs": 60, "random_state": 0}
    taken = NPNRegressor(family, **settings).fit(X, Y["lower"]).predict_dist(X).median.mean()
    known = NPNRegressor(family, **settings).fit(X, Y).predict_dist(X).median.mean()
    truth = (np.exp(1 + 0.5 * X[:, 0]) * np.log(2) ** (1 / 1.5)).mean()
    assert known > 1.05 * taken and abs(known - truth) < 0.25 * truth


@every_family
@pytest.mark.parametrize("settings", [{}, {"n_estimators": 2}, {"effort": "best"}], ids=str)
def test_predictions_of_censored_rows(family, settings):
    model = NPNRegressor(family, **{**SHORT, **settings}).fit(X, Y)
    predicted = model.predict_dist(X)
    np.testing.assert_allclose(predicted.survival(2.0), 1 - predicted.cdf(2.0), atol=1e-12)
    logs = model.log_likelihood(X, Y)
    seen = Y["lower"] == Y["upper"]
    np.testing.assert_allclose(logs[seen], predicted.log_prob(Y["lower"])[seen])
    np.testing.assert_allclose(logs[~seen], np.log(predicted.survival(Y["lower"]))[~seen], rtol=1e-6)
    assert model.score(X, Y) == metrics.concordance(Y, predicted.median)


def test_known_ends_are_those_of_a_plain_target():
    time = np.maximum(TRUE, 0.1)
    want = NPNRegressor("weibull", **SHORT).fit(X, time).predict(X)
    np.testing.assert_allclose(
        NPNRegressor("weibull", **SHORT).fit(X, npn.interval_censored(time, time)).predict(X), want, rtol=1e-5
    )


def test_scikit_learn_and_scikit_survival_hand_them_over():
    scores = cross_val_score(NPNRegressor("weibull", **SHORT), X, Y, cv=3)
    assert ((scores > 0) & (scores < 1)).all()
    theirs = np.empty(ROWS, [("cens", bool), ("time", float)])
    theirs["cens"], theirs["time"] = Y["lower"] == Y["upper"], Y["lower"]
    ours = NPNRegressor("weibull", **SHORT).fit(X, Y)
    np.testing.assert_array_equal(NPNRegressor("weibull", **SHORT).fit(X, theirs).predict(X), ours.predict(X))
    assert ours.score(X, theirs) == ours.score(X, Y)


def test_concordance_is_harrells():
    """Against all pairs, one by one; times and predictions with ties."""
    time, seen = RNG.integers(1, 15, 60).astype(float), RNG.random(60) < 0.6
    predicted = RNG.integers(0, 10, 60).astype(float)
    pairs = right = 0.0
    for i in np.flatnonzero(seen):
        for j in range(60):
            if time[j] > time[i] or (time[j] == time[i] and not seen[j]):
                pairs += 1
                right += 1.0 if predicted[j] > predicted[i] else 0.5 if predicted[j] == predicted[i] else 0.0
    assert metrics.concordance(npn.censored(time, seen), predicted) == pytest.approx(right / pairs)
    assert metrics.concordance(time, time) == 1.0 and metrics.concordance(time, -time) == 0.0
    with pytest.raises(ValueError, match="known to end before the other"):
        metrics.concordance(npn.censored([1.0, 2.0], [False, False]), [1.0, 2.0])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: npn.censored([1.0, 2.0], [1, 2]), "bools, or 0 and 1, got .*2"),
        (lambda: npn.censored([1.0, 2.0], [True]), "one time and one observed"),
        (lambda: npn.interval_censored([2.0], [1.0]), "at most the upper one, got 2 and 1 in row 0"),
        (lambda: npn.interval_censored([np.nan], [1.0]), "finite lower end"),
        (lambda: NPNRegressor(**SHORT).fit(X, Y), 'families of durations: .*got family="gaussian"'),
        (lambda: NPNRegressor("weibull", **SHORT).fit(X, npn.censored(LAST_SEEN, np.zeros(ROWS))), "got none"),
        (lambda: NPNRegressor("weibull", **SHORT).fit(X, npn.censored(-LAST_SEEN, np.ones(ROWS))), "targets > 0"),
        (lambda: NPNRegressor("weibull", **SHORT).fit(X, Y, exposure=LAST_SEEN), "targets that are known"),
        (lambda: NPNRegressor("weibull", **SHORT).fit(X, np.zeros(ROWS, [("a", float), ("b", int)])), "fields a, b"),
    ],
)
def test_what_is_no_censored_target_is_refused_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make()
