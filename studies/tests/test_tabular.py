"""The comparison on tables: predictions against quadrature, tables against their rules, methods from end to end."""

from __future__ import annotations

import dataclasses
import importlib.util
import json

import numpy as np
import pandas as pd
import pytest
from made_experiments import FULL, ran
from npn_studies.experiments import tabular, tabular_page
from npn_studies.experiments.experiment import MissingData
from npn_studies.tabular import form, scores, sources
from npn_studies.tabular.__main__ import main
from npn_studies.tabular.collection import TABLES, Table
from npn_studies.tabular.contest import METHODS, figures, jobs, run, work
from npn_studies.tabular.predictions import Counts, Gamma, LogNormalMixture, LogResiduals, NormalMixture, Residuals
from npn_studies.tabular.ranks import critical_difference, ranks
from npn_studies.tabular.rivals import networks
from npn_studies.tabular.rivals.interface import Standard
from npn_studies.tabular.rows import NotInstalled, Rows, read, split, write
from scipy import integrate, stats

RNG = np.random.default_rng(0)
M, S = np.array([[0.0, 1.0], [1.0, 2.0]]), np.array([[0.5, 1.0], [1.0, 0.3]])  # two members, two rows
LEVEL = 0.9


def mixed(parts):
    """The function that is the mean of these."""
    return lambda t: np.mean([part(t) for part in parts], 0)


def normals(row):
    return [stats.norm(m, s) for m, s in zip(M[:, row], S[:, row], strict=True)]


def log_normals(row):
    return [stats.lognorm(s, scale=np.exp(m)) for m, s in zip(M[:, row], S[:, row], strict=True)]


def gammas(row):
    return [stats.gamma(2.5, scale=mean / 2.5) for mean in np.array([3.0, 0.5])[[row]]]


