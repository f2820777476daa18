"""One clear line of the `npn` command for every mistake, closed pipe and interrupt, and no file half-written."""

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
from support.commands import BARE, QUICK, filled, frame, refused, run

import torchnpn as npn
from torchnpn import io, table_files, tables

WITH_PACKAGE = {**os.environ, "PYTHONPATH": str(Path(npn.__file__).parent.parent)}
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return filled(tmp_path_factory.mktemp("cli"))


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
        (b"x y\n1 2\n", ["no column 'y'", "There are: x y.", "separated by commas"]),
        (b"x,target\n1,2\n", ["no column 'y'", "There are: x, target."]),
        (column("y", [5] * 20).encode(), ["same in every row"]),
        (column("y", [""] * 20).encode(), ["missing in all 20 rows"]),
        (column("y", [1.5, 2, "inf", 4] * 5).encode(), ["'y'", "infinite", "row 3"]),
        (column("y", [1.5, 2, 3, 4] * 5).replace("6,", "-inf,").encode(), ["'x'", "infinite", "row 7"]),
        (b"x,y\n1,\x00\n", ["zero bytes", "not a text file"]),
        (column("y", [1e300, 2e300] * 10).encode(), ["'y'", "up to 2e+300", "Divide"]),
        (column("y", [1e-300, 2e-300, 3e-300] * 10).encode(), ["'y'", "Multiply"]),
        (column("y", [f"room {i}" for i in range(60)]).encode(), ["60 different texts", "--family class"]),
        (column("y", [f"{i:03d}" for i in range(60)]).encode(), ["such as '000'", "--family gaussian"]),
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
    monkeypatch.setattr(table_files.read, "_BLOCK_BYTES", 600)
    new = pd.read_csv(folder / "new.csv").astype({"x": object})
    new.loc[38, "x"] = "oops"
    new.to_csv(tmp_path / "new.csv", index=False)
    (out := tmp_path / "out.csv").write_text("earlier")
    assert "row 39 holds 'oops'" in refused("predict", folder / "number.npn", tmp_path / "new.csv", "-o", out)
    assert out.read_text() == "earlier" and len(list(tmp_path.iterdir())) == 2


def test_evaluate_needs_the_target(folder, tmp_path):
    assert "no column 'y' to compare" in refused("evaluate", folder / "number.npn", folder / "new.csv")
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
        (["fit", ".", "-t", "y"], ["cannot be used", "--on-bad skip"]),
        (["fit", "data.xlsx", "-t", "y"], ["cannot read", "No such file"]),
        (["fit", "data.json", "-t", "y"], ["should end in one of"]),
        (["fit", "data.csv", "-t", "y", "--drop", "coluor"], ["no column 'coluor'", "Did you mean 'colour'?"]),
        (["fit", "data.csv", "-t", "y", "--drop", "y"], ["'y' cannot be dropped"]),
        (["fit", "data.csv", "-t", "y", "--hidden", "many"], ["--hidden expects", "'many'"]),
        (["fit", "data.csv", "-t", "y", "-o", "none/m.npn"], ["cannot write none/m.npn", "No such file"]),
        (["fit", "data.csv", "-t", "y", "-o", "m.html"], ["m.html", "such as m.npn"]),
        (["fit", "data.csv", "-t", "y", "-o", "new.csv"], ["named like a table", "such as new.npn"]),
        (["fit", "data.csv", "-t", "y", "-o", "."], ["cannot write .", "Is a directory"]),
        (["fit", "data.csv", "-t", "y", "--family", "gamma"], ["'gamma' needs numbers above 0", "'y'"]),
        (["fit", "data.csv", "-t", "y", "--family", "lognormal"], ["'lognormal' needs numbers above 0", "'y'"]),
        (["fit", "data.csv", "-t", "size", "--family", "beta"], ["'beta' needs numbers", "holds text"]),
        (["fit", "data.csv", "-t", "y", "--device", "tpu"], ["tpu"]),
        (["predict", "none.npn", "new.csv"], ["npn: cannot read none.npn: No such file or directory."]),
        (["info", "none.npn"], ["npn: cannot read none.npn: No such file or directory."]),
        (["predict", "new.csv", "number.npn"], ["new.csv is named like a table. The model comes first"]),
        (["evaluate", "new.csv", "number.npn"], ["new.csv is named like a table. The model comes first"]),
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


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["fitt"], ["no such command 'fitt'", "Did you mean 'fit'?"]),
        (["fit"], ["missing argument", "Try: npn fit --help"]),
        (["fit", "data.csv"], ["missing option", "--target"]),
        (["fit", "data.csv", "-t", "y", "--family", "cauchy"], ["--family", "cauchy", "one of auto, class, beta,"]),
        (["fit", "data.csv", "-t", "y", "--hiden", "3"], ["no such option: --hiden", "Did you mean --hidden?"]),
        (["fit", "data.csv", "-t", "y", "--hidden", "9" * 5000], ["--hidden expects at most"]),
        (["fit", "data.csv", "-t", "y", "--hidden", "100000000"], ["--hidden expects at most"]),
        (["fit", "data.csv", "-t", "y", "--hidden", "9999,9999"], ["weights", "smaller --hidden"]),
        (["fit", "data.csv", "-t", "y", "--hidden", ",".join(["4"] * 200)], ["at most 20 layers, got 200"]),
        (["fit", "data.csv", "-t", "y", "--seed", str(2**32)], ["--seed"]),
        (["fit", "data.csv", "-t", "y", "--seed", "9" * 5000], ["--seed"]),
        (["fit", "data.csv", "-t", "y", "--members", "1000000000"], ["--members"]),
        (["fit", "data.csv", "-t", "y", "--device", "meta"], ["--device expects auto, cpu, cuda"]),
        (["fit", "data.csv", "-t", "y", "--validation", "nan"], ["--validation"]),
        (["fit", "data.csv", "-t", "y", "-o", "data.csv"], ["would replace the input"]),
        (["fit", "missing.parquet", "-t", "y"], ["cannot read missing.parquet: No such file"]),
        (["predict", "number.npn", "new.csv", "-o", "new.csv"], ["would replace the input"]),
        (["predict", "number.npn", "missing.parquet"], ["cannot read missing.parquet: No such file"]),
        (["predict", "number.npn", "new.csv", "--level", "nan"], ["--level"]),
        (["fit", "/dev/null", "-t", "y"], ["is a device or a pipe"]),
        (["fit", "data.csv", "-t", "y", "--use", "x", "--drop", "x"], ["--drop and --use both name 'x'"]),
    ],
    ids=lambda value: " ".join(value)[:60],
)
def test_usage_errors_are_one_line_too(folder, monkeypatch, args, words):
    monkeypatch.chdir(folder)
    line = refused(*args)
    assert all(word in line for word in words) and len(line) < 1_100, line


