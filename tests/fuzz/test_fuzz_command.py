"""Any arguments and any file: the command ends with status 0 or 2, and an error is one line."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from support.commands import BARE, done, filled, run
from support.fuzzing import generator, rounds

OPTIONS = (
    *("--family", "--hidden", "--epochs", "--members", "--validation", "--max-rows", "--seed", "--device", "--drop"),
    *("--use", "--na", "--decimal", "--out", "--target", "--level", "--keep", "--top", "--nonsense"),
)
VALUES = (
    *("0", "1", "-1", "2", "0.5", "nan", "inf", "-inf", "1e400", "1e-400", "", " ", "x", "y", "colour", "id", "="),
    *("class", "gamma", "beta", "poisson", "auto", "cpu", "meta", "cuda", "cuda:999", "mps", ",", ".", ";", "-"),
    *("9" * 5000, str(2**32), str(2**63), str(10**12), "5," * 199 + "5", "4,4", "1,,2", "１２", "0x10", "1_000"),
    *("\x1b[31m", "a\nb", "\u202e", "'; DROP", "../..", "/", "/dev/null", "new.csv", "data.csv", "m.html", "é" * 300),
    *("\ud800", "true", "None"),
)
CELLS = (
    *("", "0", "1", "-1", "3.5", "1e5", "1e39", "-1e39", "1e300", "1e-300", "inf", "-inf", "nan", "NA", "n.a.", "-"),
    *("1,5", "1.234,56", "1 234", "$5", "5 €", "15%", "(3)", "abc", "äöü", "=1+1", "@x", "+", '"', '""', "a\nb"),
    *("2020-01-01", "01.02.2020", "True", "x" * 500, "\u00a0", "9" * 400, "0.1", "0.9", "2", "7", "red", "green"),
    *("?", "\x1b[0m"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return filled(tmp_path_factory.mktemp("fuzz"))


def check(*args: object, **kwargs: object) -> int:
    """Status 0 or 2 (1 where the machine is to blame), no traceback, and an error is one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = run(*args, **kwargs)
    assert result.exception is None or isinstance(result.exception, SystemExit), (args, repr(result.exception))
    assert result.exit_code in (0, 2), (args, result.exit_code, result.stderr)
    assert "Traceback" not in result.output and "unexpected" not in result.stderr, (args, result.stderr)
    assert "\x1b" not in result.output, args
    lines = result.stderr.splitlines()
    assert all(line.startswith("npn: ") and len(line) < 1_100 for line in lines), (args, lines)
    errors = [line for line in lines if not line.startswith("npn: note")]
    assert len(errors) == (result.exit_code == 2), (args, lines)
    return result.exit_code


def some(rng: np.random.Generator, values: tuple, most: int) -> list:
    return [values[i] for i in rng.integers(len(values), size=rng.integers(most + 1))]


