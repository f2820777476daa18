"""Files that `npn.export` writes, run by onnxruntime, against predictions of the library."""

from __future__ import annotations

import json

import numpy as np
import onnxruntime
import pytest
from sklearn.datasets import load_diabetes

import torchnpn as npn


def run(path, X):
    """What a file gives for rows, and what it says of itself."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    about = json.loads(session.get_modelmeta().custom_metadata_map["torchnpn"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {about["input"]: X}), strict=True)), about


@pytest.fixture(scope="module")
def rows():
    X, y = load_diabetes(return_X_y=True)
    return X[:200], y[:200]


def test_a_regressor_predicts_the_same(rows, tmp_path):
    X, y = rows
    model = npn.NPNRegressor(random_state=0, effort="quick", max_epochs=20).fit(X, y)
    npn.export(model, tmp_path / "model.onnx", levels=(0.1, 0.5))
    given = X[:50].copy()
    given[::3, 2] = np.nan
    found, about = run(tmp_path / "model.onnx", given)
    assert about["format"] == 1
    assert list(found) == list(about["outputs"])
    expected, parts = model.predict_dist(given), model.predict_variance(given)
    np.testing.assert_allclose(found["mean"] / expected.std, expected.mean / expected.std, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found["variance"], expected.variance, rtol=1e-5)
    np.testing.assert_allclose(found["epistemic"], parts.epistemic, rtol=1e-5)
    np.testing.assert_allclose(found["aleatoric"], parts.aleatoric, rtol=1e-5)
    ends = np.stack([found["low"], found["high"]]) / expected.std
    np.testing.assert_allclose(ends, np.stack(expected.interval(0.9)) / expected.std, rtol=0, atol=1e-3)
    quantiles = expected.quantile([0.1, 0.5]) / expected.std[:, None]
    np.testing.assert_allclose(found["quantiles"] / expected.std[:, None], quantiles, rtol=0, atol=1e-3)
