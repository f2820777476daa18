"""Files that `npn.export` writes, run by onnxruntime, against the library's own predictions in float64."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from support.target_cases import TARGETS
from typer.testing import CliRunner

import torchnpn as npn
from torchnpn.cli.app import app
from torchnpn.columns import Date, Times
from torchnpn.exporting.rows import Encode
from torchnpn.tables import TableModel

LEVELS = (0.05, 0.5, 0.95)
ONE = {"n_estimators": 1, "max_epochs": 10, "random_state": 0}


def opened(path):
    """A file's session, and what it says of itself."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session, json.loads(session.get_modelmeta().custom_metadata_map["torchnpn"])


def run(path, X):
    """What a file gives for rows, by name."""
    session, about = opened(path)
    names = [output.name for output in session.get_outputs()]
    assert names == list(about["outputs"])
    return dict(zip(names, session.run(None, {about["input"]: X}), strict=True))


@pytest.fixture(scope="module")
def table():
    """Rows to learn from; and others, with gaps, far out, and one of gaps alone."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    new = 1.3 * rng.normal(size=(60, 3))
    new[::4, 1], new[::7, 0], new[3] = np.nan, np.nan, np.nan
    new[5, 2], new[6, 2] = 8.0, 1e6
    rate = np.exp(0.6 * X[:, 0] + 0.3 * np.sin(2 * X[:, 1]))
    return SimpleNamespace(rng=rng, X=X, rate=rate, y=rate + 0.2 * rng.normal(size=200), new=new)


def check_regression(model, path, X, cells=None, **how):
    npn.export(model, path, levels=LEVELS)
    found = run(path, X if cells is None else cells)
    expected, parts = model.predict_dist(X, **how), model.predict_variance(X, **how)
    std = expected.std
    np.testing.assert_allclose(found["mean"] / std, expected.mean / std, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found["variance"], expected.variance, rtol=1e-5)
    for part in ("epistemic", "aleatoric"):
        np.testing.assert_allclose(found[part] / parts.total, getattr(parts, part) / parts.total, rtol=0, atol=1e-5)
    for end, values in expected.interval(0.9)._asdict().items():
        np.testing.assert_allclose(found[end] / std, values / std, rtol=0, atol=1e-3)
    quantiles = expected.quantile(LEVELS) / std[..., None]
    np.testing.assert_allclose(found["quantiles"] / std[..., None], quantiles, rtol=0, atol=1e-3)
    complete = X[[1]] if cells is None else cells[[1]]  # takes the other branch of the graph, in a batch of its own
    np.testing.assert_allclose(run(path, complete)["mean"], expected.mean[1:2], rtol=1e-4)


def targets(table, family):
    return TARGETS[family].draw(np.random.default_rng(1), table.rate)


FAST = ("gaussian", "lognormal", "weibull")
MIXED = ("gamma", "student_t", "hurdle_lognormal")  # of each kind of quantile one with two members


@pytest.mark.parametrize("family", [f if f in FAST else pytest.param(f, marks=pytest.mark.slow) for f in TARGETS])
def test_every_family(table, family, tmp_path):
    members = 2 if family in MIXED else 1
    model = npn.NPNRegressor(family, **{**ONE, "n_estimators": members}).fit(table.X, targets(table, family))
    check_regression(model, tmp_path / "model.onnx", table.new)


SETTINGS = {
    "ensemble of 5": {"n_estimators": 5},
    "conditional": {"missing": "conditional"},
    "constant noise": {"noise": "constant"},
    "tanh": {"activation": "tanh", "hidden": (8, 8)},
    "split": {"calibrate": "split"},
    "cross": {"calibrate": "cross"},
    "default": {"n_estimators": None},
    "default, conditional, cross": {"n_estimators": None, "missing": "conditional", "calibrate": "cross"},
}


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_every_kind_of_regressor(table, settings, tmp_path):
    X = np.where(table.rng.random(table.X.shape) < 0.05, np.nan, table.X)
    model = npn.NPNRegressor(**{**ONE, **settings}).fit(X, table.y)
    check_regression(model, tmp_path / "model.onnx", table.new)


def test_two_targets(table, tmp_path):
    model = npn.NPNRegressor(**ONE).fit(table.X, np.column_stack([table.y, -20 * table.y]))
    check_regression(model, tmp_path / "model.onnx", table.new)
    assert opened(tmp_path / "model.onnx")[1]["target"]["targets"] == 2


@pytest.mark.slow
def test_an_exposure_is_the_last_column(table, tmp_path):
    exposure = table.rng.uniform(0.5, 2, len(table.X))
    y = table.rng.poisson(table.rate * exposure).astype(float)
    model = npn.NPNRegressor("poisson", **ONE).fit(table.X, y, exposure=exposure)
    cells = np.column_stack([table.new, exposure[: len(table.new)]])
    check_regression(model, tmp_path / "model.onnx", table.new, cells, exposure=exposure[: len(table.new)])
    assert opened(tmp_path / "model.onnx")[1]["columns"][-1] == {"name": "exposure", "kind": "exposure"}


# Classes --------------------------------------------------------------------------------------------------------------

CLASSIFIERS = {
    "3 classes": (3, {}),
    "100 classes": (100, {}),
    "ordered": (4, {"ordered": True}),
    "ensemble of 5": (3, {"n_estimators": 5}),
    "cross": (3, {"calibrate": "cross"}),
    "default": (3, {"n_estimators": None}),
}


@pytest.mark.parametrize(("classes", "settings"), CLASSIFIERS.values(), ids=CLASSIFIERS.keys())
def test_every_kind_of_classifier(table, classes, settings, tmp_path):
    y = table.rate.argsort().argsort() * classes // len(table.X)
    model = npn.NPNClassifier(**{**ONE, **settings}).fit(table.X, y)
    npn.export(model, tmp_path / "model.onnx")
    found, expected = run(tmp_path / "model.onnx", table.new), model.predict_dist(table.new)
    np.testing.assert_allclose(found["probabilities"], expected.probs, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found["uncertainty"], expected.entropy / np.log(classes), rtol=0, atol=1e-5)
    assert opened(tmp_path / "model.onnx")[1]["classes"] == model.classes_.tolist()


@pytest.mark.slow
def test_parts_of_the_variance_of_classes(table, tmp_path):
    model = npn.NPNClassifier(**{**ONE, "n_estimators": 2}).fit(table.X, (table.y > 1).astype(int) + (table.y > 2))
    npn.export(model, tmp_path / "model.onnx", variance_parts=True)
    found, expected = run(tmp_path / "model.onnx", table.new), model.predict_variance(table.new)
    np.testing.assert_allclose(found["variance"], expected.total, rtol=1e-5)
    np.testing.assert_allclose(found["epistemic"], expected.epistemic, rtol=1e-5)
    np.testing.assert_allclose(found["aleatoric"], expected.aleatoric, rtol=1e-5)


# Tables ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    rows = 300
    hours = pd.to_timedelta(rng.integers(0, 1500 * 24, rows), "h")
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 10, rows),
            "colour": rng.choice(["red", "blue", "green"], rows),
            "sex": rng.choice(["m", "f"], rows),
            "day": pd.Timestamp("1999-06-01") + hours,
        }
    )
    season = np.sin(2 * np.pi * frame.day.dt.dayofyear / 365)
    frame["price"] = (frame.colour == "red") + frame.age / 20 + season + rng.normal(0, 0.2, rows)
    for name in ("age", "colour", "day"):
        frame.loc[rng.random(rows) < 0.1, name] = None
    return frame


def cells_of(frame, columns):
    """The numbers that the metadata ask for."""
    numbers = {
        "number": lambda values, _: values,
        "date": lambda values, _: (values - pd.Timestamp(0)).dt.total_seconds(),
        "category": lambda values, column: values.map({level: i for i, level in enumerate(column["levels"])}),
    }
    return np.column_stack([numbers[one["kind"]](frame[one["name"]], one).astype(float) for one in columns])


def test_a_table_with_categories_dates_and_gaps(frame, tmp_path):
    model = TableModel.fit(frame, "price", "gaussian", **{**ONE, "random_state": 1})
    npn.save(model, tmp_path / "model.npn")
    result = CliRunner().invoke(app, ["export", str(tmp_path / "model.npn")])
    assert result.exit_code == 0, result.output
    _, about = opened(tmp_path / "model.onnx")
    assert [column["kind"] for column in about["columns"]] == ["number", "category", "category", "date"]
    assert (about["kind"], about["target"]["name"]) == ("regression", "price")
    found = run(tmp_path / "model.onnx", cells_of(frame, about["columns"]))
    expected = model.predict(frame)
    std = expected["price_std"]
    np.testing.assert_allclose(found["mean"] / std, expected["price_mean"] / std, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found["variance"], std**2, rtol=1e-5)
    np.testing.assert_allclose(found["low"] / std, expected["price_low"] / std, rtol=0, atol=1e-3)
    np.testing.assert_allclose(found["high"] / std, expected["price_high"] / std, rtol=0, atol=1e-3)


def test_a_table_of_classes(frame, tmp_path):
    kinds = frame.assign(kind=np.where(frame.price > 3, "dear", "cheap")).drop(columns="price")
    model = TableModel.fit(kinds, "kind", "class", **ONE)
    npn.export(model, tmp_path / "model.onnx")
    _, about = opened(tmp_path / "model.onnx")
    found, expected = run(tmp_path / "model.onnx", cells_of(kinds, about["columns"])), model.predict(kinds)
    assert about["classes"] == ["cheap", "dear"]
    np.testing.assert_allclose(found["probabilities"][:, 1], expected["kind_probability_dear"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(found["uncertainty"], expected["kind_uncertainty"], rtol=0, atol=1e-5)


def test_every_day_of_four_centuries_has_its_place_in_the_year(tmp_path):
    """Waves of the graph's own calendar, against numpy's."""
    days = np.arange(np.datetime64("1899-12-30"), np.datetime64("2101-03-02")).astype("datetime64[us]")
    times = days + np.timedelta64(7_654_321, "ms")
    column = Date("when", 100.0, ("year", "week", "day"))
    seconds = (times - np.datetime64(0, "us")) / np.timedelta64(1, "s")
    found = Encode((column,))(torch.from_numpy(seconds)[:, None]).numpy()
    np.testing.assert_allclose(found, column.encode(Times(times)), rtol=0, atol=1e-9)


# Other files, and errors ----------------------------------------------------------------------------------------------


def test_an_archive_of_torch_gives_the_same(table, tmp_path):
    model = npn.NPNRegressor(**{**ONE, "n_estimators": 3}).fit(table.X, table.y)
    npn.export(model, tmp_path / "model.pt2", levels=())
    extra = {"torchnpn": ""}
    program = torch.export.load(tmp_path / "model.pt2", extra_files=extra)
    names = list(json.loads(extra["torchnpn"])["outputs"])
    assert names == ["mean", "variance", "epistemic", "aleatoric", "low", "high"]
    found = dict(zip(names, program.module()(torch.from_numpy(table.new)), strict=True))
    expected = model.predict_dist(table.new)
    np.testing.assert_allclose(found["mean"], expected.mean, rtol=1e-4)
    np.testing.assert_allclose(found["variance"], expected.variance, rtol=1e-5)
    np.testing.assert_allclose(found["low"], expected.interval(0.9).low, rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    ("model", "path", "how", "words"),
    [
        ("model", "model.bin", {}, "ends in .onnx or .pt2"),
        ("model", "model.onnx", {"levels": (0.5, 1.0)}, "levels between 0 and 1"),
        ("model", "model.onnx", {"interval": 90}, "interval between 0 and 1"),
        ("autoencoder", "model.onnx", {}, r"got a NPNAutoencoder. Its network can be exported"),
        ("pipeline", "model.onnx", {}, r"Export the last step of a pipeline"),
        ("unfitted autoencoder", "model.onnx", {}, r"got a NPNAutoencoder\.$"),
        ("ordered", "model.onnx", {"variance_parts": True}, "not exported for ordered classes"),
    ],
)
def test_errors_say_what_to_do(table, model, path, how, words, tmp_path):
    made = {
        "model": lambda: npn.NPNRegressor(**ONE).fit(table.X, table.y),
        "ordered": lambda: npn.NPNClassifier(ordered=True, **ONE).fit(table.X, table.y > 1),
        "autoencoder": lambda: npn.NPNAutoencoder(hidden=(4, 2), max_epochs=1, random_state=0).fit(table.X),
        "unfitted autoencoder": npn.NPNAutoencoder,
        "pipeline": lambda: make_pipeline(StandardScaler(), npn.NPNRegressor(**ONE)),
    }[model]()
    with pytest.raises((ValueError, TypeError), match=words):
        npn.export(made, tmp_path / path, **how)
    assert not list(tmp_path.iterdir())


def test_the_command_says_what_is_wrong(tmp_path):
    result = CliRunner().invoke(app, ["export", str(tmp_path / "none.npn")])
    assert result.exit_code == 2
