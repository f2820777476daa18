"""The studies of the estimators run, judge rivals by the right formulas, and pages show what their records say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import torchnpn as npn

for rival in ("scoringrules", "ngboost"):  # which only the environment of `make test` has
    pytest.importorskip(rival)

from benchmarks import (  # noqa: E402
    device_kernels,
    estimators,
    exported,
    gpu_profile,
    gpu_rows,
    gpu_training,
    large_table,
    missing,
    rivals,
    summaries,
)
from torchnpn.datasets import Dataset, Split  # noqa: E402

ROOT = Path(__file__).parent.parent
STUDIES = {
    "estimators.py": estimators,
    "missing.py": missing,
    "large_table.py": large_table,
    "exported.py": exported,
}
PRESENT = {info.name for info in npn.datasets.available() if info.present}
ONE = np.ones(1)

# Rivals' distributions: built by us from parameters, and what scipy calls them

CONTINUOUS = {
    "gaussian": (rivals.gaussian(1.5 * ONE, 0.7 * ONE), stats.norm(1.5, 0.7)),
    "gamma": (rivals.gamma(2.5 * ONE, 0.8 * ONE), stats.gamma(2.5, scale=1 / 0.8)),
    "log_normal": (rivals.log_normal(0.3 * ONE, 0.9 * ONE), stats.lognorm(0.9, scale=np.exp(0.3))),
}
K = np.arange(200)
ROUNDED = np.diff(stats.norm(1.2, 1.1).cdf(np.concatenate([[-np.inf], K + 0.5])))  # all below one half is a zero
COUNTS = {
    "poisson": (rivals.poisson(2.3 * ONE), stats.poisson(2.3).pmf(K)),
    "rounded_gaussian": (rivals.rounded_gaussian(1.2 * ONE, 1.1), ROUNDED),
}


@pytest.mark.parametrize("y", [0.4, 1.0, 3.7])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_forecasts_match_quadrature(name, y):
    forecast, p = CONTINUOUS[name]
    below = integrate.quad(lambda x: p.cdf(x) ** 2, -np.inf if name == "gaussian" else 0, y)[0]
    above = integrate.quad(lambda x: p.sf(x) ** 2, y, np.inf)[0]
    np.testing.assert_allclose(forecast.crps(y * ONE), below + above, rtol=1e-6)
    np.testing.assert_allclose(forecast.log_prob(y * ONE), p.logpdf(y))
    np.testing.assert_allclose(p.cdf(forecast.quantile(0.05)), 0.05)


@pytest.mark.parametrize("y", [0, 1, 6])
@pytest.mark.parametrize("name", COUNTS)
def test_count_forecasts_match_sums(name, y):
    forecast, p = COUNTS[name]
    spread = 0.5 * p @ np.abs(K[:, None] - K) @ p
    np.testing.assert_allclose(forecast.crps(np.array([y])), p @ np.abs(K - y) - spread, rtol=1e-9)
    np.testing.assert_allclose(forecast.log_prob(np.array([y])), np.log(p[y]), rtol=1e-9)


@pytest.mark.parametrize("q", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("name", COUNTS)
def test_quantiles_of_counts_are_the_smallest_that_reach(name, q):
    forecast, p = COUNTS[name]
    assert forecast.quantile(q) == np.argmax(np.cumsum(p) >= q)


def test_far_counts_have_finite_probabilities():
    np.testing.assert_allclose(
        rivals.rounded_gaussian(np.zeros(1), 0.1).log_prob(np.array([20.0])), stats.norm.logsf(195)
    )


def test_gamma_shape_is_that_of_maximum_likelihood():
    y = stats.gamma(1.7, scale=3).rvs(500, random_state=0)
    shape, _, _ = stats.gamma.fit(y, floc=0)  # its mean is the mean of y
    assert rivals.gamma_shape(y / y.mean()) == pytest.approx(shape, rel=1e-4)


# Models


def made(kind: str, rows: int = 120) -> estimators.Problem:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 3))
    mean = np.exp(0.5 * X[:, 0])
    y = {"counts": rng.poisson(mean) + 0.0, "amounts": rng.gamma(2.0, mean / 2), "numbers": rng.normal(mean)}[kind]
    order = np.arange(rows)
    return estimators.Problem(
        f"made {kind}", kind, X, y, (Split(order[:80], order[80:]), Split(order[40:], order[:40]))
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, models in rivals.MODELS.items() for name in models if "NPN" not in name]
)
def test_rivals_are_given_a_fair_chance(kind, name):
    """Each beats the distribution of all training targets, where features say something."""
    problem, half = made(kind, 2000), 1000
    model = rivals.MODELS[kind][name]
    forecast = model(problem.X[:half], problem.y[:half], 0, rivals.Budget(trees=100))(problem.X[half:])
    seen, y = problem.y[:half], problem.y[half:]
    constant = np.abs(y[:, None] - seen).mean() - 0.5 * np.abs(seen[:, None] - seen).mean()  # its CRPS
    assert np.mean(forecast.crps(y)) < 0.97 * constant


# Studies


def check(record: dict, key: str, expected: int) -> None:
    assert record.keys() >= {"configuration", "versions", "device", "date", "duration_s", "rows"}
    assert record["versions"].keys() >= {"python", "torch", "scikit-learn", "torchnpn"}
    assert "none" in record["configuration"]["tuning"]
    assert len({(row["set"], row["split"], row[key]) for row in record["rows"]}) == len(record["rows"]) == expected
    figures = [value for row in record["rows"] for value in row.values() if isinstance(value, float)]
    assert np.isfinite(figures).all()


def check_estimators(record: dict) -> None:
    sets = record["configuration"]["sets"].values()
    check(record, "model", sum(about["splits"] * len(rivals.MODELS[about["kind"]]) for about in sets))
    for row in record["rows"]:
        assert row["crps"] > 0 and 0 <= row["coverage"] <= 1 and row["fit_s"] > 0 and row["predict_s"] > 0
    lines = estimators.render(record).splitlines()
    assert len(lines) == 2 + sum(len(rivals.MODELS[about["kind"]]) for about in sets)


def check_missing(record: dict, splits: int) -> None:
    ways, sets = len(missing.WAYS) + 1, len(record["configuration"]["sets"])
    check(record, "way", sets * ways * splits)
    assert len(missing.render(record).splitlines()) == 2 + sets * ways


def test_study_of_estimators_on_made_data():
    record = estimators.study(map(made, rivals.MODELS), estimators.QUICK)
    check_estimators(json.loads(json.dumps(record)))


def test_study_of_missing_cells_on_made_data():
    _, _, X, y, splits = made("numbers")
    record = missing.study([Dataset("made", X, y, ("a", "b", "c"), {"y": y}, splits=splits)], missing.QUICK_EPOCHS)
    check_missing(json.loads(json.dumps(record)), splits=2)


@pytest.mark.skipif(not {"motor-insurance", *estimators.UCI} <= PRESENT, reason="not all of its data sets are here")
def test_quick_study_of_estimators(capsys):
    estimators.main(["--quick"])
    assert "| wine | MLP, Gaussian |" in capsys.readouterr().out


@pytest.mark.skipif(not set(missing.SETS) <= PRESENT, reason="not all of its data sets are here")
def test_quick_study_of_missing_cells(capsys):
    missing.main(["--quick"])
    assert "| energy | IterativeImputer |" in capsys.readouterr().out


def test_random_splits_hold_every_row_once():
    splits = estimators.random_splits(103)
    assert len(splits) == estimators.RANDOM_SPLITS
    for train, test in splits:
        assert len(test) == 21
        assert sorted([*train, *test]) == list(range(103))
    assert not np.array_equal(splits[0].test, splits[1].test)


def test_categories_become_columns():
    data = Dataset(
        "made", np.array([[0.5, 2.0], [1.0, 0.0]]), np.zeros(2), ("exposure", "car"), {}, {"car": ("a", "b", "c")}
    )
    np.testing.assert_array_equal(estimators.one_hot(data), [[np.log(0.5), 0, 0, 1], [0, 1, 0, 0]])


def test_a_share_of_the_cells_is_removed():
    X = np.arange(4000.0).reshape(1000, 4)
    gaps = missing.without(X, 0.2, seed=1)
    assert np.isnan(gaps).mean(axis=0) == pytest.approx(np.full(4, 0.2), abs=0.05)
    np.testing.assert_array_equal(gaps, np.where(np.isnan(gaps), np.nan, X))
    np.testing.assert_array_equal(gaps, missing.without(X, 0.2, seed=1))


@pytest.mark.parametrize("way", [missing.mean_imputed, missing.iteratively_imputed])
def test_imputers_see_training_rows_only(way):
    X = np.random.default_rng(0).normal(size=(60, 3))
    gaps = missing.without(X, 0.2, seed=0)
    train, test = way(gaps[:40], gaps[40:], 0)
    np.testing.assert_array_equal(train, way(gaps[:40], gaps[40:41], 0)[0])
    np.testing.assert_allclose(test[:1], way(gaps[:40], gaps[40:41], 0)[1])
    for filled, holes in ((train, gaps[:40]), (test, gaps[40:])):
        np.testing.assert_array_equal(filled[~np.isnan(holes)], holes[~np.isnan(holes)])
        assert np.isfinite(filled).all()


# Records and pages


def test_summary_is_mean_and_standard_error():
    summary = summaries.Summary.of([1.0, 2.0, 3.0, 4.0])
    assert summary == pytest.approx((2.5, np.sqrt(5 / 3 / 4)))
    assert str(summary) == "2.50 ± 0.65"
    assert str(summaries.Summary(1234.5, 67.8)) == "1234 ± 68"
    assert str(summaries.Summary(0.0, 0.0)) == "0"


@pytest.mark.parametrize("script", STUDIES)
def test_a_table_replaces_only_what_stands_between_its_comments(script):
    start, end = f"<!-- rendered from x by benchmarks/{script}: do not edit -->", summaries.END
    page = f"top\n{start}\nold\n{end}\nbottom\n{end}"
    new = summaries.with_table(page, script, "new")
    assert new == page.replace("\nold\n", "\n\nnew\n\n")
    assert summaries.with_table(new, script, "new") == new
    with pytest.raises(ValueError, match=f"benchmarks/{script}.*Write both first"):
        summaries.with_table("no comment", script, "new")


def recorded(study) -> dict:
    return json.loads(study.RECORD.read_text(encoding="utf-8"))


def test_record_of_estimators():
    record = recorded(estimators)
    check_estimators(record)
    assert record["configuration"]["budget"] == rivals.Budget()._asdict()  # not a quick one
    assert min(about["splits"] for about in record["configuration"]["sets"].values()) >= 5


def test_record_of_missing_cells():
    record = recorded(missing)
    check_missing(record, missing.SPLITS)
    assert record["configuration"]["epochs"] is None


def test_record_of_exported_files():
    """All models that are asked for, and no larger errors than the page on deployment promises."""
    record = recorded(exported)
    assert len(record["models"]) == 6 + len(exported.FAMILIES)
    bounds = {"mean": 1e-5, "variance": 1e-5, "quantiles": 1e-3, "probabilities": 1e-5, "export_s": 20}
    for row in record["models"]:
        assert all(row[key] <= most for key, most in bounds.items() if key in row)
    measured = {(row["units"], row["rows"]) for row in record["ratios"]}
    assert measured == {(units, rows) for units in exported.SIZES for rows in exported.BATCHES}


@pytest.mark.parametrize("script", STUDIES)
def test_pages_show_the_records(script):
    marked = [page for page in ROOT.glob("docs/*.md") if f"by benchmarks/{script}:" in page.read_text(encoding="utf-8")]
    assert marked
    for page in marked:
        text = page.read_text(encoding="utf-8")
        record = recorded(STUDIES[script])
        assert text == STUDIES[script].with_table(text, record), (
            f"run `python benchmarks/{script} --render {page.name}`"
        )


# Studies on a GPU: their records come from one, their pages and arithmetic can be checked anywhere


@pytest.mark.parametrize("study", [gpu_training, gpu_profile, gpu_rows], ids=lambda study: study.__name__)
def test_the_page_on_speed_shows_the_records(study):
    page = study.PAGE.read_text(encoding="utf-8")
    assert study.with_tables(page, recorded(study)) == page


@pytest.mark.parametrize("activation", device_kernels.ACTIVATIONS)
@pytest.mark.parametrize("point", [True, False], ids=["point", "random"])
def test_layers_of_the_study_of_kernels(activation, point):
    """What the script checks on a GPU holds for this machine's own kernels."""
    size = device_kernels.Size((2,), 9, 7, 5)
    found = device_kernels.errors(size, activation, point, "float32", torch.device("cpu"))
    assert {"mean", "variance", "a_0", "0.bias.mean"} <= found.keys() or activation == "gamma"
    assert max(found.values()) < device_kernels.BOUNDS["float32"]


