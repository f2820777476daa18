"""What estimators refuse, in words: values that floating point cannot hold, too few rows, networks beyond memory."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from torchnpn import (
    BayesianLogisticRegression,
    DocumentAutoencoder,
    LinkPredictor,
    NPNAutoencoder,
    NPNClassifier,
    NPNRegressor,
)
from torchnpn.estimators.forward import in_float64
from torchnpn.nn import check_network_size
from torchnpn.rows.inputs import Inputs
from torchnpn.training import resolve_device

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=40)
COUNTS = RNG.poisson(1.0, size=(40, 6)).astype(float)
QUICK = {"hidden": (4,), "max_epochs": 2, "random_state": 0}
ESTIMATORS = {
    "regressor": (lambda: NPNRegressor(**QUICK, effort="quick"), Y, NPNRegressor.predict),
    "classifier": (lambda: NPNClassifier(**QUICK, effort="quick"), Y > 0, NPNClassifier.predict_proba),
    "autoencoder": (lambda: NPNAutoencoder(**QUICK), None, NPNAutoencoder.transform),
    "logistic": (BayesianLogisticRegression, Y > 0, BayesianLogisticRegression.predict_proba),
}
each_estimator = pytest.mark.parametrize("name", ESTIMATORS)


def changed(array, value, place=(1, 2)):
    """A copy with another value in one place."""
    other = array.copy()
    other[place] = value
    return other


# Features ------------------------------------------------------------------------------------------------------------


@each_estimator
@pytest.mark.parametrize("value", [3e38, -1e300, 1.7e308])
def test_features_too_large_are_refused_in_prediction(name, value):
    make, y, answer = ESTIMATORS[name]
    model, far = make().fit(X, y), changed(X, value)
    if name == "logistic" and value == 3e38:  # which is linear, and computes in float64
        assert np.isfinite(answer(model, far)).all()
        return
    with pytest.raises(ValueError, match=r"X expects .* got .*column 2"):
        answer(model, far)


@each_estimator
@pytest.mark.parametrize("value", [1e291, -1.7e308])
def test_features_too_large_are_refused_in_training(name, value):
    make, y, _ = ESTIMATORS[name]
    with pytest.raises(ValueError, match="X expects"):
        make().fit(changed(X, value), y)


@each_estimator
def test_far_rows_have_finite_answers(name):
    make, y, answer = ESTIMATORS[name]
    model = make().fit(X, y)
    for factor in (1e6, 1e10, 1e14):
        assert np.isfinite(answer(model, factor * X)).all()


@pytest.mark.parametrize("value", [1e16, -1e300])
def test_sparse_features_too_large_are_refused(value):
    rows = scipy.sparse.random(40, 5, density=0.5, random_state=0, format="csr")
    model = NPNRegressor(**QUICK, effort="quick").fit(rows, Y)
    entry = 7
    broken = rows.copy()
    broken.data[entry] = value
    row, column = np.searchsorted(rows.indptr, entry, "right") - 1, rows.indices[entry]
    with pytest.raises(ValueError, match=f"row {row}, column {column} "):
        model.predict(broken)
    tiny = NPNRegressor(**QUICK, effort="quick").fit(rows * 1e-310, Y)  # 1/scale is no number
    np.testing.assert_allclose(tiny.predict(rows * 1e-310), model.predict(rows), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("center", [0.0, 5.0, 1e20, 1e280])
def test_constant_columns_are_no_trouble(center):
    constant = np.column_stack([X, np.full(40, center)])
    model = NPNRegressor(**QUICK, effort="quick").fit(constant, Y)
    assert np.isfinite(model.predict(constant)).all()
    assert abs(Inputs.learn(constant, None).moments(constant).mean[:, 3]).max() <= 1


def test_measurement_variances_are_scaled_before_they_are_squared():
    model = NPNRegressor(**QUICK, effort="quick").fit(1e-200 * X, Y)
    twin = NPNRegressor(**QUICK, effort="quick").fit(X, Y)
    told, expected = model.predict(1e-200 * X, X_variance=0.0), twin.predict(X, X_variance=0.0)
    np.testing.assert_allclose(told, expected, rtol=1e-3, atol=1e-3)
    with pytest.raises(ValueError, match=r"X_variance expects variances up to 1e\+30 times"):
        model.predict(1e-200 * X, X_variance=[0.0, 1.0, 0.0])


@pytest.mark.parametrize("family", ["gaussian", "gamma", "poisson", "beta"])
@pytest.mark.filterwarnings("error")
def test_arrays_that_torch_does_not_take(family):
    """Read-only, as pandas 3 hands them out, and reversed; in X, in y and in weights."""
    y = {"gaussian": Y, "gamma": np.exp(Y), "poisson": np.arange(40.0), "beta": 1 / (1 + np.exp(Y))}[family]
    expected = NPNRegressor(family, **QUICK, effort="quick").fit(X, y, np.ones(40)).predict(X)
    fixed = [array.copy() for array in (X, y, np.ones(40))]
    for array in fixed:
        array.flags.writeable = False
    reversed_arrays = [array[::-1].copy()[::-1] for array in (X, y, np.ones(40))]
    for data in (fixed, reversed_arrays):
        np.testing.assert_array_equal(
            NPNRegressor(family, **QUICK, effort="quick").fit(*data).predict(data[0]), expected
        )


@each_estimator
def test_frames_tensors_and_masks(name):
    make, y, answer = ESTIMATORS[name]
    expected = answer(make().fit(X, y), X)
    for same in (torch.tensor(X, requires_grad=True), np.ma.masked_array(X), X.astype(object), np.asfortranarray(X)):
        np.testing.assert_allclose(answer(make().fit(same, y), same), expected, rtol=1e-9)
    frame = pd.DataFrame(X, columns=list("abc")).convert_dtypes()
    np.testing.assert_allclose(answer(make().fit(frame, y), frame), expected, rtol=1e-9)


def test_masked_values_are_missing_values():
    mask = RNG.random(X.shape) < 0.2
    masked = NPNRegressor(**QUICK, effort="quick").fit(np.ma.masked_array(X, mask), Y)
    missing = NPNRegressor(**QUICK, effort="quick").fit(np.where(mask, np.nan, X), Y)
    np.testing.assert_array_equal(masked.predict(X), missing.predict(X))
    with pytest.raises(ValueError, match="y expects a target in every row"):
        NPNRegressor(**QUICK, effort="quick").fit(X, np.ma.masked_array(Y, mask[:, 0]))


def test_whole_numbers_beyond_floating_point_are_refused():
    with pytest.raises(ValueError, match="numbers that float64 can hold"):
        NPNRegressor(**QUICK, effort="quick").fit([[10**400]] * 12, np.arange(12))


# Targets and weights -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "y", "message"),
    [
        ("gaussian", changed(Y, 1e300, 3), r"up to 1e\+130 in size, got 1e\+300 in column 0"),
        ("gaussian", 1e-320 * (Y > 0), "a spread of .* Multiply y"),
        ("gamma", changed(np.exp(Y), 1e300, 3), r"up to 1e\+130 in size"),
        ("gamma", changed(np.exp(Y), 1e-320, 3), "row 3, column 0"),
        ("gamma", 1e-300 * np.exp(Y), "Multiply y"),
        ("poisson", changed(COUNTS[:, 0], 1e15, 3), r'1e\+12 in size, got 1e\+15 .* family="gamma"'),
        ("beta", changed(1 / (1 + np.exp(Y)), 1e-320, 3), "row 3, column 0"),
    ],
)
def test_targets_whose_moments_are_no_numbers_are_refused(family, y, message):
    with pytest.raises(ValueError, match=message):
        NPNRegressor(family, **QUICK, effort="quick").fit(X, y)


def test_targets_at_the_end_of_the_range_are_learnt():
    for factor in (1e125, 1e-125):
        model = NPNRegressor(**QUICK, effort="quick").fit(X, factor * Y)
        assert all(np.isfinite(part).all() for part in (*model.predict(X, return_std=True), *model.predict_variance(X)))
        assert np.isfinite(model.predict(1e14 * X, return_std=True)).all()
    shares = changed(1 / (1 + np.exp(Y)), 1 - 1e-15, 3)
    assert np.isfinite(NPNRegressor("beta", **QUICK, effort="quick").fit(X, shares).predict(X)).all()


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.full(40, 1e300), "Divide the weights by their mean"),
        (np.full(40, 1e-300), "Divide the weights by their mean"),
        (np.eye(40)[0], "at least two rows"),
        (np.ma.masked_array(np.ones(40), X[:, 0] > 0), "a weight for every row"),
    ],
)
@each_estimator
def test_weights_that_make_no_sense_are_refused(name, weight, message):
    make, y, _ = ESTIMATORS[name]
    with pytest.raises(ValueError, match=rf"{message}|one class"):
        make().fit(X, y, sample_weight=weight)


def test_rows_without_weight_say_nothing():
    """Not even about the scale of a feature."""
    weight = np.repeat([1.0, 0.0], 20)
    far = np.where(weight[:, None] > 0, X, 1e9 * X)
    model = NPNRegressor(**QUICK, effort="quick").fit(far, Y, weight)
    np.testing.assert_allclose(model.inputs_.scale, X[:20].std(0), rtol=1e-6)


# Rows ----------------------------------------------------------------------------------------------------------------


@each_estimator
def test_few_rows(name):
    make, y, _ = ESTIMATORS[name]
    y = None if y is None else np.arange(40) % 2
    with pytest.raises(ValueError, match="1 sample"):
        make().fit(X[:1], None if y is None else y[:1])
    with pytest.warns(UserWarning, match="learns from 5 rows only") as told:
        make().fit(X[:5], None if y is None else y[:5])
    assert len(told) == 1 and told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make().fit(X[:10], None if y is None else y[:10])


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame(X, columns=["a", "b", "a"]), r"columns of different names, got \['a'\] more than once"),
        (pd.DataFrame(X).astype(pd.SparseDtype(float)).rename(columns=str), r"X\.sparse\.to_dense"),
    ],
)
@each_estimator
def test_frames_that_are_no_table_of_numbers(name, frame, message):
    make, y, _ = ESTIMATORS[name]
    with pytest.raises(ValueError, match=message):
        make().fit(frame, y)


def test_codes_too_far_out_are_refused():
    model = NPNAutoencoder(**QUICK).fit(np.column_stack([X, np.full(40, 1e280)]))
    with pytest.raises(ValueError, match="inverse_transform expects codes whose rows"):
        model.inverse_transform(np.full((2, 4), 1e280))


def test_counts_that_are_zero_in_float32_are_no_trouble():
    assert np.isfinite(DocumentAutoencoder(**QUICK).fit(1e-320 * COUNTS).transform(COUNTS)).all()


# Settings ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden": (10**12,)}, "hidden expects"),
        ({"hidden": (10**8,)}, "needs about .* GB of memory"),
        ({"hidden": (5,) * 200}, "at most 100 layers"),
        ({"hidden": (20_000, 20_000)}, "Take fewer hidden units"),
        ({"max_epochs": 10**9}, "max_epochs expects a whole number from 1 to 100,000"),
        ({"random_state": 2**32}, "random_state expects a whole number from 0 to 4294967295"),
        ({"random_state": -1}, "random_state expects"),
        ({"random_state": "seed"}, "random_state expects"),
        ({"device": "meta"}, "device"),
        ({"device": "nowhere"}, "device expects"),
        ({"learning_rate": 1e30}, "learning_rate expects"),
        ({"kl_weight": 1e300}, "kl_weight expects"),
    ],
)
@pytest.mark.parametrize("make", [NPNRegressor, NPNClassifier, NPNAutoencoder])
def test_settings_beyond_reason_are_refused(make, settings, message):
    with pytest.raises(ValueError, match=message):
        make(**{**QUICK, **settings}).fit(X, np.arange(40) % 2)


def test_absurd_ensembles_are_refused():
    with pytest.raises(ValueError, match="from 1 to 1,000, or None to choose it, got 1000000000"):
        NPNRegressor(n_estimators=10**9).fit(X, Y)
    with pytest.raises(ValueError, match="layers 10-2000-10, 6000 times, has"):
        check_network_size([10, 2000, 10], 32, 6000)


def test_large_autoencoders_of_words_are_refused():
    with pytest.raises(ValueError, match="GB of memory"):
        DocumentAutoencoder("gamma", **{**QUICK, "hidden": (10**8,)}).fit(COUNTS)
    with pytest.raises(ValueError, match="up to 1e"):
        DocumentAutoencoder("gamma", **QUICK).fit(changed(COUNTS, 1e300, (0, 0)))


@pytest.mark.parametrize("state", [None, 3, np.int64(3), np.random.RandomState(3), np.random.default_rng(3)])
def test_random_states_of_all_kinds(state):
    model = NPNRegressor(**{**QUICK, "random_state": state}, effort="quick").fit(X, Y)
    links = LinkPredictor(negatives=20, random_state=state).fit(X, [(0, 1), (1, 2), (2, 3)])
    assert np.isfinite(model.predict(X)).all() and links.pairs_ == (3, 20)


def test_devices():
    assert resolve_device("cpu") == torch.device("cpu")
    for device in ("meta", "nothing", "cuda:9999", None, 10**30, 1.5):
        with pytest.raises(ValueError, match="device"):
            resolve_device(device)


# Prediction in float64 -----------------------------------------------------------------------------------------------


def test_float64_copies_are_made_once_and_follow_their_network():
    model = NPNRegressor(**QUICK, effort="quick").fit(X, Y)
    first = in_float64(model.network_)
    assert in_float64(model.network_) is first and first is not model.network_
    before = model.predict(X)
    with torch.no_grad():
        model.network_[0].weight.free[0].mul_(2)
    assert in_float64(model.network_) is not first and not np.array_equal(model.predict(X), before)
    assert next(model.network_.parameters()).dtype == torch.float32


NOT_A_SETTING = {
    "not known": pd.NA,
    "array": np.array([1.0, 2.0]),
    "array of one": np.array([1.0]),
    "tensor": torch.ones(2),
    "frame": pd.DataFrame({"a": [1]}),
    "list": [[1]],
    "complex": 1j,
    "bytes": b"x",
    "text": "x",
    "NaN": np.nan,
}


@pytest.mark.parametrize("value", NOT_A_SETTING.values(), ids=NOT_A_SETTING)
@pytest.mark.parametrize(
    ("model", "data"),
    [
        (NPNRegressor(**QUICK, effort="quick"), (X, Y)),
        (NPNClassifier(**QUICK, effort="quick"), (X, Y > 0)),
        (NPNAutoencoder(**QUICK), (X,)),
        (DocumentAutoencoder("gamma", **QUICK), (COUNTS,)),
        (BayesianLogisticRegression(), (X, Y > 0)),
        (LinkPredictor(negatives=20), (X, [(0, 1), (1, 2)])),
    ],
    ids=lambda one: type(one).__name__,
)
def test_each_setting_is_checked_in_words(model, data, value):
    for name in model.get_params():
        odd = type(model)(**{**model.get_params(), name: value})
        repr(odd)
        with pytest.raises(ValueError, match=rf"{name}.* (expects|is for counts)|{name} is for"):
            odd.fit(*data)


def test_numbers_of_all_kinds_are_settings():
    for kind in (np.int64, np.int32, int):
        for model, rows in ((DocumentAutoencoder("gamma"), COUNTS), (NPNAutoencoder(), X)):
            model.set_params(hidden=(kind(3),), max_epochs=kind(1), batch_size=kind(7), random_state=kind(0)).fit(rows)
    for kind in (np.float32, np.float64, Fraction):
        words = DocumentAutoencoder("gamma", **QUICK, masking=kind(0.5), input_noise=kind(0.25), weight_decay=kind(0.5))
        assert np.isfinite(words.fit(COUNTS).transform(COUNTS)).all()
        assert np.isfinite(NPNRegressor(**QUICK, dropout=kind(0.5)).fit(X, Y).predict(X)).all()


def test_what_stands_beside_the_rows_is_checked_in_words():
    model, classes = (
        NPNRegressor(**QUICK, effort="quick").fit(X, Y),
        NPNClassifier(**QUICK, effort="quick").fit(X, Y > 0),
    )
    for make in (NPNRegressor, NPNClassifier, NPNAutoencoder):
        for callbacks in (3, [3], len):
            with pytest.raises(ValueError, match="callbacks expects a list of functions"):
                make(**QUICK).fit(X, Y > 0, callbacks=callbacks)
    for weight in ([pd.NA] * 40, ["a"] * 40, [10**400] * 40):
        for one, y in ((model, Y), (classes, Y > 0)):
            with pytest.raises(ValueError, match="sample_weight expects"):
                one.score(X, y, sample_weight=weight)
    for seed in ("a", -1, 1.5, pd.NA, np.array([1.5])):
        with pytest.raises(ValueError, match="random_state expects"):
            model.predict_dist(X).sample(2, random_state=seed)
