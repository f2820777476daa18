"""Estimators read frames with columns of every kind, from any library, and say in words what they cannot read."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import torchnpn as npn
from torchnpn.columns import Category, Date, Number

RNG = np.random.default_rng(0)
ROWS = 300
LEVEL = {"red": -2.0, "green": 0.0, "blue": 2.0}
FRAME = pd.DataFrame(
    {
        "size": RNG.normal(size=ROWS),
        "colour": RNG.choice(list(LEVEL), ROWS),
        "code": RNG.integers(3, size=ROWS),
        "sold": RNG.random(ROWS) < 0.5,
        "when": pd.Timestamp("2022-01-01") + pd.to_timedelta(RNG.integers(800, size=ROWS), unit="D"),
    }
)
NOISE = 0.1 * RNG.normal(size=ROWS)
Y = (
    FRAME["size"] + FRAME["colour"].map(LEVEL) + np.sin(2 * np.pi * FRAME["when"].dt.dayofyear / 365) + NOISE
).to_numpy()
QUICK = {"hidden": (8,), "max_epochs": 3, "random_state": 0}
ESTIMATORS = {
    "regressor": (npn.NPNRegressor(**QUICK), Y, npn.NPNRegressor.predict),
    "mixture": (
        npn.NPNRegressor(max_epochs=1, random_state=0), Y, npn.NPNRegressor.predict
    ),
    "classifier": (npn.NPNClassifier(**QUICK), Y > 0, npn.NPNClassifier.predict_proba),
    "gaps": (npn.NPNRegressor(missing="conditional", **QUICK), Y, npn.NPNRegressor.predict),
    "autoencoder": (npn.NPNAutoencoder(**QUICK), None, npn.NPNAutoencoder.transform),
}  # fmt: skip
each_estimator = pytest.mark.parametrize("name", ESTIMATORS)


def test_categories_and_seasons_are_learnt():
    model = npn.NPNRegressor(random_state=0).fit(FRAME[:200], Y[:200])
    assert [type(column) for column in model.columns_.columns] == [Number, Category, Number, Number, Date]
    assert model.n_features_in_ == 5 and model.feature_names_in_.tolist() == list(FRAME)
    assert model.score(FRAME[200:], Y[200:]) > 0.97
    numbers = npn.NPNRegressor(random_state=0).fit(FRAME[["size", "code", "sold"]][:200], Y[:200])
    assert numbers.columns_ is None and numbers.score(FRAME[["size", "code", "sold"]][200:], Y[200:]) < 0.5


@pytest.mark.parametrize("nothing", [None, "purple"])
def test_a_missing_or_unknown_level_could_be_any(nothing):
    """The prediction is about that of the mixture of levels; hidden units count as independent, which narrows it."""
    model = npn.NPNRegressor(random_state=0).fit(FRAME, Y)
    gap = model.predict_dist(FRAME.assign(colour=nothing))
    each = np.stack([model.predict(FRAME.assign(colour=level)) for level in LEVEL])
    share = FRAME["colour"].value_counts(normalize=True)[list(LEVEL)].to_numpy()
    mean = share @ each
    np.testing.assert_allclose(gap.mean, mean, atol=0.5)
    std = np.sqrt(share @ (each - mean) ** 2)
    assert 0.35 < (gap.std / std).mean() < 1.4
    assert gap.std.mean() > 5 * model.predict_dist(FRAME).std.mean()


@each_estimator
def test_every_library_s_frames_and_files(name, tmp_path):
    estimator, y, answer = ESTIMATORS[name]
    model = clone(estimator).fit(FRAME, y)
    expected = answer(model, FRAME)
    npn.save(model, tmp_path / "model.npn")
    again = npn.load(tmp_path / "model.npn")
    assert again.columns_ == model.columns_ and again.get_params() == model.get_params()
    table = pa.Table.from_pandas(FRAME)
    for frame in (FRAME, table, table.combine_chunks().to_batches()[0]):
        np.testing.assert_array_equal(answer(model, frame), expected)
        np.testing.assert_allclose(answer(again, frame), expected, rtol=1e-6, atol=1e-9)
        np.testing.assert_array_equal(answer(clone(estimator).fit(frame, y), FRAME), expected)
    assert np.isfinite(answer(model, pd.DataFrame({name: [None] for name in FRAME}))).all()


def test_polars_frames():
    polars = pytest.importorskip("polars")
    model = npn.NPNRegressor(**QUICK).fit(FRAME, Y)
    np.testing.assert_array_equal(model.predict(polars.DataFrame(pa.Table.from_pandas(FRAME))), model.predict(FRAME))


@pytest.mark.parametrize("kind", ["nullable", "arrow", "object"])
def test_frames_of_numbers_go_the_way_of_arrays(kind):
    numbers = FRAME[["size", "code", "sold"]]
    convert = {
        "nullable": numbers.convert_dtypes,
        "arrow": lambda: pa.Table.from_pandas(numbers),
        "object": lambda: numbers.astype(object),
    }
    model = npn.NPNRegressor(**QUICK).fit(convert[kind](), Y)
    expected = npn.NPNRegressor(**QUICK).fit(numbers.to_numpy(float), Y).predict(numbers.to_numpy(float))
    np.testing.assert_array_equal(model.predict(numbers), expected)


# Codes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "features", [["code"], [2], [-3], [False, False, True, False, False], np.array(["code"]), ("code",)]
)
def test_codes_are_categories_where_the_user_says_so(features, tmp_path):
    model = npn.NPNRegressor(categorical_features=features, **QUICK).fit(FRAME, Y)
    assert isinstance(model.columns_.columns[2], Category) and sorted(model.columns_.columns[2].values) == [
        "0",
        "1",
        "2",
    ]
    npn.save(model, tmp_path / "model.npn")
    again = npn.load(tmp_path / "model.npn")
    assert list(again.categorical_features) == list(features)
    np.testing.assert_allclose(again.predict(FRAME), model.predict(FRAME), rtol=1e-6)


def test_codes_in_arrays():
    X = FRAME[["size", "code"]].to_numpy()
    model = npn.NPNRegressor(categorical_features=[1], **QUICK).fit(X, Y)
    assert [type(column) for column in model.columns_.columns] == [Number, Category]
    np.testing.assert_array_equal(model.predict(X.tolist()), model.predict(X))
    words = FRAME[["size", "colour"]].to_numpy()
    named = npn.NPNRegressor(categorical_features=[1], **QUICK).fit(words, Y)
    np.testing.assert_array_equal(
        named.predict(words),
        npn.NPNRegressor(**QUICK).fit(FRAME[["size", "colour"]], Y).predict(FRAME[["size", "colour"]]),
    )
    with pytest.raises(ValueError, match="Give a frame"):
        npn.NPNRegressor(**QUICK).fit(words, Y)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (["color"], "names of columns of X, got 'color'. Did you mean 'colour'"),
        ([7], "numbers of the 5 columns of X, got 7"),
        ([True, False], "True or False for 5 columns, got 2"),
        ("colour", 'expects "from_dtype", names'),
        ([1, "a"], 'expects "from_dtype", names'),
        (None, 'expects "from_dtype", names'),
    ],
)
def test_wrong_names_of_categories(features, words):
    with pytest.raises(ValueError, match=f"categorical_features .*{words}"):
        npn.NPNRegressor(categorical_features=features, **QUICK).fit(FRAME, Y)


# Rows that do not fit ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda frame: frame.drop(columns="colour"), "'colour' is missing"),
        (lambda frame: frame.rename(columns={"colour": "Colour", "when": "then"}), "'colour' and 1 more.*'Colour'"),
        (lambda frame: frame[frame.columns[::-1]], "same order"),
        (lambda frame: frame.assign(more=1), "unseen at fit time"),
        (lambda frame: frame.assign(size="large"), "'size' should hold numbers; row 0 holds 'large'"),
        (lambda frame: frame.assign(size=np.inf), "infinity"),
        (lambda frame: frame.assign(when="soon"), "'when' should hold dates; row 0 holds 'soon'"),
        (lambda frame: frame.assign(when=frame["when"].dt.tz_localize("UTC")), "without a time zone"),
        (lambda frame: frame.to_numpy()[:, :3], "X has 3 features"),
    ],
)
def test_other_frames_are_refused(change, words):
    model = npn.NPNRegressor(**QUICK).fit(FRAME, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's, of an array without names
        with pytest.raises(ValueError, match=words):
            model.predict(change(FRAME))


def test_measurement_errors_go_with_numbers():
    model = npn.NPNRegressor(**QUICK)
    with pytest.raises(ValueError, match=r"X_variance expects X of numbers alone, got .*'colour'"):
        model.fit(FRAME, Y, X_variance=0.1)
    assert not hasattr(model, "columns_")


def test_levels_stay_as_first_learnt():
    model = npn.NPNRegressor(**QUICK).partial_fit(FRAME[:150], Y[:150])
    columns = model.columns_
    assert model.partial_fit(FRAME[150:].assign(colour="new"), Y[150:]).columns_ is columns
    model.fit(FRAME[["size"]], Y)
    assert model.columns_ is None and model.n_features_in_ == 1


def test_scikit_learn_takes_frames_apart():
    scores = cross_val_score(npn.NPNRegressor(**QUICK, kl_weight=0.1), FRAME, Y, cv=3)
    assert np.isfinite(scores).all()


def test_a_rare_level_is_not_blown_up():
    """Its input is 1 in two rows of 300, and stands no further out than one of a two-hundredth of the rows."""
    colour = FRAME["colour"].where(FRAME.index > 1, "rare")
    model = npn.NPNRegressor(**QUICK).fit(FRAME.assign(colour=colour), Y)
    place = model.columns_.inputs.index("colour=rare")
    assert model.inputs_.scale[place] == pytest.approx(np.sqrt(2 / 300 * 298 / 300))
    colour = FRAME["colour"].where(FRAME.index > 0, "rare")
    model.fit(FRAME.assign(colour=colour), Y)
    assert model.inputs_.scale[place] == 0.07
    np.testing.assert_allclose(model.inputs_.variance[place], (1 / 300 * 299 / 300) / 0.07**2)