def test_floor_of_a_step():
    """784-800-800-10 with 128 rows: 1,275,200 weights, 48 bytes each; products counted by hand."""
    least = gpu_profile.floor(gpu_profile.CASES["20 replicas"])
    assert least["bytes_us"] == pytest.approx(20 * 48 * 1_275_200 / 4.3e6)
    mean = 2 * 128 * (2 * 784 * 800 + 3 * 800 * 800 + 3 * 800 * 10)
    variance = 2 * 128 * (2 * 784 * 800 + 6 * 800 * 800 + 6 * 800 * 10)
    assert least["operations_us"] == pytest.approx(20 * (mean / 0.4e9 + variance / 0.79e9))


@pytest.mark.slow
@pytest.mark.skipif("mnist" not in PRESENT, reason="MNIST is not here")
def test_the_study_of_trainings_runs_on_a_cpu(tmp_path, monkeypatch):
    out = tmp_path / "record.json"
    arguments = ["gpu_training.py", "--quick", "--device", "cpu", "-o", str(out)]
    monkeypatch.setattr("sys.argv", arguments)
    gpu_training.main()
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["epochs"]["epochs"] == gpu_training.QUICK.epochs
    assert set(found["precision"]) == set(gpu_training.PRECISIONS)
    for row in found["precision"].values():
        assert len(row["mnist"]["nll"]) == gpu_training.QUICK.replicas
        assert max(row["layer"].values()) < 1e-5  # a CPU has one precision
