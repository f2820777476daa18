"""The comparison on tables: predictions against quadrature, tables against their rules, methods from end to end."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pandas as pd
import pytest
from npn_studies.tabular import form, scores, sources
from npn_studies.tabular.__main__ import main
from npn_studies.tabular.collection import TABLES, Table
from npn_studies.tabular.contest import METHODS, figures, jobs, run, work
from npn_studies.tabular.predictions import Counts, Gamma, LogNormalMixture, LogResiduals, NormalMixture, Residuals
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
    assert work(job)["left_out"] == "Gaussian process would take too long for 1797 rows"


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
    out = capsys.readouterr().out
    assert "1 of 4 found" in out and "would take too long" in out
    assert parts.read_text().startswith(before) and len(parts.read_text().splitlines()) == 3


def test_an_unknown_table_is_named(capsys):
    with pytest.raises(SystemExit):
        main(["run", "parts.jsonl", "--tables", "irsi"])
    assert "no table 'irsi'" in capsys.readouterr().err
