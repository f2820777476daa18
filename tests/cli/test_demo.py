"""The studies of `npn demo` in a quick setting, the law of the toy study in full, and the command itself."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from support.pages import assert_stands_alone
from typer.testing import CliRunner

import torchnpn
from torchnpn import report
from torchnpn.cli import app as cli
from torchnpn.demo import counts, digits, page, toy

QUICK = {"toy": partial(toy.run, steps=20), "digits": partial(digits.run, epochs=2), "counts": partial(counts.run, 2)}
RUNNER = CliRunner()


@pytest.fixture(scope="module")
def results() -> page.Results:
    return page.Results(*(run() for run in QUICK.values()))


@pytest.fixture
def quick(monkeypatch, results):
    """`npn demo` with the results of the quick studies."""
    for study in page.STUDIES.values():
        name = study.__name__.rpartition(".")[2]
        monkeypatch.setattr(study, "run", lambda name=name: getattr(results, name))


def figures(result: object) -> list[np.ndarray]:
    """All arrays and numbers in a result, however deep, but for seconds."""
    if isinstance(result, (np.ndarray, float)):
        return [np.asarray(result)]
    if isinstance(result, tuple):
        return [array for item in result for array in figures(item)]
    if dataclasses.is_dataclass(result):
        names = [field.name for field in dataclasses.fields(result) if field.name != "seconds"]
        return [array for name in names for array in figures(getattr(result, name))]
    return []


@pytest.mark.parametrize("study", QUICK)
def test_studies_are_repeatable_and_leave_no_trace(study, results, capsys):
    state = torch.get_rng_state()
    for a, b in zip(figures(getattr(results, study)), figures(QUICK[study]()), strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.isfinite(a.astype(float)).all()
    assert torch.equal(torch.get_rng_state(), state)
    assert capsys.readouterr() == ("", "")


def test_toy_data_are_the_papers(results):
    t = results.toy
    assert t.x.shape == t.y.shape == (20,)
    assert np.abs(t.x).max() <= 4
    assert np.abs(t.y - t.x**3).std() < 6
    assert t.grid[[0, -1]].tolist() == [-6, 6]


def test_digit_probabilities_and_splits(results):
    d = results.digits
    assert d.labels.size == 1797 - digits.ROWS
    np.testing.assert_allclose(d.probs.sum(1), 1, atol=1e-6)
    assert d.risk_coverage.risk[-1] == pytest.approx(1 - d.accuracy)
    assert np.average(d.by_uncertainty.accuracy, weights=d.by_uncertainty.rows) == pytest.approx(d.accuracy)


def test_count_intervals_are_counts(results):
    c = results.counts
    for curve in (c.curve, c.test):
        assert (curve.low >= 0).all() and (curve.low == curve.low.round()).all() and (curve.high >= curve.low).all()
        assert (curve.rate_low < curve.mean).all() and (curve.mean < curve.rate_high).all()
    assert c.expected >= counts.LEVEL - 1e-9


@pytest.mark.slow
def test_toy_law():
    """What the paper's Figure 1 shows: a good fit inside, a band that holds the curve and opens outside."""
    t = toy.run()
    assert t.rmse <= 4
    assert t.coverage >= 0.95
    assert t.widening >= 3
    assert t.outside >= 0.8
    assert t.nll <= 3.1  # 2.52 is the least


@pytest.mark.slow
def test_digits_and_counts_law():
    d, c = digits.run(), counts.run()
    assert d.accuracy >= 0.93
    assert d.nll <= 0.22
    assert d.by_uncertainty.accuracy[:4].min() >= 0.98
    assert d.by_uncertainty.accuracy[-1] <= 0.8
    assert abs(c.coverage - c.expected) <= 0.05
    assert c.nll - c.best_nll <= 0.12


# The page and the command -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_page_stands_alone(results):
    text = page.html(page.sections(results, page.pictures(results)), 1.0)
    assert_stands_alone(text)
    assert text.count("<section") == 3
    assert text.count("<img") == 4


@pytest.mark.slow
def test_demo_writes_report_and_figures(quick, tmp_path):
    out = tmp_path / "new" / "folder"
    result = RUNNER.invoke(cli.app, ["demo", "--out", str(out)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert {path.name for path in out.iterdir()} == {
        "report.html",
        "toy.png",
        "digits.png",
        "least_certain.png",
        "counts.png",
    }
    assert_stands_alone((out / "report.html").read_text(encoding="utf-8"))
    for words in ("Twenty points of x³", "Digits from few examples", "Counts with a known rate", "report.html"):
        assert words in result.output


@pytest.fixture
def no_drawing(monkeypatch):
    """A page whose figures are empty, for tests that look at other things."""
    empty = report.Variants(b"", b"")
    monkeypatch.setattr(page, "_picture", lambda *_: report.Picture("", "", empty, empty))


def test_demo_opens_the_report_where_asked(quick, no_drawing, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert RUNNER.invoke(cli.app, ["demo", "--out", str(tmp_path), "--no-open"]).exit_code == 0
    assert opened == []
    assert RUNNER.invoke(cli.app, ["demo", "--out", str(tmp_path), "--open"]).exit_code == 0
    assert opened == [(tmp_path / "report.html").resolve().as_uri()]


def assert_one_line(result, *words: str) -> None:
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    (line,) = result.output.splitlines()
    assert all(word in line for word in ("npn: ", "--out", *words))


def test_out_that_is_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(toy, "run", lambda **_: pytest.fail("checked after the work"))
    (file := tmp_path / "taken").write_text("mine")
    assert_one_line(RUNNER.invoke(cli.app, ["demo", "--out", str(file)]), "File exists")
    assert_one_line(RUNNER.invoke(cli.app, ["demo", "--out", str(file / "below")]), "Not a directory")
    assert file.read_text() == "mine"


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write anywhere")
def test_out_without_permission(tmp_path):
    (closed := tmp_path / "closed").mkdir(mode=0o500)
    assert_one_line(RUNNER.invoke(cli.app, ["demo", "--out", str(closed)]), "Permission denied")


def test_out_that_is_refused(quick, no_drawing, tmp_path, monkeypatch):
    """The same for any error of the file system, at the start and at the end; nothing half-written stays."""

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("tempfile.TemporaryFile", refuse)
        assert_one_line(RUNNER.invoke(cli.app, ["demo", "--out", str(tmp_path)]), "Permission denied")
    monkeypatch.setattr("os.replace", refuse)
    result = RUNNER.invoke(cli.app, ["demo", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "Permission denied" in result.output
    assert list(tmp_path.iterdir()) == []


def test_version_and_help():
    assert RUNNER.invoke(cli.app, ["--version"]).output == f"torchnpn {torchnpn.__version__}\n"
    assert "demo" in RUNNER.invoke(cli.app, ["--help"]).output
    assert RUNNER.invoke(cli.app, ["nonsense"]).exit_code == 2


@pytest.mark.parametrize("arguments", [["reproduce", "toy", "--quick"], ["bench"], ["report", "--help"]])
def test_commands_of_the_studies_say_how_to_install_them(arguments):
    code = (
        "import importlib.metadata as metadata, sys\n"
        "metadata.entry_points = lambda group: []\n"
        f"sys.argv = ['npn', *{arguments}]\n"
        "from torchnpn.cli.app import main\nmain()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"npn: {arguments[0]} belongs to the studies.") and "pip install ./studies" in line


@pytest.mark.slow
def test_command_without_its_extra_says_so():
    code = "import sys; sys.modules['typer'] = None; import torchnpn.cli.app"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr == "npn: typer is not installed. The command needs: pip install 'torchnpn[cli]'\n"
