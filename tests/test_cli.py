"""The `npn` command as people meet it: what it prints and writes, and one clear line for every mistake."""

from __future__ import annotations

import errno
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_plots import assert_stands_alone
from test_report import BROWSER, DARK, looked_at
from typer.testing import CliRunner

import torchnpn as npn
from torchnpn import cli, datasets, io, tables

QUICK = ["--epochs", "2", "--hidden", "4", "--device", "cpu"]
BARE = [*QUICK, "--no-report"]
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
RUNNER = CliRunner()


def run(*args: object):
    return RUNNER.invoke(cli.app, [str(arg) for arg in args])


def done(*args: object) -> str:
    """Output of a command that should succeed."""
    result = run(*args)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*args: object, status: int = 2) -> str:
    """The one line of a command that should not."""
    result = run(*args)
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == status, result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("npn: ")
    return line


def frame(rows: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x, colour = rng.normal(size=rows), rng.choice(["red", "green", "blue"], rows)
    y = 3 * x + (colour == "red") + rng.normal(size=rows)
    return pd.DataFrame(
        {
            "id": [f"row {i}" for i in range(rows)],
            "x": np.where(rng.random(rows) < 0.1, np.nan, x),
            "colour": colour,
            "y": y,
            "size": np.where(y > 2, "large", np.where(y > -2, "middle, or so", "small")),
            "count": rng.poisson(np.exp(0.5 * x + 1)),
            "amount": rng.gamma(1.0, np.exp(0.2 * x)),
            "share": rng.beta(2, 3, rows),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Tables and models that tests read and never change."""
    folder = tmp_path_factory.mktemp("cli")
    frame().to_csv(folder / "data.csv", index=False)
    frame(40).drop(columns=["y", "size"]).to_csv(folder / "new.csv", index=False)
    frame(40).to_parquet(folder / "new.parquet")
    drop = [word for name in ("count", "amount", "share") for word in ("--drop", name)]
    done("fit", folder / "data.csv", "-t", "y", "--drop", "size", *drop, "-o", folder / "number.npn", *BARE)
    done("fit", folder / "data.csv", "-t", "size", "--drop", "y", *drop, "-o", folder / "class.npn", *BARE)
    return folder


# What works ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "taken", "figures"),
    [
        ("y", "a real number (gaussian)", ["RMSE", "NLL", "CRPS", "in the 90% interval", "width"]),
        ("count", "a count (negative binomial)", ["RMSE", "CRPS"]),
        ("amount", "a positive amount (gamma)", ["RMSE", "CRPS"]),
        ("share", "a proportion (beta)", ["RMSE", "CRPS"]),
        ("size", "3 classes", ["error rate", "NLL", "Brier score", "calibration error"]),
    ],
)
def test_fit_says_what_it_does(folder, tmp_path, target, taken, figures):
    out = tmp_path / "m.npn"
    text = done("fit", folder / "data.csv", "-t", target, "-o", out, *BARE)
    assert f"{target} is taken as {taken}" in text
    assert "data.csv: 120 rows" in text and "left out: 'id' holds a different text in nearly every row." in text
    assert "Learning from 100 rows; 20 are held out" in text
    for word in (*figures, "model", "baseline", str(out)):
        assert word in text.replace("\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["m.npn"]
    assert isinstance(io.load(out), tables.TableModel)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "images"), [("y", 3), ("size", 5)])
def test_fit_writes_a_report(folder, tmp_path, target, images):
    done("fit", folder / "data.csv", "-t", target, "-o", tmp_path / "m.npn", *QUICK)
    assert {path.name for path in tmp_path.iterdir()} == {"m.npn", "m.html"}
    assert_stands_alone(text := (tmp_path / "m.html").read_text(encoding="utf-8"))
    assert f"Predicting {target}" in text and text.count("<img") == images
    for words in ("What was learnt", "What it relies on", "left out: holds a different text", "one of 3: "):
        assert words in text
    if BROWSER is not None:
        seen = looked_at(text, tmp_path, 390, DARK)
        assert seen["reach"] <= 390 and all(pixels for pixels, _ in seen["images"])


def test_the_figures_are_those_of_the_held_out_rows(folder, tmp_path):
    """`npn evaluate` on exactly these rows prints what `npn fit` printed."""
    data, out = pd.read_csv(folder / "data.csv"), tmp_path / "m.npn"
    printed = done("fit", folder / "data.csv", "-t", "y", "--validation", 0.2, "--seed", 3, "-o", out, *BARE)
    _, held_out = tables.split(data["y"].to_numpy(), 0.2, seed=3)
    data.iloc[held_out].to_csv(tmp_path / "held_out.csv", index=False)
    judged = done("evaluate", out, tmp_path / "held_out.csv")
    assert "held_out.csv: 24 rows with a target, of 24." in judged
    names = {figure.name for figure in io.load(out).record.figures}
    table = [line for line in judged.splitlines() if line.strip().partition("  ")[0] in names]
    assert len(table) == 5 and all(line in printed for line in table)
    rows = data.iloc[np.setdiff1d(np.arange(120), held_out)]["y"]
    baseline = np.sqrt(np.mean((data.iloc[held_out]["y"] - rows.mean()) ** 2))
    assert f"{baseline:.4g}" in table[0]


@pytest.mark.parametrize("target", ["y", "count", "size"])
def test_several_members_make_one_model(folder, tmp_path, target):
    out = tmp_path / "m.npn"
    printed = done("fit", folder / "data.csv", "-t", target, "--members", 2, "-o", out, *BARE)
    assert io.load(out).estimator.n_estimators == 2
    assert ("error rate" if target == "size" else "CRPS") in printed
    done("predict", out, folder / "new.parquet", "-o", tmp_path / "out.csv")
    assert len(pd.read_csv(tmp_path / "out.csv")) == 40


def test_the_same_seed_gives_the_same_model(folder, tmp_path):
    outputs = []
    for name in ("a.npn", "b.npn"):
        done("fit", folder / "data.csv", "-t", "y", "-o", tmp_path / name, *BARE)
        outputs.append(done("predict", tmp_path / name, folder / "new.parquet"))
    assert outputs[0] == outputs[1]


def test_predictions_stand_beside_the_input(folder, tmp_path):
    text = done("predict", folder / "number.npn", folder / "new.csv", "-o", tmp_path / "out.csv", "--level", 0.8)
    assert "40 rows: " in text
    out, new = pd.read_csv(tmp_path / "out.csv"), pd.read_csv(folder / "new.csv")
    pd.testing.assert_frame_equal(out[new.columns], new)
    assert list(out.columns[-4:]) == ["y_mean", "y_std", "y_low", "y_high"]
    z = 1.2815515655446004  # of the 90% quantile
    np.testing.assert_allclose(out["y_low"], out["y_mean"] - z * out["y_std"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(out["y_high"], out["y_mean"] + z * out["y_std"], rtol=1e-5, atol=1e-5)
    assert (tmp_path / "out.csv").read_text().splitlines()[1].startswith("row 0,")  # no needless quotation marks


def test_parquet_from_csv_has_numbers(folder, tmp_path):
    done("predict", folder / "number.npn", folder / "new.csv", "-o", tmp_path / "out.parquet")
    out, new = pd.read_parquet(tmp_path / "out.parquet"), pd.read_csv(folder / "new.csv")
    pd.testing.assert_series_equal(out["x"], new["x"])
    assert out["colour"].tolist() == new["colour"].tolist()


def test_predicted_classes(folder, tmp_path):
    done("predict", folder / "class.npn", folder / "new.parquet", "-o", tmp_path / "out.parquet", "--keep", "id")
    out = pd.read_parquet(tmp_path / "out.parquet")
    probabilities = [f"size_probability_{name}" for name in ("large", "middle, or so", "small")]
    assert list(out.columns) == ["id", "size_predicted", *probabilities, "size_uncertainty"]
    np.testing.assert_allclose(out[probabilities].sum(axis=1), 1, atol=1e-6)
    best = out[probabilities].idxmax(axis=1).str.removeprefix("size_probability_")
    assert (best == out["size_predicted"]).all()
    assert out["size_uncertainty"].between(0, 1).all()


def test_predictions_do_not_depend_on_batches_formats_or_order(folder, tmp_path, monkeypatch):
    whole = done("predict", folder / "number.npn", folder / "new.csv", "--bare")
    assert whole.splitlines()[0] == "y_mean,y_std,y_low,y_high" and len(whole.splitlines()) == 41
    other = pd.read_csv(folder / "new.csv").iloc[:, ::-1].assign(more=1)
    other.to_csv(tmp_path / "other.csv", index=False)
    monkeypatch.setattr(tables.read, "_BLOCK_BYTES", 600)
    monkeypatch.setattr(tables.read, "BATCH_ROWS", 7)
    for again in (tmp_path / "other.csv", folder / "new.parquet"):
        text = done("predict", folder / "number.npn", again, "--bare")
        both = [np.array([line.split(",") for line in t.splitlines()[1:]], float) for t in (whole, text)]
        np.testing.assert_allclose(*both, rtol=1e-5, atol=1e-6)


def test_evaluate_classes_leaves_out_rows_without_a_target(folder, tmp_path):
    data = frame(50)
    data.loc[:9, "size"] = None
    data.to_csv(tmp_path / "test.csv", index=False)
    text = done("evaluate", folder / "class.npn", tmp_path / "test.csv")
    assert "test.csv: 40 rows with a target, of 50." in text
    assert "error rate" in text


def test_info(folder, tmp_path):
    text = done("info", folder / "class.npn")
    for words in (
        "TableModel",
        "Predicts size (one of 3 classes), learnt from 100 rows of data.csv.",
        "colour",
        "Brier",
    ):
        assert words in text
    io.save(npn.nn.mlp([2, 3, 1]), tmp_path / "net.npn")
    assert "Sequential" in done("info", tmp_path / "net.npn")


def test_names_are_shown_as_they_are(tmp_path):
    data = frame(40)[["x", "y"]].rename(columns={"x": "[red]x[/red] :smile:"})
    data.to_csv(tmp_path / "data.csv", index=False)
    done("fit", tmp_path / "data.csv", "-t", "y", "-o", tmp_path / "m.npn", *BARE)
    assert "[red]x[/red] :smile:" in done("info", tmp_path / "m.npn")


def test_large_files_are_sampled_and_rows_without_target_dropped(folder, tmp_path):
    data = frame(300)
    data.loc[::3, "y"] = np.nan
    data.to_csv(tmp_path / "data.csv", index=False)
    text = done("fit", tmp_path / "data.csv", "-t", "y", "--max-rows", 50, "-o", tmp_path / "m.npn", *BARE)
    assert "not used: 100 rows without a target." in text
    assert "a random sample of 50 of the 200 rows is used (--max-rows)." in text
    assert "Learning from 40 rows; 10 are held out" in text


def test_help_has_examples():
    for command in ("fit", "predict", "evaluate", "info"):
        assert "Example" in done(command, "--help") and f"  npn {command} " in done(command, "--help")


def test_data_commands(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHNPN_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text = done("data", "list")
    assert all(one.name in text for one in datasets.available())
    assert "absent" in done("data", "verify")
    assert "there is no data set 'concret'" in refused("data", "fetch", "concret")
    path = datasets.available()[0].path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"junk")
    result = run("data", "verify")
    assert result.exit_code == 1 and result.stderr.startswith(
        f"npn: not as they should be: {datasets.available()[0].name}"
    )


def test_data_that_cannot_be_fetched(monkeypatch):
    def unreachable(name, progress=None):
        raise datasets.DownloadError("The source cannot be reached.")

    monkeypatch.setattr(datasets, "fetch", unreachable)
    name = datasets.available()[0].name
    assert refused("data", "fetch", name, status=1) == "npn: The source cannot be reached."


# Mistakes -----------------------------------------------------------------------------------------------------------


def column(name: str, cells: list[object]) -> str:
    return f"x,{name}\n" + "".join(f"{i % 7},{cell}\n" for i, cell in enumerate(cells))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", ["is empty"]),
        (b"x,y\n", ["has a header and no rows"]),
        (b"x,y\n1,2\n", ["Only 1 row with a target"]),
        (b"x,y\n1,2\n1,2,3\n", ["line 3 has 3 cells, the header 2"]),
        (b"x,y,x\n1,2,3\n", ["two columns have the name 'x'"]),
        (b"x,Y\n1,2\n", ["no column 'y'", "Did you mean 'Y'?"]),
        (b"x,target\n1,2\n", ["no column 'y'", "There are: x, target."]),
        (column("y", [5] * 20).encode(), ["same in every row"]),
        (column("y", [""] * 20).encode(), ["missing in all 20 rows"]),
        (column("y", [1.5, 2, "inf", 4] * 5).encode(), ["'y'", "infinite", "row 3"]),
        (column("y", [1.5, 2, 3, 4] * 5).replace("6,", "-inf,").encode(), ["'x'", "infinite", "row 7"]),
        (column("y", [1, 2] * 10).encode("utf-16"), ["not UTF-8"]),
        (column("y", ["é", "e"] * 10).encode("latin-1"), ["not UTF-8"]),
        (b"y\n" + b"1.5\n2\n" * 10, ["No column is left to learn from"]),
    ],
)
def test_tables_that_cannot_be_fitted(tmp_path, data, words):
    (path := tmp_path / "data.csv").write_bytes(data)
    line = refused("fit", path, "-t", "y", "-o", tmp_path / "m.npn", *QUICK)
    assert all(word in line for word in words), line
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.drop(columns="x"), ["'x' is missing"]),
        (lambda f: f.rename(columns={"x": "X"}), ["'x' is missing", "Did you mean 'X'?"]),
        (lambda f: f.assign(x=["1"] * 16 + ["abc"] + ["2"] * 23), ["Column 'x'", "row 17", "'abc'"]),
        (lambda f: f.assign(x=np.where(f.index == 4, np.inf, 1.0)), ["Column 'x'", "row 5", "infinite"]),
        (lambda f: f.head(0), ["no rows"]),
        (lambda f: f.assign(y_mean=1), ["already has a column 'y_mean'", "--bare"]),
    ],
)
def test_tables_that_cannot_be_predicted(folder, tmp_path, change, words):
    change(pd.read_csv(folder / "new.csv")).to_csv(tmp_path / "new.csv", index=False)
    (out := tmp_path / "out.csv").write_text("earlier")
    line = refused("predict", folder / "number.npn", tmp_path / "new.csv", "-o", out)
    assert all(word in line for word in words), line
    assert out.read_text() == "earlier" and len(list(tmp_path.iterdir())) == 2


def test_an_error_in_a_later_batch_leaves_the_earlier_file(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tables.read, "_BLOCK_BYTES", 600)
    new = pd.read_csv(folder / "new.csv").astype({"x": object})
    new.loc[38, "x"] = "oops"
    new.to_csv(tmp_path / "new.csv", index=False)
    (out := tmp_path / "out.csv").write_text("earlier")
    assert "row 39 holds 'oops'" in refused("predict", folder / "number.npn", tmp_path / "new.csv", "-o", out)
    assert out.read_text() == "earlier" and len(list(tmp_path.iterdir())) == 2


def test_evaluate_needs_the_target(folder, tmp_path):
    assert "no column 'y' to judge by" in refused("evaluate", folder / "number.npn", folder / "new.csv")
    frame(30).assign(y=np.nan).to_csv(tmp_path / "t.csv", index=False)
    assert "missing in all 30 rows" in refused("evaluate", folder / "number.npn", tmp_path / "t.csv")
    frame(30).assign(size="huge").to_csv(tmp_path / "t.csv", index=False)
    assert "'huge' in row 1, which is none of the model's classes" in refused(
        "evaluate", folder / "class.npn", tmp_path / "t.csv"
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["fit", "none.csv", "-t", "y"], ["cannot read", "none.csv", "No such file"]),
        (["fit", ".", "-t", "y"], ["Is a directory"]),
        (["fit", "data.xlsx", "-t", "y"], ["should end in one of"]),
        (["fit", "data.csv", "-t", "y", "--drop", "coluor"], ["no column 'coluor'", "Did you mean 'colour'?"]),
        (["fit", "data.csv", "-t", "y", "--drop", "y"], ["'y' cannot be dropped"]),
        (["fit", "data.csv", "-t", "y", "--hidden", "many"], ["--hidden expects", "'many'"]),
        (["fit", "data.csv", "-t", "y", "-o", "none/m.npn"], ["cannot write none/m.npn", "No such file"]),
        (["fit", "data.csv", "-t", "y", "-o", "m.html"], ["m.html", "such as m.npn"]),
        (["fit", "data.csv", "-t", "y", "-o", "."], ["cannot write .", "Is a directory"]),
        (["fit", "data.csv", "-t", "y", "--family", "gamma"], ["'gamma' needs numbers above 0", "'y'"]),
        (["fit", "data.csv", "-t", "size", "--family", "beta"], ["'beta' needs numbers", "holds text"]),
        (["fit", "data.csv", "-t", "y", "--device", "tpu"], ["tpu"]),
        (["predict", "none.npn", "new.csv"], ["cannot read", "none.npn", "No such file"]),
        (["predict", "data.csv", "new.csv"], ["Cannot load data.csv"]),
        (["predict", ".", "new.csv"], ["Is a directory"]),
        (["predict", "net.npn", "new.csv"], ["net.npn holds a Sequential"]),
        (["predict", "number.npn", "new.csv", "--keep", "idd"], ["no column 'idd' to keep", "'id'"]),
        (["predict", "number.npn", "new.csv", "--keep", "id", "--bare"], ["--bare", "--keep"]),
        (["predict", "number.npn", "new.csv", "-o", "out.txt"], ["should end in one of"]),
        (["predict", "number.npn", "new.csv", "-o", "none/out.csv"], ["cannot write none/out.csv", "No such file"]),
        (["info", "data.csv"], ["Cannot load data.csv"]),
    ],
)
def test_wrong_arguments(folder, monkeypatch, args, words):
    monkeypatch.chdir(folder)
    if not (folder / "net.npn").exists():
        io.save(npn.nn.mlp([2, 3, 1]), folder / "net.npn")
    line = refused(*args)
    assert all(word in line for word in words), line


def test_usage_errors_of_the_shell():
    for args in (["nonsense"], ["fit"], ["fit", "data.csv"], ["fit", "data.csv", "-t", "y", "--family", "cauchy"]):
        result = run(*args)
        assert result.exit_code == 2 and "Traceback" not in result.output


@pytest.mark.skipif(IS_ROOT, reason="root may read and write anywhere")
def test_without_permission(folder, tmp_path):
    (path := tmp_path / "data.csv").write_text("x,y\n1,2\n")
    path.chmod(0)
    assert "Permission denied" in refused("fit", path, "-t", "y", "-o", tmp_path / "m.npn")
    (closed := tmp_path / "closed").mkdir(mode=0o500)
    for args in (["fit", folder / "data.csv", "-t", "y"], ["predict", folder / "number.npn", folder / "new.csv"]):
        assert "Permission denied" in refused(*args, "-o", closed / "out.csv")


@pytest.mark.parametrize(
    ("number", "words", "status"),
    [(errno.EACCES, "Permission denied", 2), (errno.ENOSPC, "No space left on device", 1)],
)
def test_what_the_file_system_refuses(folder, tmp_path, monkeypatch, number, words, status):
    """The same for root, who has all permissions, and on a disk that has room."""

    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "replace", refuse)
    monkeypatch.setattr(os, "replace", refuse)
    out = tmp_path / "out.csv"
    line = refused("predict", folder / "number.npn", folder / "new.csv", "-o", out, status=status)
    assert line == f"npn: cannot write {out}: {words}."
    line = refused("fit", folder / "data.csv", "-t", "y", "-o", out, *BARE, status=status)
    assert f"cannot write {out}" in line and words in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
def test_a_full_disk(folder, tmp_path):
    (full := tmp_path / "full.csv").symlink_to("/dev/full")
    line = refused("predict", folder / "number.npn", folder / "new.csv", "-o", full, status=1)
    assert line == f"npn: cannot write {full}: No space left on device."


def test_too_little_memory(folder, tmp_path, monkeypatch):
    def hungry(*_, **__):
        raise MemoryError

    monkeypatch.setattr(tables, "load", hungry)
    assert "--max-rows" in refused("fit", folder / "data.csv", "-t", "y", "-o", tmp_path / "m.npn", status=1)


# As a process -------------------------------------------------------------------------------------------------------


@contextmanager
def npn_process(*args: object) -> Iterator[subprocess.Popen[str]]:
    """The command on its own; it can be interrupted even where the tests run in the background, and cannot."""
    command = [sys.executable, "-m", "torchnpn.cli", *map(str, args)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    listen = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, preexec_fn=listen, **pipes) as process:
        yield process


@pytest.mark.slow
def test_a_pipe_gets_rows_alone_and_may_close(folder, tmp_path):
    """No bars in a pipe; `npn predict … | head` ends without a word."""
    pd.concat([pd.read_csv(folder / "new.csv")] * 2500).to_csv(tmp_path / "big.csv", index=False)
    with npn_process("predict", folder / "number.npn", tmp_path / "big.csv") as process:
        assert process.stdout.readline().startswith("id,x,colour,")
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 1


@pytest.mark.slow
def test_an_interrupt_is_one_line_and_leaves_nothing(folder, tmp_path):
    with npn_process("fit", folder / "data.csv", "-t", "y", "--epochs", 10**6, "-o", tmp_path / "m.npn") as process:
        while not process.stdout.readline().startswith("Learning"):
            pass
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "npn: stopped. No file was left half-written.\n"
        assert process.wait(timeout=60) in (130, -signal.SIGINT)  # a shell shows 130 for both
    assert list(tmp_path.iterdir()) == []
