"""Model files of estimators: the same weights to the bit, the same predictions, labels and names of their own type."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from support import target_cases
from support.states import assert_same_state

from torchnpn import LinkPredictor, NPNAutoencoder, NPNClassifier, NPNRegressor, io


def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    X[3, 1] = np.nan
    return X, np.exp(X[:, 0])


@pytest.mark.parametrize("family", target_cases.TARGETS)
def test_regressors_come_back(family, tmp_path):
    X, y = rows()
    model = NPNRegressor(family, hidden=(4, 3), dropout=0.1, max_epochs=1, random_state=0)
    model.fit(X, target_cases.TARGETS[family].draw(np.random.default_rng(1), y))
    io.save(model, tmp_path / "model.npn")
    loaded = io.load(tmp_path / "model.npn")
    assert type(loaded) is NPNRegressor
    assert loaded.get_params() == model.get_params()
    assert_same_state(model, loaded)
    for one, other in zip(model.predict_variance(X), loaded.predict_variance(X), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    np.testing.assert_allclose(model.predict_quantile(X, 0.9), loaded.predict_quantile(X, 0.9), rtol=1e-9)
    told = io.describe(tmp_path / "model.npn")
    assert told["type"] == "NPNRegressor"
    assert told["families"] == [family]
    assert told["architecture"][0].startswith("NPNRegressor(activation='relu', ")


def test_other_shapes_of_targets_come_back(tmp_path):
    X, y = rows()
    model = NPNRegressor(hidden=(4,), noise="varying", max_epochs=1, random_state=0).fit(X, np.stack([y, -y], 1))
    io.save(model, tmp_path / "model.npn")
    loaded = io.load(tmp_path / "model.npn")
    assert_same_state(model, loaded)
    np.testing.assert_allclose(model.predict(X), loaded.predict(X), rtol=1e-9)


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "yes", "é"],
        [3, -1, 2**40],
        [True, False],
        [0.0, 1.0, 2.0],
        np.array(["a", "b"], object),
        np.uint8([7, 9]),
    ],
    ids=str,
)
def test_classifiers_come_back(labels, tmp_path):
    X, _ = rows()
    y = np.resize(np.asarray(labels), len(X))
    model = NPNClassifier(hidden=(4,), max_epochs=1, random_state=0).fit(X, y)
    io.save(model, tmp_path / "model.npn")
    loaded = io.load(tmp_path / "model.npn")
    np.testing.assert_array_equal(model.classes_, loaded.classes_, strict=True)
    np.testing.assert_array_equal(model.predict(X), loaded.predict(X), strict=True)
    np.testing.assert_allclose(model.predict_proba(X), loaded.predict_proba(X), rtol=1e-9)


def test_autoencoders_come_back(tmp_path):
    X, _ = rows()
    model = NPNAutoencoder(hidden=(4, 2), max_epochs=1, random_state=0).fit(X)
    io.save(model, tmp_path / "model.npn")
    loaded = io.load(tmp_path / "model.npn")
    np.testing.assert_allclose(model.transform(X), loaded.transform(X), rtol=1e-9)
    np.testing.assert_allclose(model.score_samples(X), loaded.score_samples(X), rtol=1e-9)


def test_names_of_features_come_back(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = rows()
    frame = pandas.DataFrame(X, columns=["a", "b b", "ç"])
    model = NPNRegressor(hidden=(4,), max_epochs=1, random_state=0).fit(frame, y)
    io.save(model, tmp_path / "model.npn")
    loaded = io.load(tmp_path / "model.npn")
    np.testing.assert_array_equal(loaded.feature_names_in_, model.feature_names_in_, strict=True)
    np.testing.assert_allclose(loaded.predict(frame), model.predict(frame), rtol=1e-9)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[["ç", "a", "b b"]])
    assert io.describe(tmp_path / "model.npn")["plain"]["feature_names"] == ["a", "b b", "ç"]


def test_unfitted_estimator_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        io.save(NPNRegressor(effort="quick"), tmp_path / "model.npn")
    assert list(tmp_path.iterdir()) == []


def test_own_subclass_of_an_estimator_is_refused(tmp_path):
    with pytest.raises(TypeError, match=r"save expects .*, got .*NPNRegressor"):
        io.save(type("NPNRegressor", (NPNRegressor,), {})(), tmp_path / "model.npn")


@pytest.mark.parametrize("size", [1e-310, 1e-200, 1e200, 1e280])
def test_features_and_constant_targets_of_any_size_come_back(size, tmp_path):
    """What `fit` learns from is no obstacle to `load`."""
    rng = np.random.default_rng(0)
    X = np.column_stack([size * rng.normal(size=(20, 2)), np.full(20, size)])
    for y in (rng.normal(size=20), np.full(20, min(size, 1e129))):
        model = NPNRegressor(hidden=(3,), max_epochs=1, random_state=0).fit(X, y)
        io.save(model, tmp_path / "model.npn")
        np.testing.assert_array_equal(io.load(tmp_path / "model.npn").predict(X), model.predict(X))


def test_links_whose_products_overflow_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    model = LinkPredictor(negatives=20, random_state=0).fit(rng.normal(size=(20, 2)), [(0, 1), (1, 2), (3, 4)])
    model.features_.mean.left[5, 0] = 3e38
    io.save(model, tmp_path / "model.npn")
    with pytest.raises(io.ModelFileError, match="products float32 can hold"):
        io.load(tmp_path / "model.npn")