def test_an_unexpected_error_is_one_line_and_can_be_traced(folder, monkeypatch):
    def broken(*_, **__):
        raise KeyError("\x1b[31msurprise")

    monkeypatch.setattr(table_files, "open_table", broken)
    line = refused("predict", folder / "number.npn", folder / "new.csv")
    assert "unexpected KeyError" in line and "NPN_TRACEBACK=1" in line and "\x1b" not in line
    monkeypatch.setenv("NPN_TRACEBACK", "1")
    assert isinstance(run("predict", folder / "number.npn", folder / "new.csv").exception, KeyError)


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
    out = tmp_path / "out.npn"
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

    monkeypatch.setattr(tables, "read_data", hungry)
    assert "--max-rows" in refused("fit", folder / "data.csv", "-t", "y", "-o", tmp_path / "m.npn")


# As a process -------------------------------------------------------------------------------------------------------


@contextmanager
def npn_process(*args: object, **options: object) -> Iterator[subprocess.Popen[str]]:
    """The command on its own; it can be interrupted even where the tests run in the background, and cannot."""
    command = [sys.executable, "-m", "torchnpn", *map(str, args)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": WITH_PACKAGE, **options}
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
        assert process.wait() == 1


@pytest.mark.slow
def test_an_interrupt_is_one_line_and_leaves_nothing(folder, tmp_path):
    with npn_process("fit", folder / "data.csv", "-t", "y", "--epochs", 10**5, "-o", tmp_path / "m.npn") as process:
        while not process.stdout.readline().startswith("Learning"):
            pass
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "npn: stopped. No file was left half-written.\n"
        assert process.wait() in (130, -signal.SIGINT)  # a shell shows 130 for both
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_table_from_a_pipe_leaves_no_temporary_file(folder, tmp_path, number):
    (temporary := tmp_path / "temporary").mkdir()
    args = ["fit", "-", "-t", "y", "--epochs", 10**5, "-o", tmp_path / "m.npn"]
    around = {"env": {**WITH_PACKAGE, "TMPDIR": str(temporary)}}
    with open(folder / "data.csv") as table, npn_process(*args, stdin=table, **around) as process:
        assert process.stdout.readline().startswith("standard input: 120 rows")
        assert len(list(temporary.iterdir())) == 1
        process.send_signal(number)
        assert process.stderr.read().startswith("npn: stopped")
        assert process.wait() == 128 + number
    assert list(temporary.iterdir()) == [] and list(tmp_path.iterdir()) == [temporary]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shell", "status", "words"),
    [
        ("PYTHONIOENCODING=ascii npn info class.npn", 0, "Predicts size"),
        ("npn info class.npn >&-", 0, ""),
        ("npn info class.npn >&- 2>&-", 0, ""),
        ("npn predict class.npn new.parquet <&- >&- 2>&-", 0, ""),
        ("npn predict class.npn new.parquet > /dev/full", 1, "npn: cannot write the output: No space left on device."),
        ("npn --help > /dev/full", 1, "npn: cannot write the output: No space left on device."),
    ],
)
def test_streams_that_are_closed_full_or_ascii(folder, shell, status, words):
    if "/dev/full" in shell and not Path("/dev/full").exists():
        pytest.skip("no such device")
    command = shell.replace("npn ", f"{sys.executable} -m torchnpn ", 1)
    result = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, env=WITH_PACKAGE)
    assert result.returncode == status, result.stderr
    assert words in result.stdout + result.stderr and "Traceback" not in result.stderr


@pytest.mark.slow
def test_help_needs_no_torch():
    code = (
        "import sys; from typer.testing import CliRunner; from torchnpn.cli import app as cli\n"
        "run = lambda *args: CliRunner().invoke(cli.app, args).exit_code\n"
        "codes = [run('--help'), run('fit', '--help'), run('none'), run('fit', 'a.csv', '-t', 'y', '--hidden', 'x')]\n"
        "print(codes, [name for name in ('torch', 'sklearn', 'pyarrow', 'matplotlib') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=WITH_PACKAGE, check=True)
    assert result.stdout == "[0, 0, 2, 2] []\n"