CONTINUOUS = {
    "normal": (NormalMixture(M, S), normals, [1.3, 0.4]),
    "log-normal": (LogNormalMixture(NormalMixture(M, S)), log_normals, [1.3, 4.0]),
    "gamma": (Gamma(np.array([3.0, 0.5]), 2.5), gammas, [4.0, 0.2]),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_predictions_match_quadrature(name):
    prediction, members_of, y = CONTINUOUS[name]
    y = np.array(y)
    low, high = prediction.interval(LEVEL)
    for row in range(2):
        members = members_of(row)
        cdf, pdf = mixed([member.cdf for member in members]), mixed([member.pdf for member in members])
        ends = min(m.ppf(1e-9) for m in members), max(m.ppf(1 - 1e-9) for m in members)
        below, _ = integrate.quad(lambda t: cdf(t) ** 2, ends[0], y[row], limit=200)
        above, _ = integrate.quad(lambda t: (1 - cdf(t)) ** 2, y[row], ends[1], limit=200)
        np.testing.assert_allclose(prediction.crps(y)[row], below + above, rtol=1e-5)
        np.testing.assert_allclose(prediction.log_prob(y)[row], np.log(pdf(y[row])), rtol=1e-9)
        np.testing.assert_allclose([cdf(low[row]), cdf(high[row])], [0.05, 0.95], atol=1e-9)
        np.testing.assert_allclose(prediction.mean[row], np.mean([member.mean() for member in members]), rtol=1e-9)


def test_counts_match_sums():
    mu, alpha = np.array([[3.0, 0.4], [6.0, 0.4]]), np.array([[0.5, 0.0], [0.2, 0.0]])
    y, k = np.array([4.0, 1.0]), np.arange(400)
    prediction = Counts(mu, alpha)
    low, high = prediction.interval(LEVEL)
    rows = ([stats.nbinom(2, 2 / 5), stats.nbinom(5, 5 / 11)], [stats.poisson(0.4)])
    for row, members in enumerate(rows):
        cdf, pmf = mixed([member.cdf for member in members]), mixed([member.pmf for member in members])
        np.testing.assert_allclose(prediction.log_prob(y)[row], np.log(pmf(y[row])), rtol=1e-7)
        np.testing.assert_allclose(prediction.crps(y)[row], ((cdf(k) - (k >= y[row])) ** 2).sum(), rtol=1e-7)
        assert cdf(low[row]) >= 0.05 > cdf(low[row] - 1) and cdf(high[row]) >= 0.95 > cdf(high[row] - 1)
        np.testing.assert_allclose(prediction.mean[row], mu[:, row].mean())


def test_residuals_are_the_empirical_distribution():
    r, centers, y = RNG.normal(size=200), np.array([1.0, -0.5]), np.array([2.0, 0.3])
    plain, log = Residuals(centers, r), LogResiduals(Residuals(centers, r))
    for prediction, sample in ((plain, centers[:, None] + r), (log, np.exp(centers[:, None] + r))):
        pairs = np.abs(sample[:, :, None] - sample[:, None]).mean((1, 2)) / 2
        np.testing.assert_allclose(prediction.crps(y), np.abs(sample - y[:, None]).mean(1) - pairs, rtol=1e-9)
        np.testing.assert_allclose(prediction.mean, sample.mean(1), rtol=1e-9)


@pytest.mark.parametrize("kind", [Residuals, LogResiduals])
def test_residuals_have_a_density(kind):
    grid = np.linspace(-40, 40, 4001) if kind is Residuals else np.geomspace(1e-12, 1e12, 4001)
    plain = Residuals(np.full(4001, 0.5), RNG.normal(size=100))
    density = np.exp((plain if kind is Residuals else LogResiduals(plain)).log_prob(grid))
    np.testing.assert_allclose(np.trapezoid(density, grid), 1, rtol=1e-3)


def test_scores_are_their_formulas():
    y = np.array([0.0, 3.0])
    found = scores.of_numbers(NormalMixture(np.zeros((1, 2)), np.ones((1, 2))), y)
    end = stats.norm.ppf(0.95)
    np.testing.assert_allclose(found["nll"], -stats.norm.logpdf(y).mean(), rtol=1e-9)
    np.testing.assert_allclose(found["interval"], 2 * end + 20 * (3 - end) / 2, rtol=1e-6)
    np.testing.assert_allclose([found["rmse"], found["coverage"]], [np.sqrt(4.5), 0.5])
    found = scores.of_classes(np.array([[0.5, 0.5, 0.0], [0.2, 0.7, 0.1]]), np.array([0, 2]))
    np.testing.assert_allclose([found["nll"], found["error"]], [-np.log([0.5, 0.1]).mean(), 0.5], rtol=1e-9)
    np.testing.assert_allclose(found["brier"], (0.5 + 0.04 + 0.49 + 0.81) / 2, rtol=1e-9)


# Tables


def test_the_half_of_a_table_is_that_of_its_name():
    halves = {name: TABLES[name].half for name in ("mcycle", "nox", "spam", "letter")}
    assert halves == {"mcycle": "report", "nox": "choose", "spam": "report", "letter": "choose"}
    for kind in ("gaussian", "amounts", "counts", "classes"):
        assert {table.half for table in TABLES.values() if table.kind == kind} == {"choose", "report"}


def test_no_table_shows_its_target():
    assert all(table.target not in (*table.dropped.split(), *table.nominal.split()) for table in TABLES.values())
    assert {table.source.partition(":")[0] for table in TABLES.values()} <= sources.READERS.keys()


@pytest.fixture
def made(monkeypatch):
    """A source of a table with a column of each type."""
    count = 60
    frame = pd.DataFrame(
        {
            "number": RNG.normal(size=count),
            "written": [str(k) for k in range(count)],
            "code": [1.0, 2.0, np.nan] * 20,
            "day": [f"2020-01-{1 + k % 28:02d}" for k in range(count)],
            "sort": ["a", "b", None] * 20,
            "rare": [f"level {k}" for k in range(30)] * 2,
            "constant": 1,
            "name": [f"row {k}" for k in range(count)],
            "log": RNG.normal(size=count),
            "paid": [0.0, 1.0, 2.0, 3.0, np.nan, 5.0] * 10,
        }
    )
    monkeypatch.setitem(sources.READERS, "made", lambda item: frame)
    return Table("made", "made:table", "paid", "amounts", dropped="log", nominal="code", text="name")


def test_columns_become_numbers(made):
    found = form.rows(made)
    assert len(found.y) == 40 and (found.y > 0).all()  # neither missing nor nothing
    widths = {"number": 1, "written": 1, "code": 3, "day": 2, "sort": 3, "rare": form.MOST_LEVELS}  # one month only
    assert found.X.shape == (40, sum(widths.values()))
    levels = found.X[:, -form.MOST_LEVELS :]
    assert np.isin(levels, [0, 1]).all() and (levels.sum(1) == 1).all()
    assert found.categorical.tolist() == [False, False, True, False, True, True, False]  # constant is the last
    assert np.isnan(found.coded[:, 4]).any() and not np.isnan(found.X).any()
    with pytest.raises(KeyError, match="no column wage; it has number, written"):
        form.rows(made._replace(dropped="wage"))


def test_a_written_table_is_the_same(made, tmp_path, monkeypatch):
    monkeypatch.setitem(TABLES, "made", made)
    found = form.rows(made)
    write(found, tmp_path)
    for mine, back in zip(found, read("made", tmp_path), strict=True):
        np.testing.assert_array_equal(mine, back)


def test_splits_have_a_fifth_of_each_class():
    found = form.rows(TABLES["iris"])
    train, test = split(found, 3)
    assert sorted([*train, *test]) == list(range(150))
    assert np.bincount(found.y[test]).tolist() == [10, 10, 10]
    assert (split(found, 3)[1] == test).all() and (split(found, 4)[1] != test).any()


def test_what_is_not_installed_is_named(monkeypatch):
    monkeypatch.delenv("TORCHNPN_DATA", raising=False)
    monkeypatch.setenv("R_LIBS", "/nowhere")
    monkeypatch.setattr(sources, "R_LIBRARIES", ())
    with pytest.raises(NotInstalled, match=r"uci_regression/yacht\.npz in the folder that TORCHNPN_DATA names"):
        form.rows(TABLES["yacht"])
    with pytest.raises(NotInstalled, match=r"apt install r-cran-mlbench|pip install rdata"):
        form.rows(TABLES["glass"])


# Methods


def table_of(kind: str, rows: int = 90) -> Rows:
    X = RNG.normal(size=(rows, 3))
    X[::7, 0] = np.nan
    rate = np.exp(X[:, 1])
    y = {
        "gaussian": 50 + 10 * X[:, 1] + RNG.normal(size=rows),
        "amounts": 1000 * rate * RNG.gamma(5, size=rows),
        "counts": RNG.poisson(3 * rate).astype(float),
        "classes": np.digitize(X[:, 1], [-0.4, 0.4]),
    }[kind]
    return Rows(Table("made", "", "", kind), X, X, np.array([False, False, False]), y)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gaussian", "amounts", "counts", "classes"])
@pytest.mark.parametrize("name", [name for name in METHODS if not name.startswith("npn")])
def test_methods_learn(name, kind, monkeypatch):
    method = METHODS[name]
    if kind not in method.kinds:
        pytest.skip(f"{name} has no {kind}")
    if importlib.util.find_spec(method.package) is None:
        pytest.skip(f"needs {method.package}")
    monkeypatch.setattr(networks, "_MOST_STEPS", 400)
    found = figures(method, table_of(kind), 0)
    assert all(np.isfinite(value) for value in found.values())
    if kind == "classes":
        assert found["error"] < 0.4
    else:
        spread = np.std(table_of(kind).y)
        assert found["crps"] < 0.6 * spread and found["rmse"] < 1.2 * spread


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gaussian", "amounts", "counts", "classes"])
def test_ours_learns(kind):
    found = figures(METHODS["npn"], table_of(kind), 0)
    assert all(np.isfinite(value) for value in found.values())


def test_standard_units_say_what_was_missing():
    X = np.array([[1.0, 5.0, np.nan], [3.0, 5.0, 2.0], [np.nan, 5.0, 4.0]])
    units = Standard.of(X)(X)
    np.testing.assert_allclose(units, [[-1, 0, 0, 1], [1, -1, 0, 0], [0, 1, 1, 0]])


def test_a_job_that_cannot_be_done_says_why(tmp_path):
    [job] = jobs(["process"], ["iris"], [0], tmp_path)
    assert "left_out" in work(job)  # there is no such file
    [job] = jobs(["process"], ["digits"], [0], None)
    assert work(job)["unfit"] == "Gaussian process would take too long for 1797 rows"


@pytest.mark.slow
def test_a_run_goes_on_where_it_stopped(tmp_path, capsys):
    said: list[str] = []
    parts = tmp_path / "parts.jsonl"
    run(list(jobs(["linear"], ["iris"], [0], None)), parts, 1, said.append)
    before = parts.read_text()
    assert json.loads(before)["error"] < 0.2
    assert (
        main(["run", str(parts), "--methods", "linear", "process", "--tables", "iris", "digits", "--splits", "1"]) == 0
    )
    assert "1 of 4 found" in capsys.readouterr().out
    after = parts.read_text()
    assert after.startswith(before) and len(after.splitlines()) == 4 and "would take too long" in after


def test_an_unknown_table_is_named(capsys):
    with pytest.raises(SystemExit):
        main(["run", "parts.jsonl", "--tables", "irsi"])
    assert "no table 'irsi'" in capsys.readouterr().err


# Ranks and the page


def test_ranks_are_of_the_tables_that_all_have():
    losses = {
        "a": {"x": [1.0, 3.0], "y": [2.5], "z": [0.0, 9.0]},  # of the first split: x, y, z are 1, 2.5, 0
        "b": {"x": [1.0], "y": [2.0], "z": [2.0]},
        "c": {"x": [5.0], "y": [1.0]},
    }
    found = ranks(losses, ["x", "y", "z"])
    assert found.tables == ("a", "b")
    np.testing.assert_allclose(found.mean, [1.5, 2.75, 1.75])
    np.testing.assert_allclose(found.first, [0.5, 0, 0.5])
    assert ranks({"c": losses["c"]}, ["x", "z"]) is None


def test_critical_differences_are_those_of_the_literature():
    for methods, q in {2: 1.960, 5: 2.728, 10: 3.164}.items():  # Demsar 2006, table 5
        expected = q * np.sqrt(methods * (methods + 1) / (6 * 30))
        np.testing.assert_allclose(critical_difference(methods, 30), expected, rtol=1e-3)


def test_methods_apart_are_beyond_the_critical_difference():
    losses = {str(k): {"x": [1.0], "y": [2.0], "z": [3.0]} for k in range(40)}
    found = ranks(losses, ["x", "y", "z"])
    assert found.apart("y") == (["x"], ["z"]) and found.apart("x") == ([], ["y", "z"])


@pytest.fixture
def record(tmp_path):
    """Collected from two files, as two machines write them: mcycle and iris by five methods, one method that failed."""
    lines: dict[str, list[dict]] = {"one": [], "two": []}
    for place, method in enumerate(tabular_page.CONTEST):
        for table in ("mcycle", "iris"):
            for seed in range(3 if method == "catboost" else 2):
                loss = 1.0 + place + 0.1 * seed
                part = {"method": method, "table": table, "split": seed, "nll": loss, "rows": 150.0}
                more = {"error": 0.1} if table == "iris" else {"crps": loss, "coverage": 0.9}
                lines["two" if method == "catboost" else "one"].append(part | more | {"fit_s": 1.0, "predict_s": 0.5})
    lines["two"].append({"method": "ngboost", "table": "iris", "split": 0, "failed": "ValueError: no"})
    lines["two"].append({"method": "process", "table": "iris", "split": 0, "unfit": "has none"})
    lines["two"].append({"method": "lightgbm", "table": "iris", "split": 1, "nll": 1.0})  # without its first
    for name, parts in lines.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(part) + "\n" for part in parts))
    return tabular.collected(sorted(tmp_path.glob("*.jsonl")), FULL, tmp_path / "results")


