"""Mixtures of networks that check each other: their weights, the rows that they leave out, and what estimators make."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse
import torch
from scipy import optimize, stats

import torchnpn as npn
from torchnpn import Moments, NPNClassifier, NPNRegressor
from torchnpn.columns import Bins
from torchnpn.estimators import stacking
from torchnpn.nn import replicas_of
from torchnpn.rows import copies

RNG = np.random.default_rng(0)
ROWS = 60
X = RNG.uniform(-2, 2, size=(ROWS, 3))
Y = np.sin(3 * X[:, 0]) + 0.2 * RNG.normal(size=ROWS)
SHORT = {"max_epochs": 3, "random_state": 0}


@pytest.mark.parametrize("weighted", [False, True])
def test_weights_of_a_mixture_are_the_most_likely_ones(weighted):
    """Against a general optimiser on the simplex, by softmax coordinates."""
    logs = np.stack([stats.norm(m, s).logpdf(RNG.normal(size=200)) for m, s in [(0, 0.8), (0.5, 1.5), (-1, 0.6)]])
    v = RNG.uniform(0.1, 2, size=200) if weighted else np.ones(200)

    def loss(free):
        w = np.exp(free) / np.exp(free).sum()
        return -(v * np.log(w @ np.exp(logs))).sum() / v.sum()

    best = optimize.minimize(loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-14})
    found = stacking.weights(logs, v if weighted else None)
    np.testing.assert_allclose(found.sum(), 1)
    np.testing.assert_allclose(loss(np.log(np.maximum(found, 1e-12))), best.fun, atol=2e-3)  # small shares are left out


def test_a_setting_that_is_sure_of_something_else_counts_for_nothing():
    logs = np.stack([np.full(50, -1.0), np.full(50, -1e6), np.full(50, -np.inf)])
    np.testing.assert_array_equal(stacking.weights(logs), [1.0, 0.0, 0.0])


@pytest.mark.parametrize("rows", [20, 23, 101])
def test_every_row_is_left_out_by_one_network_of_each_setting(rows):
    folds = stacking.Folds.draw(np.arange(rows), 3, seed=1)
    assert folds.subsets.shape[0] == 3 * stacking.FOLDS
    for number, seen in enumerate(folds.subsets):
        assert len(set(seen)) == len(seen) >= rows - -(-rows // stacking.FOLDS)
        assert not (folds.fold[seen] == number % stacking.FOLDS).any()
    by_network = RNG.normal(size=(3 * stacking.FOLDS, rows))
    found = folds.left_out(by_network)
    for setting in range(3):
        for row in range(rows):
            assert found[setting, row] == by_network[setting * stacking.FOLDS + folds.fold[row], row]


def test_copies_are_left_out_together():
    X = RNG.normal(size=(40, 3))
    X[::7, 1] = np.nan
    which = RNG.permutation(np.repeat(np.arange(40), 5))
    same = copies(X[which], RNG.integers(0, 2, 40)[which])
    assert len(set(same)) == len({*zip(same, which, strict=True)}) == 40
    folds = stacking.Folds.draw(same, 1, seed=0)
    for number in set(same):
        assert len(set(folds.fold[same == number])) == 1


def test_rows_that_are_equal_by_chance_are_no_copies():
    X, y = RNG.integers(0, 3, size=(200, 4)).astype(float), RNG.integers(0, 2, 200)
    assert len({*map(tuple, np.column_stack([X, y]))}) < 200
    for rows, targets in ((X, y), (RNG.normal(size=(200, 1)), y), (scipy.sparse.csr_matrix(X), y)):
        assert len(set(copies(rows, targets))) == 200


def test_bins_say_how_far_a_value_has_come_through_each():
    z = np.column_stack([RNG.normal(size=400), RNG.integers(0, 2, 400), RNG.integers(0, 4, 400)])
    bins = Bins.learn(z)
    assert np.bincount(bins.feature, minlength=3).tolist() == [8, 0, 3]
    new = np.array([[-9.0, 1, 0], [0.1, 0, 1.5], [9.0, 0, 3]])
    encoded = bins.beside(Moments(torch.tensor(new, dtype=torch.float32))).mean[:, 3:]
    for k, (feature, left, right, mean, scale) in enumerate(zip(*bins, strict=True)):
        share = (new[:, feature] - left) / (right - left)
        first, last = left == z[:, feature].min(), right == z[:, feature].max()  # a line goes on beyond these
        share = np.clip(share, -np.inf if first else 0, np.inf if last else 1)
        np.testing.assert_allclose(encoded[:, k], (share - mean) / scale, rtol=1e-5, atol=1e-5)


def test_bins_of_an_uncertain_value_have_the_moments_of_its_encoding():
    bins = Bins.learn(RNG.normal(size=(300, 1)))
    given = Moments(torch.tensor([[0.3], [0.3]]), torch.tensor([[1.0], [0.0]]))
    found = bins.beside(given)
    draws = torch.from_numpy(RNG.normal(0.3, 1, size=(200_000, 1)).astype(np.float32))
    drawn = bins.beside(Moments(draws)).mean
    np.testing.assert_allclose(found.mean[0, 1:], drawn.mean(0)[1:], atol=0.02)
    np.testing.assert_allclose(found.variance[0, 1:], drawn.var(0)[1:], atol=0.03)
    np.testing.assert_array_equal(found.variance[1], 0)


@pytest.mark.parametrize(
    ("rows", "columns", "bins"), [(50, 1_500, 0), (50, 20, 0), (100, 20, 2), (1_000, 20, 8), (1_000, 120, 4)]
)
def test_inputs_are_never_more_than_rows_by_bins(rows, columns, bins):
    counts = np.bincount(Bins.learn(RNG.normal(size=(rows, columns))).feature, minlength=columns)
    assert set(counts) == {bins}


@pytest.fixture(scope="module")
def fitted():
    weight = RNG.uniform(0.5, 2, ROWS)
    gaps = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
    return {
        "regressor": NPNRegressor(**SHORT).fit(X, Y),
        "weighted": NPNRegressor(**SHORT).fit(X, Y, sample_weight=weight),
        "gaps": NPNRegressor(**SHORT).fit(gaps, Y),
        "two targets": NPNRegressor(**SHORT).fit(X, np.column_stack([Y, -Y])),
        "counts": NPNRegressor("poisson", **SHORT).fit(X, np.round(np.exp(Y))),
        "classifier": NPNClassifier(**SHORT).fit(X, np.where(Y > 0, "high", "low")),
    }


KINDS = ["regressor", "weighted", "gaps", "two targets", "counts", "classifier"]


@pytest.mark.parametrize("kind", KINDS)
def test_models_come_back_from_files(kind, fitted, tmp_path):
    npn.save(fitted[kind], tmp_path / "model.npn")
    again = npn.load(tmp_path / "model.npn")
    rows = np.vstack([X[:5], [[np.nan, 0, 0]]])
    np.testing.assert_array_equal(again.predict(rows), fitted[kind].predict(rows))
    assert again.get_params() == fitted[kind].get_params()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_predicted_is_a_mixture_by_the_weights(kind, fitted):
    model = fitted[kind]
    w = model._weights.numpy()
    assert len(w) % stacking.FOLDS == 0 and np.isclose(w.sum(), 1)
    variance = model.predict_variance(X[:7])
    np.testing.assert_allclose(variance.total, variance.epistemic + variance.aleatoric, rtol=1e-6)
    if kind == "classifier":
        return
    members = model.predict_members(X[:7])
    mean = np.tensordot(w, members.mean, 1)
    np.testing.assert_allclose(model.predict(X[:7]), mean, rtol=1e-6, atol=1e-9)
    spread = np.tensordot(w, members.variance + members.mean**2, 1) - mean**2
    np.testing.assert_allclose(model.predict_dist(X[:7]).variance, spread, rtol=1e-5)
    np.testing.assert_allclose(variance.total, spread, rtol=1e-5)


@pytest.mark.slow
def test_it_is_better_than_one_network():
    """A wave with noise that the default network of one layer follows less well."""
    rng = np.random.default_rng(1)
    rows, new = rng.uniform(-3, 3, (400, 4)), rng.uniform(-3, 3, (400, 4))
    y, y_new = (np.sin(3 * x[:, 0]) + x[:, 1] ** 2 / 4 + 0.2 * rng.normal(size=400) for x in (rows, new))
    quick, best = (NPNRegressor(effort=effort, random_state=0).fit(rows, y) for effort in ("quick", "default"))
    gain = best.log_likelihood(new, y_new).mean() - quick.log_likelihood(new, y_new).mean()
    assert gain > 0.05
    low, high = best.predict_interval(new)
    assert 0.84 < np.mean((low <= y_new) & (y_new <= high)) < 0.98


@pytest.mark.parametrize(
    ("settings", "call"),
    [({"kl_weight": 2.0}, {}), ({"hidden": (7,)}, {}), ({"n_estimators": 2}, {}), ({}, {"X": X[:19], "y": Y[:19]}),
     ({}, {"X": scipy.sparse.csr_matrix(X)}), ({"n_estimators": 2}, {"subsets": np.stack([np.arange(30)] * 2)}),
     ({"effort": "quick"}, {})],
    ids=["kl_weight", "hidden", "n_estimators", "few rows", "sparse rows", "subsets", "quick"],
)  # fmt: skip
def test_settings_that_describe_a_network_are_taken_at_their_word(settings, call):
    model = NPNRegressor(**{"max_epochs": 2, "random_state": 0, **settings}).fit(**{"X": X, "y": Y, **call})
    assert replicas_of(model.network_) == ((2,) if "n_estimators" in settings else ())


def test_candidates_follow_the_table():
    """A line wherever rows are few or columns many; wide networks from thousands of rows on; steps within bounds."""
    sizes = ((1, 1), (1, 9), (50, 50), (50, 400), (500, 500), (5_000, 5_000))
    for rows, (features, inputs) in itertools.product((20, 400, 5_000, 50_000, 10**6), sizes):
        for effort in ("default", "best"):
            found = stacking.candidates(rows, features, inputs, (0.1, 0.3, 1.0, 3.0), effort)
            units = [one.units for one in found]
            assert len({(one.units, one.encoded) for one in found}) == len(found)
            assert (() in units) or rows >= 10_000
            assert ((128, 128) in units) >= (rows >= 2_500 and inputs <= 500)
            assert inputs == features or {one.encoded for one in found} == {True, False} or rows >= 10_000
            assert all(500 <= one.steps <= 10**6 for one in found)
            work = sum(one.members * one.steps * (inputs + 100) * max(one.units, default=2) for one in found)
            assert work < 4e10


@pytest.mark.parametrize(
    ("settings", "call", "words"),
    [
        ({"effort": "best", "kl_weight": 2.0}, {}, "chooses networks by itself, got kl_weight=2.0"),
        ({"effort": "best", "n_estimators": 3}, {}, "got n_estimators=3"),
        ({"effort": "much"}, {}, 'effort expects one of "quick", "default", "best", got'),
        ({"effort": "best"}, {"subsets": np.zeros((1, 30), int)}, "subsets go with"),
    ],
)
def test_what_does_not_go_with_it_is_refused_in_words(settings, call, words):
    with pytest.raises(ValueError, match=words):
        NPNRegressor(**{**SHORT, **settings}).fit(**{"X": X, "y": Y, **call})


def test_streams_are_refused(fitted):
    for kind, y in (("regressor", Y), ("classifier", np.where(Y > 0, "high", "low"))):
        with pytest.raises(ValueError, match="partial_fit goes on with one network"):
            fitted[kind].partial_fit(X, y)
