"""Experiments run, and go on where they were stopped."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from made_experiments import CPU, FULL, QUICK, Told, assert_runs_from_end_to_end, made, only, ran
from npn_studies.experiments import EXPERIMENTS, Cell, Options
from npn_studies.experiments import record as records
from npn_studies.experiments.report import report
from npn_studies.experiments.run import absent, choose, folder_for, listing, reproduce, run
from npn_studies.experiments.tables import Summary, table
from typer.testing import CliRunner

from torchnpn.cli import app as cli

RUNNER = CliRunner()


# Records


def test_a_record_holds_all_that_is_needed(tmp_path):
    told = ran(made(), tmp_path / "deep" / "folder", Options(CPU, seeds=4))
    record = json.loads((tmp_path / "deep" / "folder" / "made.json").read_text())
    assert record.keys() >= {"experiment", "title", "place", "quick", "seeds", "device", "versions", "date"}
    assert (record["seeds"], record["quick"], record["planned"]) == (4, False, 3)
    assert {key: cell["figures"] for key, cell in record["cells"].items()} == {
        f"a/{i}": {"square": (i + 1) ** 2} for i in range(3)
    }
    assert record["duration_s"] == pytest.approx(sum(c["seconds"] for c in record["cells"].values()), abs=0.1)
    assert told.shares == sorted(told.shares) and told.shares[-1] == 1.0
    assert [path.name for path in (tmp_path / "deep" / "folder").iterdir()] == ["made.json"]


def test_a_stopped_run_goes_on(tmp_path):
    log: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        ran(made(settings=(1, 2, -3), log=log), tmp_path)
    assert not records.is_whole(records.read(made(), tmp_path))
    told = ran(made(log=log), tmp_path)
    assert log == [1, 2, 3]
    assert told.lines == [f"made: 2 of 3 found in {tmp_path / 'made.json'}"]
    before = (tmp_path / "made.json").read_bytes()
    told = ran(made(log=log), tmp_path)
    assert log == [1, 2, 3] and "3 of 3 found" in told.lines[0]
    assert (tmp_path / "made.json").read_bytes() == before  # with its own date and device


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"settings": (1, 5, 3)}, [5]),
        ({"settings": (1, 2)}, []),
        ({"options": QUICK}, [1, 2, 3]),
        ({"options": Options(CPU, seeds=2)}, [1, 2, 3]),
        ({"again": True}, [1, 2, 3]),
    ],
    ids=["settings", "fewer", "quick", "seeds", "again"],
)
def test_a_cell_is_used_again_only_for_equal_settings(tmp_path, change, expected):
    ran(made(), tmp_path)
    log: list[int] = []
    settings = change.pop("settings", (1, 2, 3))
    ran(made(settings=settings, log=log), tmp_path, **change)
    assert log == expected
    record = records.read(made(), tmp_path)
    assert [cell["figures"]["square"] for cell in record["cells"].values()] == [n**2 for n in settings]
    assert records.is_whole(record)


@pytest.mark.parametrize("content", ["{", "[]", '{"rows": []}', '{"experiment": "other", "cells": {}}'])
def test_a_foreign_file_is_refused_and_kept(tmp_path, content):
    (tmp_path / "made.json").write_text(content)
    with pytest.raises(ValueError, match=r"made\.json is not"):
        ran(made(), tmp_path)
    assert (tmp_path / "made.json").read_text() == content


def test_what_is_not_json_is_refused(tmp_path):
    cells = [*made().cells(FULL), Cell("nan", {}, lambda progress: {"x": float("nan")})]
    with pytest.raises(ValueError, match="not JSON compliant"):
        ran(dataclasses.replace(made(), cells=lambda options: cells), tmp_path)
    assert len(records.read(made(), tmp_path)["cells"]) == 3


def test_a_record_names_the_device_that_was_used(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "circumstances", lambda device: {"device": device, "versions": {"torch": "2"}})
    cells = [Cell("a", {}, lambda progress: {}, device="cpu"), Cell("b", {}, lambda progress: {})]
    experiment, options = dataclasses.replace(made(), cells=lambda options: cells), Options(torch.device("cuda"))
    run(experiment, options, tmp_path, False, Told().screen)
    record = records.read(experiment, tmp_path)
    assert {key: cell["device"] for key, cell in record["cells"].items()} == {"a": "cpu", "b": "cuda"}
    assert record["device"] == "cpu; cuda"


def test_a_cell_keeps_the_versions_it_was_made_with(tmp_path, monkeypatch):
    """Also one from before cells named them: those of its record then."""

    def go_on(version, settings):
        around = {"device": "cpu", "versions": {"torch": version}, "date": "today"}
        monkeypatch.setattr(records, "circumstances", lambda device: around)
        ran(made(settings=settings), tmp_path)
        return records.read(made(), tmp_path)

    record = go_on("1", (1,))
    del record["cells"]["a/0"]["versions"]
    (tmp_path / "made.json").write_text(json.dumps(record))
    go_on("2", (1, 2))
    record = go_on("3", (1, 2, 3))
    assert [cell["versions"] for cell in record["cells"].values()] == [{"torch": number} for number in "123"]
    page = report({"made": made()}, tmp_path, tmp_path).pages[tmp_path / "results.md"]
    assert "\n0 s on cpu (torch 1); cpu (torch 2); cpu (torch 3); today.\n" in page


# Names, folders, data


def test_names():
    experiments = {name: made(name, search=name == "c") for name in "abc"}
    assert [e.name for e in choose(["all"], experiments)] == ["a", "b"]
    assert [e.name for e in choose(["c", "all", "a"], experiments)] == ["c", "a", "b"]
    with pytest.raises(ValueError, match=r"no experiment 'tyo'. Did you mean 'toy'"):
        choose(["tyo"], EXPERIMENTS)
    with pytest.raises(ValueError, match="Which experiment"):
        choose([], EXPERIMENTS)
    assert all(name == experiment.name for name, experiment in EXPERIMENTS.items())


def test_quick_records_have_a_folder_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert folder_for(Options(CPU), None) == Path("results")
    assert folder_for(Options(CPU, quick=True), None) == Path("results/quick")
    assert folder_for(Options(CPU, quick=True), Path("x")) == Path("x")
    Path("studies/npn_studies").mkdir(parents=True)  # a clone of the repository
    assert folder_for(Options(CPU), None) == Path("studies/results")


def test_an_experiment_without_its_data_is_left_out(tmp_path):
    told = Told()
    chosen = [made("first"), made("second", data=("toy", "no-such-set")), made("third")]
    left_out = reproduce(chosen, Options(CPU), tmp_path, False, told.screen)
    assert list(left_out) == ["second"]
    assert "no-such-set" in left_out["second"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.json", "third.json"]


def test_tiny_sizes_need_only_their_own_data(tmp_path):
    chosen = [made("one", data=("no-such-set",), quick_data=())]
    for quick, left_out in ((True, []), (False, ["one"])):
        assert list(reproduce(chosen, Options(CPU, quick), tmp_path, False, Told().screen)) == left_out


def test_the_list_says_what_is_here(tmp_path):
    experiments = {"a": made("a", data=("no-such-set",)), "b": made("b"), "c": made("c")}
    ran(experiments["b"], tmp_path)
    with pytest.raises(KeyboardInterrupt):
        ran(made("c", settings=(1, -2)), tmp_path)
    rows = {row[0]: row[-2:] for row in listing(experiments, tmp_path)}
    date = records.read(experiments["b"], tmp_path)["date"]
    assert rows == {"a": ["missing: no-such-set", "–"], "b": ["✓", date], "c": ["✓", "1 of 2"]}


# The two commands


def command(*arguments: object):
    return RUNNER.invoke(cli.app, ["reproduce", *map(str, arguments), "--device", "cpu"])


@pytest.fixture
def few():
    """Two experiments that are over at once; the second lacks its data."""
    with only({"one": made("one"), "two": made("two", data=("no-such-set",))}):
        yield


def test_the_command_runs_experiments(few, tmp_path):
    result = command("one", "-o", tmp_path)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "one.json").is_file()
    assert "3 of 3 found" in command("one", "-o", tmp_path).output
    assert "found" not in command("one", "-o", tmp_path, "--again").output
    assert "one" in command("--list", "-o", tmp_path).output


def test_all_goes_on_without_data_and_says_so(few, tmp_path):
    result = command("all", "-o", tmp_path)
    assert result.exit_code == 1
    assert (tmp_path / "one.json").is_file()
    assert result.stderr == "npn: left out because their data are missing: two.\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["three"], "There are: one, two, all."),
        ([], "Which experiment?"),
        (["one", "--seeds", "0"], "seeds"),
        (["one", "-o", "file"], "cannot"),
    ],
)
def test_mistakes_are_said_in_a_line(few, tmp_path, monkeypatch, arguments, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    result = command(*arguments)
    assert result.exit_code == 2
    assert expected in result.stderr


@pytest.mark.slow
def test_hard_dependencies_are_enough(tmp_path):
    hidden = ["typer", "rich", "matplotlib", "pandas", "pyarrow"]
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({hidden}))\n"
        "from npn_studies.__main__ import main\n"
        f"sys.exit(main(['activations', '--device', 'cpu', '-o', {str(tmp_path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "no figure, for matplotlib is not installed" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["activations.json"]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_runs_quickly_from_end_to_end(name, tmp_path):
    experiment = EXPERIMENTS[name]
    if missing := absent(experiment, quick=True):
        pytest.skip(f"data sets not here: {', '.join(missing)}")
    assert_runs_from_end_to_end(experiment, tmp_path)


# Tables


def test_summary_is_mean_and_standard_error():
    assert Summary.of([1.0, 2.0, 3.0, 4.0]) == pytest.approx((2.5, np.sqrt(5 / 3 / 4)))
    assert str(Summary.of([1.0, 2.0, 3.0, 4.0])) == "2.50 ± 0.65"
    assert str(Summary(1234.5, 67.8)) == "1234 ± 68"
    assert Summary.of([2.0]) == (2.0, 0.0)
    assert str(Summary.of([0.96123])) == "0.9612"  # no standard error of one figure


def test_table_is_markdown():
    assert table(["a", "b"], [["x", "1"]]) == "| a | b |\n|---|---:|\n| x | 1 |"
