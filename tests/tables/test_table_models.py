"""Predictions for files: judged by the right formulas, written whole, and made by a model that knows its columns."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from scipy import stats
from sklearn.metrics import log_loss

import torchnpn as npn
from torchnpn import io, table_files, tables
from torchnpn.columns import Category, Number
from torchnpn.tables import target

RNG = np.random.default_rng(0)
SCHEMA = tables.Schema((Number("x", 1.5), Category("z", ("u", "v", "w"), has_other=True)))


def content(table: table_files.Table) -> dict[str, list]:
    return pa.Table.from_batches(table.batches()).to_pydict()


# Judging ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "draws", "twin"),
    [
        ("gaussian", stats.norm(3, 2), lambda m, s: stats.norm(m, math.sqrt(s))),
        ("gamma", stats.gamma(3), lambda m, s: stats.gamma(m * m / s, scale=s / m)),
        ("beta", stats.beta(2, 3), lambda m, s: stats.beta(m * (c := m * (1 - m) / s - 1), (1 - m) * c)),
        ("negative_binomial", stats.nbinom(3, 0.2), lambda m, s: stats.nbinom(m * m / (s - m), m / s)),
    ],
)
def test_the_baseline_is_the_targets_own_distribution(family, draws, twin):
    y = np.asarray(draws.rvs(500, random_state=2), float)
    about = tables.Target("y", family, marginal=target.marginal(tables.Target("y", family), y))
    outcome = tables.marginal_outcome(about, y)
    reference = twin(y.mean(), y.var())
    log_prob = reference.logpmf(y) if family == "negative_binomial" else reference.logpdf(y)
    np.testing.assert_allclose(outcome.log_prob, log_prob, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(outcome.low[0], reference.ppf(0.05), rtol=1e-5)
    np.testing.assert_allclose(outcome.high[0], reference.ppf(0.95), rtol=1e-5)
    grid = np.linspace(*reference.ppf([1e-9, 1 - 1e-9]), 40_001)
    if family == "negative_binomial":
        grid = np.arange(0, 400.0)
    step = grid[1] - grid[0]
    crps = ((reference.cdf(grid) - (y[0] <= grid)) ** 2).sum() * step
    assert outcome.crps[0] == pytest.approx(crps, rel=2e-3)
    assert stats.kstest(outcome.pit, "uniform").pvalue > 1e-3
    figures = {figure.name: figure for figure in tables.figures(outcome, outcome)}
    assert figures["RMSE"].model == pytest.approx(y.std())
    assert figures["NLL (nats)"].model == pytest.approx(-log_prob.mean(), rel=1e-5)


def test_counts_that_vary_little_have_a_baseline_too():
    outcome = tables.marginal_outcome(tables.Target("y", "poisson", marginal=(4.0, 1.0)), np.array([4.0]))
    assert outcome.log_prob[0] == pytest.approx(stats.poisson(4).logpmf(4), rel=1e-3)


@pytest.mark.parametrize("family", ["negative_binomial", "gamma"])
def test_the_baseline_of_exposed_rows_is_one_rate_for_all(family):
    """Of its overdispersion, or relative variance, the numbers that were drawn are the reference."""
    e = RNG.uniform(0.2, 5, 50_000)
    rate = RNG.gamma(2, 1.5, e.size)  # mean 3, relative variance 1/2
    y = RNG.poisson(rate * e).astype(float) if family == "negative_binomial" else rate * e
    about = tables.Target("y", family, exposure="e")
    about = tables.Target("y", family, marginal=target.marginal(about, y, e), exposure="e")
    outcome = tables.marginal_outcome(about, np.array([2.0, 9.0]), exposures=np.array([1.0, 4.0]))
    np.testing.assert_allclose(outcome.mean, [3, 12], rtol=0.02)
    m = 3 * np.array([1.0, 4.0])
    want = (
        stats.nbinom(2, 2 / (2 + m)).logpmf([2, 9])
        if family == "negative_binomial"
        else stats.gamma(2, scale=m / 2).logpdf([2, 9])
    )
    np.testing.assert_allclose(outcome.log_prob, want, rtol=0.02)


def test_figures_of_classes():
    probs, y = RNG.dirichlet(np.ones(3), 200), RNG.integers(3, size=200)
    about = tables.Target("y", "class", ("a", "b", "c"), marginal=(0.2, 0.3, 0.5))
    figures = tables.figures(tables.ClassOutcome(y, probs), tables.marginal_outcome(about, y))
    found = {figure.name: figure for figure in figures}
    assert found["error rate"].model == pytest.approx((probs.argmax(1) != y).mean())
    assert found["error rate"].marginal == pytest.approx((y != 2).mean())
    assert found["NLL (nats)"].model == pytest.approx(log_loss(y, probs))
    assert found["NLL (nats)"].marginal == pytest.approx(log_loss(y, np.tile([0.2, 0.3, 0.5], (200, 1))))
    assert found["Brier score"].model == pytest.approx(((probs - np.eye(3)[y]) ** 2).sum(1).mean())


def test_uncertainty_is_between_0_and_1():
    np.testing.assert_allclose(tables.uncertainty(np.array([[1, 0, 0], [1 / 3] * 3])), [0, 1], atol=1e-12)


# Writing ------------------------------------------------------------------------------------------------------------

ROWS = pa.table({"a": ["u", "v, w", None, 'say "so"'], "b": [1.5, None, 1 / 3, -2.0], "c": ["1", "2", "3\n4", ""]})


@pytest.mark.parametrize("name", ["o.csv", "o.csv.gz", "o.tsv", "o.parquet"])
def test_what_is_written_can_be_read(tmp_path, name):
    with table_files.table_writer(tmp_path / name, ROWS.schema) as writer:
        for batch in ROWS.to_batches(max_chunksize=2):
            writer.write(batch)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    again = content(table_files.open_table(tmp_path / name))
    assert [x or None for x in again["a"]] == ROWS["a"].to_pylist()
    assert [None if x in ("", None) else float(x) for x in again["b"]] == ROWS["b"].to_pylist()


def test_plain_cells_have_no_quotation_marks(tmp_path):
    with table_files.table_writer(tmp_path / "o.csv", ROWS.schema) as writer:
        writer.write(ROWS.to_batches(max_chunksize=1)[0])
    assert (tmp_path / "o.csv").read_text() == "a,b,c\nu,1.5,1\n"


@pytest.mark.parametrize("name", ["o.csv", "o.csv.gz", "o.parquet"])
def test_a_failure_leaves_the_earlier_file(tmp_path, name):
    (path := tmp_path / name).write_text("earlier")

    def fail():
        with table_files.table_writer(path, ROWS.schema) as writer:
            writer.write(ROWS.to_batches()[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
def test_a_full_disk_is_noticed(tmp_path):
    (full := tmp_path / "full.csv").symlink_to("/dev/full")
    numbers = pa.record_batch({"x": np.arange(100_000)})
    with (
        pytest.raises(OSError, match="No space left"),
        table_files.table_writer(full, numbers.schema) as out,
    ):
        out.write(numbers)


# The model ----------------------------------------------------------------------------------------------------------


def test_records_survive_their_state():
    record = tables.Record(
        "a.csv", 90, 10, (tables.Figure("RMSE", 1.0, 2.0), tables.Figure("error rate", 0.1, 0.5, True))
    )
    assert tables.Record.from_state(record.state()) == record
    assert record.figures[1].shown() == ("error rate", "10.0%", "50.0%")
    for change in ({"rows": "many"}, {"figures": [["RMSE", "one", "2", False]]}, {"figures": [[]]}, {"more": 1}):
        with pytest.raises(ValueError, match=r"record|figure|convert"):
            tables.Record.from_state({**record.state(), **change})


@pytest.fixture(scope="module")
def models() -> dict[str, tables.TableModel]:
    X = np.column_stack([RNG.normal(size=60), np.eye(4)[np.arange(60) % 4]]).astype(np.float32)
    real = npn.NPNRegressor(hidden=(4,), max_epochs=2, random_state=0).fit(X, X[:, 0] + X[:, 1])
    label = npn.NPNClassifier(hidden=(4,), max_epochs=2, random_state=0).fit(X, np.arange(60) % 3)
    record = tables.Record("a.csv", 60, 0, ())
    return {
        "number": tables.TableModel(SCHEMA, tables.Target("y", "gaussian", marginal=(0.0, 1.0)), real, record),
        "class": tables.TableModel(
            SCHEMA, tables.Target("y", "class", ("a", "b", "c"), False, (0.3, 0.3, 0.4)), label, record
        ),
    }


NEW = pa.RecordBatch.from_pydict({"z": ["u", "q", None], "extra": [1, 2, 3], "x": ["0.5", "", "2"]})


@pytest.mark.parametrize("kind", ["number", "class"])
def test_predictions_are_the_estimators_and_survive_a_file(models, kind, tmp_path):
    model = models[kind]
    X = np.array([[-1.0, 1, 0, 0, 0], [np.nan, 0, 0, 0, 1], [0.5, *[np.nan] * 4]], np.float32)
    predicted = model.predict(NEW, level=0.8)
    if kind == "number":
        low, high = model.estimator.predict_interval(X, level=0.8)
        mean, std = model.estimator.predict(X, return_std=True)
        expected = {"y_mean": mean, "y_std": std, "y_low": low, "y_high": high}
    else:
        probs = model.estimator.predict_proba(X)
        expected = {
            "y_predicted": np.array(["a", "b", "c"])[probs.argmax(1)],
            **{f"y_probability_{label}": probs[:, i] for i, label in enumerate("abc")},
            "y_uncertainty": stats.entropy(probs, axis=1) / np.log(3),
        }
    assert list(predicted) == list(expected)
    for name, values in expected.items():
        if values.dtype.kind == "f":
            np.testing.assert_allclose(predicted[name], values, rtol=1e-9)
        else:
            np.testing.assert_array_equal(predicted[name], values)
    io.save(model, tmp_path / "m.npn")
    again = io.load(tmp_path / "m.npn")
    assert (again.schema, again.target, again.record) == (model.schema, model.target, model.record)
    for name, values in again.predict(NEW, level=0.8).items():
        if values.dtype.kind == "f":
            np.testing.assert_allclose(values, predicted[name], rtol=1e-9)
        else:
            np.testing.assert_array_equal(values, predicted[name])


def test_a_model_of_parts_that_do_not_fit_is_refused(models):
    plain, arrays = models["number"]._state()
    other, _ = models["class"]._state()
    for change in ({"target": other["target"]}, {"schema": plain["schema"][:1]}, {"more": 1}, {"estimator": {}}):
        with pytest.raises(ValueError, match=r"cannot predict|inputs|table model"):
            tables.TableModel._from_state({**plain, **change}, arrays)
    plain, arrays = other, models["class"]._state()[1]
    shorter = {**plain["target"], "classes": ["a", "b"], "marginal": [0.5, 0.5]}
    with pytest.raises(ValueError, match="classes of the estimator"):
        tables.TableModel._from_state({**plain, "target": shorter}, arrays)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1987.0, "1987"),
        (9999.4, "9999"),
        (9999.5, "10,000"),
        (10_460.2, "10,460"),
        (-2e6, "-2,000,000"),
        (0.02, "0.02"),
    ],
)
def test_numbers_are_written_as_people_read_them(number, text):
    assert tables.people_read(number) == text