@pytest.mark.slow
def test_any_arguments(folder, tmp_path, monkeypatch, record_property):
    rng, tries = generator("arguments"), rounds(60)
    monkeypatch.chdir(tmp_path)
    for name in ("data.csv", "new.csv", "number.npn", "class.npn"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    for _ in range(tries):
        command = rng.choice(["fit", "predict", "evaluate", "info"])
        args = [command]
        if command == "fit":
            args += ["data.csv", "-t", "y", *BARE] if rng.random() < 0.9 else some(rng, VALUES, 3)
        else:
            args += [rng.choice(["number.npn", "class.npn", "data.csv"])]
            args += [] if command == "info" else [rng.choice(["new.csv", "data.csv", "number.npn"])]
        for option in some(rng, OPTIONS, 3):
            args += [option, VALUES[rng.integers(len(VALUES))]]
        check(*args)
    record_property("inputs", tries)


@pytest.mark.slow
def test_any_table(folder, tmp_path, record_property):
    rng, tries = generator("tables"), rounds(60)
    for i in range(tries):
        rows, columns = int(rng.integers(0, 40)), int(rng.integers(1, 5))
        kinds = [list(dict.fromkeys(some(rng, CELLS, 6))) or ["1", "2"] for _ in range(columns)]
        names = [f"c{k}" if rng.random() < 0.9 else rng.choice(CELLS) for k in range(columns - 1)] + ["y"]
        delimiter, end = rng.choice([",", ";", "\t", "|"]), rng.choice(["\n", "\r\n", "\r"])
        lines = [delimiter.join(map(quoted, names))]
        for _ in range(rows):
            cells = [rng.choice(kind) for kind in kinds]
            lines.append(delimiter.join(map(quoted, cells[: len(cells) - int(rng.random() < 0.002)])))
        data = end.join([*lines, ""]).encode(rng.choice(["utf-8", "utf-8-sig", "utf-16", "cp1252"]), "replace")
        if rng.random() < 0.1:
            data = bytes(rng.permutation(np.frombuffer(data, np.uint8)))
        (path := tmp_path / "t.csv").write_bytes(data)
        out = tmp_path / f"{i}.npn"
        if check("fit", path, "-t", "y", "-o", out, *BARE) == 0:
            assert (
                check("predict", out, path, "-o", tmp_path / "p.csv", *(["--raw"] if rng.random() < 0.3 else [])) == 0
            )
            assert check("info", out) == 0
            check("evaluate", out, path)
        check("predict", folder / "number.npn", path)
    record_property("inputs", 2 * tries)


def quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if set(cell) & set('",;\t|\n\r') else cell


TYPES = (
    pa.binary(),
    pa.large_binary(),
    pa.string_view(),
    pa.large_string(),
    pa.decimal128(10, 2),
    pa.timestamp("us", "UTC"),
    pa.date32(),
    pa.time64("us"),
    pa.duration("s"),
    pa.list_(pa.int64()),
    pa.struct([("a", pa.int64())]),
    pa.map_(pa.string(), pa.int64()),
    pa.dictionary(pa.int8(), pa.string()),
    pa.bool_(),
    pa.float16(),
    pa.null(),
    pa.uint64(),
    pa.binary(3),
)


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_any_type_of_parquet(folder, tmp_path, kind):
    """As a column that is carried along to CSV and Parquet, and as one to learn from."""
    values = {"binary": [b"a\xff", b"\x00b"], "fixed_size_binary[3]": [b"abc", b"x\xffz"]}.get(str(kind), [None, None])
    column = pa.array([*values, None] * 10, kind)
    rows = pa.table({"x": pa.array(range(30), pa.float64()), "colour": ["red", "blue", "green"] * 10, "odd": column})
    pa.parquet.write_table(rows, tmp_path / "t.parquet")
    predict = ["predict", folder / "number.npn", tmp_path / "t.parquet", "-o"]
    status = [check(*predict, tmp_path / f"o.{ending}") for ending in ("csv", "parquet")]
    assert status[1] == 0
    check("fit", tmp_path / "t.parquet", "-t", "x", "-o", tmp_path / "m.npn", *BARE)
    check("fit", tmp_path / "t.parquet", "-t", "odd", "-o", tmp_path / "m.npn", *BARE)


def test_nothing_in_a_table_runs_or_steers_the_terminal(tmp_path):
    names = ["=cmd()", "x", "\x1b[31mred\x1b[0m", "y"]
    cells = ["=1+cmd|' /C calc'!A0", "@SUM(1)", "+1 555", "-2,5", "-", "\x1b[2J", "plain", "\u202eevil"]
    lines = [f"{cells[i % 8]};{i * 7 % 13};{cells[(i + 1) % 8]};{i % 5}.5" for i in range(40)]
    (path := tmp_path / "t.csv").write_text("\n".join([";".join(names), *lines]) + "\n")
    printed = done("fit", path, "-t", "y", "-o", tmp_path / "m.npn", *BARE) + done("info", tmp_path / "m.npn")
    assert "\x1b" not in printed and "\u202e" not in printed and "\\x1b[31mred" in printed
    text = done("predict", tmp_path / "m.npn", path)
    assert "\x1b" not in text and text.startswith("'=cmd(),x,\\x1b[31mred\\x1b[0m,y,")
    rows = {line.split(",")[0].strip('"') for line in text.splitlines()[1:]}
    assert {"'=1+cmd|' /C calc'!A0", "'@SUM(1)", "+1 555", "-", "\\x1b[2J", "plain"} <= rows
    raw = done("predict", tmp_path / "m.npn", path, "--raw")
    assert "\x1b[2J" in raw and '\n"@SUM(1)"' in raw
