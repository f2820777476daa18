"""What predictions depend on: derivatives against differences, sums against changes, known functions against both."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from torchnpn import NPNClassifier, NPNRegressor, inspection
from torchnpn.estimators import ArrayVarianceParts

RNG = np.random.default_rng(0)
ROWS = 120
X = RNG.uniform(-2, 2, size=(ROWS, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 0.0]
RATE = np.exp(0.5 * X[:, 0] + 0.05 * X[:, 1])
Y = np.sin(X[:, 0]) + np.exp(0.1 * X[:, 1]) * 0.3 * RNG.normal(size=ROWS)
SHORT = {"max_epochs": 15, "random_state": 0}
MODELS = {
    "gaussian": lambda: NPNRegressor(**SHORT).fit(X, Y),
    "constant noise": lambda: NPNRegressor(noise="constant", **SHORT).fit(X, Y),
    "stacked": lambda: NPNRegressor(effort="best", **SHORT).fit(X, Y),
    "calibrated": lambda: NPNRegressor(calibrate="cross", **SHORT).fit(X, Y),
    "two targets": lambda: NPNRegressor(**SHORT).fit(X, np.stack([Y, 3 * RATE], 1)),
    "gamma": lambda: NPNRegressor("gamma", **SHORT).fit(X, RATE * RNG.gamma(3, size=ROWS)),
    "counts": lambda: NPNRegressor("negative_binomial", **SHORT).fit(X, RNG.poisson(RATE)),
    "classes": lambda: NPNClassifier(**SHORT).fit(X, np.digitize(Y, [-0.3, 0.3])),
    "ensemble of classes": lambda: NPNClassifier(n_estimators=2, **SHORT).fit(X, np.digitize(Y, [-0.3, 0.3])),
}
each_model = pytest.mark.parametrize("name", MODELS)


def predicted(model, rows):  # mean, epistemic and aleatoric variance
    distribution, parts = model.predict_dist(rows), model.predict_variance(rows)
    probs = isinstance(model, NPNClassifier)
    return distribution.probs if probs else distribution.mean, parts.epistemic, parts.aleatoric


@each_model
def test_derivatives_are_those_of_differences(name):
    model, rows = MODELS[name](), X[:6]
    found = inspection.sensitivities(model, rows)
    for j in range(3):
        step = np.zeros(3)
        step[j] = 2e-3 * X[:, j].std()
        up, down = predicted(model, rows + step), predicted(model, rows - step)
        for ours, a, b, at in zip(found, up, down, predicted(model, rows), strict=True):
            scale = np.abs(at).max() / X[:, j].std()  # a difference of float32 inputs has few digits
            np.testing.assert_allclose(ours[..., j], (a - b) / (2 * step[j]), rtol=2e-2, atol=1e-3 * scale)


@each_model
def test_attributions_add_up_to_the_change(name):
    model = MODELS[name]()
    found = inspection.attributions(model, X[:20], reference=X[30])
    (mean, *parts), (mean_0, *parts_0) = predicted(model, X[:20]), predicted(model, X[30:31])
    np.testing.assert_allclose(found.mean.sum(-1), mean - mean_0, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.variance.sum(-1), sum(parts) - sum(parts_0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.mean.sum(-1), found.mean_change)
    np.testing.assert_allclose(found.variance.sum(-1), found.variance_change)


def test_a_linear_model_has_its_coefficients():
    y = 2 * X[:, 0] - 0.3 * X[:, 1] + 0.01 * RNG.normal(size=ROWS)
    model = NPNRegressor(hidden=(), noise="constant", random_state=0, max_epochs=200).fit(X, y)
    np.testing.assert_allclose(inspection.sensitivities(model, X).mean, np.tile([2, -0.3, 0], (ROWS, 1)), atol=0.03)
    found = inspection.attributions(model, X)
    np.testing.assert_allclose(found.mean, (X - X.mean(0)) * [2, -0.3, 0], atol=0.1)


def test_a_feature_that_is_missing_has_no_share():
    rows = X[:4].copy()
    rows[1, 0] = np.nan
    model = MODELS["gaussian"]()
    found = inspection.sensitivities(model, rows)
    assert np.isnan(found.mean[1]).tolist() == [True, False, False]
    assert not np.isnan(found.mean[[0, 2, 3]]).any()
    shares = inspection.attributions(model, rows)
    assert shares.mean[1, 0] == 0
    np.testing.assert_allclose(shares.mean.sum(1), shares.mean_change)


class Known:
    """N(x₁², (0.1 + |x₂|)²), the half of whose variance is epistemic."""

    def predict_dist(self, X):
        mean, std = X[:, 0] ** 2, 0.1 + np.abs(X[:, 1])
        return SimpleNamespace(mean=mean, std=std, log_prob=lambda y: -0.5 * ((y - mean) / std) ** 2 - np.log(std))

    def predict_variance(self, X):
        total = (0.1 + np.abs(X[:, 1])) ** 2
        return ArrayVarianceParts(total, total / 2, total / 2)


def test_partial_dependence_is_the_mean_over_rows():
    Z = RNG.normal(size=(200, 3))
    found = inspection.partial_dependence(Known(), Z, 0, grid=[-1.0, 0.0, 2.0])
    np.testing.assert_allclose(found.mean, [1, 0, 4])
    np.testing.assert_allclose(found.low, found.high)
    root = np.sqrt(((0.1 + np.abs(Z[:, 1])) ** 2).mean())
    np.testing.assert_allclose(found.std, root)
    np.testing.assert_allclose(found.epistemic, root / np.sqrt(2))
    along = inspection.partial_dependence(Known(), Z, 1, points=7)
    assert along.grid.shape == (7,)
    np.testing.assert_allclose(along.grid[[0, -1]], np.quantile(Z[:, 1], [0.01, 0.99]))
    np.testing.assert_allclose(along.std, 0.1 + np.abs(along.grid))
    np.testing.assert_allclose(along.high, np.quantile(Z[:, 0] ** 2, 0.9))
    assert along.name == "x1"


def test_columns_that_belong_together_change_together():
    Z = RNG.normal(size=(50, 3))
    found = inspection.partial_dependence(Known(), Z, slice(0, 2), grid=[[2.0, 0.4], [-1.0, 0.0]])
    np.testing.assert_allclose(found.mean, [4, 1])
    np.testing.assert_allclose(found.std, [0.5, 0.1])
    assert found.name == "x0"
    with pytest.raises(ValueError, match=r"grid of finite values of shape \(points, 2\)"):
        inspection.partial_dependence(Known(), Z, slice(0, 2), grid=[1.0, 2.0])


@pytest.mark.parametrize("name", ["two targets", "classes"])
def test_partial_dependence_of_several_outputs(name):
    model = MODELS[name]()
    found = inspection.partial_dependence(model, X, 0, points=4)
    outputs = 2 if name == "two targets" else 3
    assert found.mean.shape == found.std.shape == (4, outputs)
    if name == "classes":
        np.testing.assert_allclose(found.mean.sum(1), 1)


def test_importance_tells_the_mean_from_the_uncertainty():
    """Of y = x₁² + (0.1 + |x₂|) ε: shuffling changes the mean by x₁, the deviation by x₂, and nothing by x₃."""
    Z = RNG.normal(size=(600, 3))
    y = Z[:, 0] ** 2 + (0.1 + np.abs(Z[:, 1])) * RNG.normal(size=600)
    found = inspection.permutation_importance(Known(), Z, y, shuffles=20)
    by_name = {name: i for i, name in enumerate(found.names)}
    assert found.names[2] == "x2"
    mean, uncertainty = (values[[by_name[f"x{j}"] for j in range(3)]] for values in (found.mean, found.uncertainty))
    np.testing.assert_allclose(mean, [np.sqrt(2 * (Z[:, 0] ** 2).var()), 0, 0], rtol=0.05)
    np.testing.assert_allclose(uncertainty, [0, np.sqrt(2 * np.abs(Z[:, 1]).var()), 0], rtol=0.05)
    assert found.increase[2] == found.error[2] == 0
    assert (found.increase[:2] > 3 * found.error[:2]).all()


def test_groups_are_shuffled_together():
    """A stand-in that reads a category alone: its log likelihood is -(y - code)²/2."""
    code = RNG.integers(4, size=600)
    Z = np.column_stack([RNG.normal(size=600), np.eye(4)[code]])
    y = code + RNG.normal(size=600)

    def predict_dist(Z):
        mean = Z[:, 1:] @ np.arange(4)
        return SimpleNamespace(mean=mean, std=np.ones(len(Z)), log_prob=lambda y: -((y - mean) ** 2) / 2)

    groups = {"x": slice(0, 1), "z": slice(1, 5)}
    stand_in = SimpleNamespace(predict_dist=predict_dist)
    found = inspection.permutation_importance(stand_in, Z, y, groups=groups, rows=500, shuffles=20)
    assert found.names == ("z", "x")
    np.testing.assert_allclose(found.increase, [code.var(), 0.0], atol=0.2)  # E (code - code')²/2 = var
    assert found.error[1] == 0
    assert 0 < found.error[0] < 0.1


def test_frames_and_classes():
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(ROWS) + 7)
    labels = np.where(Y > 0, "yes", "no")
    model = NPNClassifier(**SHORT).fit(frame, labels)
    found = inspection.permutation_importance(model, frame, labels)
    assert set(found.names) == {"a", "b", "c"}
    array = NPNClassifier(**SHORT).fit(X, labels)
    plain = inspection.permutation_importance(array, X, labels)
    np.testing.assert_allclose(plain.increase, found.increase)
    assert inspection.partial_dependence(model, frame, "b").name == "b"
    np.testing.assert_allclose(inspection.sensitivities(model, frame).mean, inspection.sensitivities(array, X).mean)


MODEL = MODELS["gaussian"]()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: inspection.permutation_importance(MODEL, X, Y[:5]), "got 5 targets"),
        (lambda: inspection.permutation_importance(MODEL, X, Y, shuffles=1), "two shuffles or more"),
        (lambda: inspection.permutation_importance(MODEL, scipy.sparse.csr_matrix(X), Y), r"X\.toarray\(\)"),
        (lambda: inspection.permutation_importance(MODEL, X[0], Y), "rows and columns"),
        (lambda: inspection.partial_dependence(MODEL, X, 3), "a number from 0 to 2, got 3"),
        (lambda: inspection.partial_dependence(MODEL, X, "x9"), "name of a column, got 'x9'"),
        (lambda: inspection.partial_dependence(MODEL, X, 0, grid=[]), "grid expects finite values"),
        (lambda: inspection.partial_dependence(MODEL, X, 0, points=1), "points >= 2"),
        (lambda: inspection.partial_dependence(MODEL, np.full((5, 3), np.nan), 0), "all are missing"),
        (lambda: inspection.sensitivities(NPNRegressor(), X), "not fitted"),
        (lambda: inspection.attributions(MODEL, X, reference=[1.0]), "1 features"),
        (
            lambda: inspection.sensitivities(NPNClassifier(ordered=True, **SHORT).fit(X, Y > 0), X),
            "classes without an order, got ordered=True",
        ),
    ],
)
def test_wrong_arguments(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_text_columns_have_no_grid():
    frame = pd.DataFrame({"a": ["u", "v"], "b": [1.0, 2.0]})
    with pytest.raises(ValueError, match="feature expects a column of numbers, got column 0"):
        inspection.partial_dependence(Known(), frame, "a")