def test_parts_of_several_machines_become_a_record(record):
    cells = record["cells"]
    assert cells["npn/iris"]["figures"]["nll"] == [1.0, 1.1] and cells["npn/iris"]["settings"] == {"splits": 2}
    assert cells["catboost/mcycle"]["settings"] == {"splits": 3} and cells["npn/iris"]["seconds"] == 3.0
    assert cells["ngboost/iris"]["figures"] == {"failed": "ValueError: no"}
    assert "lightgbm/iris" not in cells and record["planned"] == len(tabular.SHOWN) * len(METHODS)


def test_the_page_says_what_the_record_says(record):
    text = tabular_page.page(record, {})
    assert "- Average rank by NLL on 2 tables: NPN 1.00, deep ensemble of 5 2.00, HGB 3.00, CatBoost 4.00" in text
    assert "| NLL | 2 | **1.00** | 2.00 | 3.00 | 4.00 | 5.00 | 4.31 |" in text
    assert "2 tables of 150 to 150 rows: 1 with a number, 1 with classes." in text
    assert "| linear | 2 | 100% of 2 | 100% of 1 | 90.0% | 1 |" in text
    assert "| CatBoost | 3.00 | 3.00 (mcycle) | – | 0.00% | 90.0% | – |" in text  # a share, and few rows
    assert "| iris | classes | **1.050 ± 0.050** |" in text and "nan" not in text
    assert "behind the best" in text and "- iris, NLL" not in text  # NPN is the best of both
    for cell in ("npn/iris", "npn/mcycle"):
        record["cells"][cell]["figures"]["nll"] = [3.0, 3.0]
    assert "- iris, NLL 3.00 against 2.05 (deep ensemble of 5)." in tabular_page.page(record, {})
    assert tabular_page.section(record).endswith("and how it was done: [On real tables](tables.md).")


def test_a_cell_without_its_package_is_left_out(monkeypatch, tmp_path):
    monkeypatch.setattr(sources, "R_LIBRARIES", ())
    cell = next(cell for cell in tabular.cells(FULL) if cell.key == "linear/glass")
    with pytest.raises(MissingData, match=r"r-cran-mlbench|pip install rdata"):
        cell.run(lambda share: None)
    experiment = dataclasses.replace(tabular.EXPERIMENT, cells=lambda options: [cell])
    told = ran(experiment, tmp_path)
    assert "linear/glass: left out" in told.lines[0]
