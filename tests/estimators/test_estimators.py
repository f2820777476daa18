"""Estimators: scikit-learn's contract, and what their predictions promise."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from support import target_cases

from torchnpn import NPNAutoencoder, NPNClassifier, NPNRegressor
from torchnpn.estimators import learning
from torchnpn.likelihoods import BY_NAME

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
RATE = np.exp(0.6 * X[:, 0] + 0.3 * np.sin(2 * X[:, 1]))
TARGETS = target_cases.drawn(RNG, RATE)
CONTRACT = (
    NPNRegressor(max_epochs=20, effort="quick"),
    NPNRegressor(max_epochs=10, n_estimators=2),
    NPNClassifier(max_epochs=20, effort="quick"),
    NPNClassifier(max_epochs=10, n_estimators=2),
    NPNAutoencoder(max_epochs=20, hidden=(5,)),
)


@pytest.fixture(scope="module")
def fitted():
    """A quick fit for each family."""
    return {
        family: NPNRegressor(family, max_epochs=60, random_state=0, effort="quick").fit(X, y)
        for family, y in TARGETS.items()
    }


@pytest.mark.slow
@parametrize_with_checks(list(CONTRACT))
@pytest.mark.filterwarnings("ignore")  # some checks have few rows
def test_scikit_learn_contract(estimator, check):
    if "sample_weight_equivalence" in check.func.__name__:
        pytest.skip("asks for seven equal digits; the next test asks for those that training in float32 has")
    check(estimator)


@pytest.mark.parametrize("container", [np.asarray, scipy.sparse.csr_matrix])
@pytest.mark.parametrize("estimator", CONTRACT, ids=str)
def test_a_row_of_weight_two_is_two_rows(estimator, container):
    """Where all rows are in one minibatch: in others they come in another order."""
    rng = np.random.default_rng(0)
    rows, labels, weight = rng.random((12, 5)), rng.integers(3, size=12), rng.integers(4, size=12)
    repeated, weighted = (clone(estimator).set_params(random_state=0) for _ in range(2))
    repeated.fit(container(rows.repeat(weight, axis=0)), labels.repeat(weight))
    weighted.fit(container(rows), labels, sample_weight=weight)
    answer = next(name for name in ("predict_proba", "predict", "transform") if hasattr(estimator, name))
    expected, found = (getattr(model, answer)(container(rows)) for model in (repeated, weighted))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


# Distributions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", TARGETS)
def test_all_answers_are_of_one_distribution(fitted, family):
    model, y = fitted[family], TARGETS[family]
    predicted = model.predict_dist(X)
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == y.shape and mean.dtype == np.float64
    np.testing.assert_allclose(mean, predicted.mean, rtol=1e-12)
    np.testing.assert_allclose(mean, model.predict(X), rtol=1e-12)
    total, epistemic, aleatoric = model.predict_variance(X)
    np.testing.assert_allclose(total, epistemic + aleatoric, rtol=1e-12)
    np.testing.assert_allclose(total, std**2, rtol=1e-5)
    assert (epistemic > 0).all() and (aleatoric > 0).all()
    low, high = model.predict_interval(X, 0.8)
    np.testing.assert_allclose(model.predict_quantile(X, [0.1, 0.9]), np.stack([low, high], 1), rtol=1e-12)
    np.testing.assert_allclose(model.predict_quantile(X, 0.1), low, rtol=1e-12)
    inside = predicted.cdf(high) - predicted.cdf(low - (0 if y.dtype == int else 1e-9))
    assert (inside > 0.799).all()
    np.testing.assert_allclose(model.log_likelihood(X, y), predicted.log_prob(y), rtol=1e-9, atol=1e-12)
    assert (predicted.crps(y) > 0).all()
    draws = predicted.sample(4000, random_state=0)
    assert draws.shape == (4000, len(y))
    np.testing.assert_allclose(draws.mean(0), mean, atol=0.15 * std.max())


@pytest.mark.parametrize("family", TARGETS)
def test_distribution_is_the_family_in_the_users_units(fitted, family):
    model, y = fitted[family], TARGETS[family]
    predicted = model.predict_dist(X)
    reference = target_cases.TARGETS[family].scipy(target_cases.fields(predicted.distribution))
    logs = (reference.logpmf if hasattr(reference.dist, "pmf") else reference.logpdf)(y)
    np.testing.assert_allclose(model.log_likelihood(X, y), logs, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(predicted.mean, reference.mean(), rtol=1e-5)
    np.testing.assert_allclose(predicted.std, reference.std(), rtol=1e-4)


@pytest.mark.parametrize("family", TARGETS)
def test_predictions_of_some_rows(fitted, family):
    predicted, y = fitted[family].predict_dist(X), TARGETS[family]
    mask = np.arange(len(X)) % 3 == 0
    for rows in (slice(5, 9), [4, 2], mask):
        part = predicted[rows]
        assert len(part) == len(X[rows])
        np.testing.assert_array_equal(part.mean, predicted.mean[rows])
        np.testing.assert_allclose(part.log_prob(y[rows]), predicted.log_prob(y)[rows], rtol=1e-12)
    assert predicted[7].mean.shape == (1,) and predicted[-1].mean == predicted.mean[-1]
    with pytest.raises(IndexError):
        predicted[len(X)]


@pytest.mark.parametrize("family", TARGETS)
def test_it_learns(fitted, family):
    """Better than the best constant distribution of the same family, by a margin."""
    model, y = fitted[family], TARGETS[family]
    constant = NPNRegressor(family, hidden=(1,), max_epochs=60, random_state=0).fit(np.zeros_like(X), y)
    assert model.log_likelihood(X, y).mean() > constant.log_likelihood(np.zeros_like(X), y).mean() + 0.1


@pytest.mark.parametrize("family", TARGETS)
def test_targets_outside_the_support_are_refused(family):
    y = TARGETS[family].copy()
    model = NPNRegressor(family, max_epochs=1, random_state=0, effort="quick")
    model.partial_fit(X, y)
    y[3] = target_cases.TARGETS[family].wrong
    for learn in (clone(model).fit, model.partial_fit):
        with pytest.raises(ValueError, match=r"expects targets|NaN"):
            learn(X, y)


def test_every_kind_of_target_has_its_row():
    assert set(target_cases.TARGETS) == set(BY_NAME)
    assert all(kind.words for kind in BY_NAME.values())


def test_units_do_not_matter():
    """Feet or metres, offsets or none: the same model."""
    y = TARGETS["gaussian"]
    model = NPNRegressor(max_epochs=20, random_state=0, effort="quick").fit(X, y)
    other = NPNRegressor(max_epochs=20, random_state=0, effort="quick").fit(X * [1e-6, 1e3, 3.0] + 5, 1e6 + 1e4 * y)
    mean, std = model.predict(X[:9], return_std=True)
    twin_mean, twin_std = other.predict(X[:9] * [1e-6, 1e3, 3.0] + 5, return_std=True)
    np.testing.assert_allclose((twin_mean - 1e6) / 1e4, mean, atol=2e-3)
    np.testing.assert_allclose(twin_std / 1e4, std, rtol=2e-3)
    np.testing.assert_allclose(
        other.log_likelihood(X[:9] * [1e-6, 1e3, 3.0] + 5, 1e6 + 1e4 * y[:9]) + np.log(1e4),
        model.log_likelihood(X[:9], y[:9]),
        atol=0.01,
    )


def test_huge_and_tiny_units():
    """Squares of the numbers would overflow; the variance of such a target does, and says so by being infinite."""
    y = TARGETS["gaussian"]
    model = NPNRegressor(max_epochs=20, random_state=0, effort="quick").fit(X, y)
    for factor in (1e200, 1e-200):
        twin = NPNRegressor(max_epochs=20, random_state=0, effort="quick").fit(X * factor, y * 1e100)
        np.testing.assert_allclose(twin.predict(X * factor), 1e100 * model.predict(X), rtol=1e-3, atol=1e97)


@pytest.mark.parametrize(("device", "message"), [("gpu", "device expects"), ("cuda", "there is none")])
def test_wrong_devices_are_refused(device, message):
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match=message):
        NPNRegressor(device=device, max_epochs=1, effort="quick").fit(X, TARGETS["gaussian"])


def test_several_targets():
    y = np.stack([TARGETS["gaussian"], 100 - 50 * X[:, 1]], axis=1)
    model = NPNRegressor(max_epochs=100, random_state=0, effort="quick").fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == (200, 2)
    assert model.score(X, y) > 0.8
    assert model.predict_quantile(X, [0.1, 0.5, 0.9]).shape == (200, 2, 3)
    low, high = model.predict_interval(X)
    assert low.shape == (200, 2) and (low < high).all()
    np.testing.assert_allclose(model.log_likelihood(X, y), model.predict_dist(X).log_prob(y).sum(1))
    assert model.predict_variance(X).total.shape == (200, 2)
    assert NPNRegressor("poisson", max_epochs=2, effort="quick").fit(X, np.ones((200, 3))).predict(X).shape == (200, 3)


def test_varying_noise_is_found():
    x = RNG.uniform(-1, 1, size=(600, 1))
    y = x[:, 0] + np.exp(1.5 * x[:, 0]) * 0.3 * RNG.normal(size=600)
    model = NPNRegressor(noise="varying", max_epochs=100, random_state=0, effort="quick").fit(x, y)
    std = np.sqrt(model.predict_variance([[-0.9], [0.9]]).aleatoric)
    np.testing.assert_allclose(std, 0.3 * np.exp([-1.35, 1.35]), rtol=0.35)


def test_the_mean_is_the_same_with_constant_and_with_varying_noise():
    y = np.stack([TARGETS["gaussian"], TARGETS["gamma"]], 1)
    varying, constant = (
        NPNRegressor(noise=noise, max_epochs=20, random_state=0, effort="quick").fit(X, y)
        for noise in ("varying", "constant")
    )
    np.testing.assert_allclose(varying.predict(X), constant.predict(X), rtol=1e-3, atol=1e-3)
    spread = varying.predict_variance(X).aleatoric.std(0) / constant.predict_variance(X).aleatoric.mean(0)
    assert (spread > 0.05).all() and (constant.predict_variance(X).aleatoric.std(0) < 1e-9).all()


def test_units_and_steps_are_chosen_by_the_rows():
    rows = RNG.normal(size=(20_000, 2))
    quick = {"max_epochs": 1, "batch_size": 1_000}
    assert NPNRegressor(**quick, effort="quick").fit(rows[:100], rows[:100, 0]).hidden_ == (50,)
    many = NPNRegressor(**quick, effort="quick").fit(rows, rows[:, 0])
    assert many.hidden_ == (100,) and many.network_[0].out_features == 100
    assert NPNRegressor(hidden=(7, 3), **quick).fit(rows, rows[:, 0]).hidden_ == (7, 3)
    assert [learning.regression_steps(count) for count in (100, 25_000, 10**6)] == [10_000, 40_000, 80_000]


def test_old_files_are_told_from_new_ones(tmp_path):
    """A chosen number of units stands in the file: it cannot be told from the rows seen, whose weights may be any."""
    model = NPNRegressor(max_epochs=1, random_state=0, effort="quick").fit(X, TARGETS["gaussian"])
    values, arrays = model._state()
    assert values["hidden"] == [50] and values["settings"]["hidden"] is None
    for hidden in (None, [0], "50", [50.0]):
        with pytest.raises(ValueError, match="hidden expects"):
            NPNRegressor._from_state({**values, "hidden": hidden}, arrays)


# scikit-learn's habits -------------------------------------------------------------------------------------------


def test_in_pipelines_and_searches():
    pipeline = make_pipeline(StandardScaler(), NPNRegressor(max_epochs=10, random_state=0, effort="quick"))
    assert len(cross_val_score(pipeline, X, TARGETS["gaussian"], cv=3)) == 3
    grid = {"npnregressor__kl_weight": [0.1, 1.0], "npnregressor__hidden": [(5,), (8, 4)]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, TARGETS["gaussian"])
    assert search.best_params_.keys() == grid.keys()
    in_front = make_pipeline(NPNAutoencoder(hidden=(2,), max_epochs=5), FunctionTransformer())
    assert in_front.fit_transform(X).shape == (200, 2)


def test_same_seed_same_model_and_global_state_untouched():
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    a, b = (NPNRegressor(max_epochs=3, random_state=7, effort="quick").fit(X, TARGETS["gaussian"]) for _ in range(2))
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    c = NPNRegressor(max_epochs=3, random_state=8, effort="quick").fit(X, TARGETS["gaussian"])
    assert not np.array_equal(a.predict(X), c.predict(X))
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])


def test_pickle_and_clone(fitted):
    model = fitted["gamma"]
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(twin.predict(X), model.predict(X), rtol=1e-9)
    assert clone(model).get_params() == model.get_params()


def test_weights_count_as_rows():
    """Rows of weight zero might as well not be there, and doubling all weights is doubling the data."""
    y = TARGETS["gaussian"]
    weight = np.repeat([1.0, 0.0], 100)
    spoilt = y.copy()
    spoilt[100:] = 1e3
    model = NPNRegressor(max_epochs=150, random_state=0, effort="quick").fit(X, spoilt, sample_weight=weight)
    assert abs(model.predict(X)).max() < 50
    assert model.score(X[:100], y[:100]) > 0.6
    heavier = NPNRegressor(max_epochs=150, random_state=0, effort="quick").fit(
        X[:100], y[:100], sample_weight=np.full(100, 30.0)
    )
    assert heavier.predict_variance(X).epistemic.mean() < model.predict_variance(X).epistemic.mean()
    with pytest.raises(ValueError, match="non-zero"):
        NPNRegressor(effort="quick").fit(X, y, sample_weight=np.zeros(200))


@pytest.mark.parametrize(
    "settings",
    [
        {"family": "cauchy"},
        {"noise": "loud"},
        {"hidden": 50},
        {"hidden": (0,)},
        {"hidden": (1.5,)},
        {"hidden": (True,)},
        {"activation": "step?"},
        {"missing": "never"},
        {"dropout": 1.0},
        {"dropout": "a"},
        {"kl_weight": -1.0},
        {"posterior": "full"},
        {"learning_rate": 0.0},
        {"batch_size": 0},
        {"max_epochs": 2.5},
        {"n_estimators": 0},
        {"n_estimators": 2.0},
        {"n_estimators": True},
    ],
    ids=str,
)
def test_wrong_settings_are_refused(settings):
    (name,) = settings
    with pytest.raises(ValueError, match=f"{name} expects"):
        NPNRegressor(**settings, effort="quick").fit(X, TARGETS["gaussian"])


def test_unfitted():
    for call in ("predict", "predict_dist", "predict_interval", "predict_variance"):
        with pytest.raises(NotFittedError):
            getattr(NPNRegressor(effort="quick"), call)(X)
    with pytest.raises(NotFittedError):
        NPNClassifier(effort="quick").predict_proba(X)
    with pytest.raises(NotFittedError):
        NPNAutoencoder().transform(X)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"activation": "tanh"}, {"dropout": 0.2}, {"hidden": (8, 8)}, {"hidden": ()}])
def test_other_networks(settings):
    model = NPNRegressor(max_epochs=30, random_state=0, **settings, effort="quick").fit(X, TARGETS["gaussian"])
    assert model.score(X, TARGETS["gaussian"]) > 0.35
    assert (model.predict(X, return_std=True)[1] > 0).all()


# Prediction objects ----------------------------------------------------------------------------------------------


def test_predictive_refuses_what_does_not_fit(fitted):
    predicted = fitted["gaussian"].predict_dist(X)
    assert len(predicted) == 200 and "Gaussian" in repr(predicted)
    with pytest.raises(ValueError, match=r"\(200,\)"):
        predicted.log_prob(np.ones(3))
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        predicted.quantile(1.5)
    with pytest.raises(ValueError, match="between 0 and 1"):
        predicted.interval(90)
    np.testing.assert_allclose(predicted.cdf(0.0), predicted.cdf(np.zeros(200)), rtol=1e-12)


@pytest.mark.slow
def test_wiggles_are_found_on_both_sides_of_a_gap():
    """Kinks that all start at the mean of the feature would have to travel to reach them."""
    rng = np.random.default_rng(0)
    x = rng.uniform(1, 3, size=120) * rng.choice([-1, 1], size=120)
    y = np.sin(2 * x) + 0.1 * rng.normal(size=120)
    assert NPNRegressor(random_state=0, effort="quick").fit(x[:, None], y).score(x[:, None], y) > 0.9
