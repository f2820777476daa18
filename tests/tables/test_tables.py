"""Files become arrays and predictions become files: what is read is what is there, whatever the format."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from torchnpn import table_files, tables
from torchnpn.columns import MOST_LEVELS, Category, Date, Number
from torchnpn.table_files import TableError, read

RNG = np.random.default_rng(0)


def written(folder: Path, text: str | bytes, name: str = "data.csv") -> table_files.Table:
    (path := folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return table_files.open_table(path)


def content(table: table_files.Table) -> dict[str, list]:
    return pa.Table.from_batches(table.batches()).to_pydict()


# Reading ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", b"x,y\n1,u\n2,v\n"),
        ("a.csv", b"x,y\r\n1,u\r\n2,v"),
        ("a.csv", b"\xef\xbb\xbfx,y\n1,u\n\n2,v\n"),
        ("a.csv", b'"x";"y"\n1;u\n"2";v\n'),
        ("a.tsv", b"x\ty\n1\tu\n2\tv\n"),
        ("A.CSV.gz", gzip.compress(b"x,y\n1,u\n2,v\n", mtime=0)),
    ],
)
def test_ways_to_write_a_table(tmp_path, name, data):
    assert content(written(tmp_path, data, name)) == {"x": ["1", "2"], "y": ["u", "v"]}


def test_quoted_cells_hold_anything(tmp_path):
    table = written(tmp_path, 'x,"a, b"\n"1\n2","say ""so"""\n')
    assert content(table) == {"x": ["1\n2"], "a, b": ['say "so"']}


LINES = b"".join(b"%d,%d\n" % tuple(pair) for pair in RNG.integers(0, 10**6, (50_000, 2)))
GZIPPED = gzip.compress(b"x,y\n" + LINES, mtime=0)  # without the time, or two workers would collect different tests


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.csv", b"", ["is empty", "names of the columns"]),
        ("a.csv", b"\n\n", ["is empty"]),
        ("a.csv", b"x,y\n", ["has a header and no rows"]),
        ("a.csv", b"x,y", ["has a header and no rows"]),
        ("a.csv", b"x,y\n1,2\n3,4,5\n", ["line 3 has 3 cells, the header 2"]),
        ("a.csv", b"x,y\n1,\0\n", ["zero bytes"]),
        ("a.csv", "x,y\n1,2\n".encode("utf-16")[:-1], ["known encoding"]),
        ("a.csv", b"x,y,x\n1,2,3\n", ["two columns have the name 'x'"]),
        ("a.csv.gz", b"x,y\n1,2\n", ["not a whole gzip file"]),
        ("a.csv.gz", GZIPPED[:-2000], ["not a whole gzip file"]),
        ("a.csv.gz", GZIPPED[:20], ["not a whole gzip file"]),
        ("a.parquet", b"x,y\n1,2\n", ["not a whole Parquet file"]),
        ("a.parquet", b"", ["not a whole Parquet file"]),
        ("a.xls", b"x,y\n1,2\n", ["Save it as .xlsx or .csv"]),
        ("a.json", b"{}", ["should end in one of", ".parquet"]),
    ],
)
def test_bad_files_say_what_is_wrong(tmp_path, name, data, words):
    with pytest.raises(TableError) as caught:
        content(written(tmp_path, data, name))
    assert all(word in str(caught.value) for word in [name, *words])
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        table_files.open_table(tmp_path / "none.csv")
    with pytest.raises(IsADirectoryError):
        table_files.open_table(tmp_path)


def test_missing_cells_are_recognised():
    words = ["", "\u00a0", "NA", "n.a.", "NaN", "#DIV/0!", "None", "?", "0", "nano", " x "]
    assert table_files.cells(pa.array(words)).to_pylist() == [None] * 8 + ["0", "nano", "x"]


def test_parquet_types(tmp_path):
    table = pa.table(
        {
            "int": pa.array([1, None], pa.int8()),
            "float": pa.array([1.5, math.nan], pa.float32()),
            "decimal": pa.array([1, 2], pa.decimal128(5, 2)),
            "flag": [True, None],
            "coded": pa.array(["u", "v"]).dictionary_encode(),
            "void": pa.nulls(2),
            "moment": pa.array([0, 1], pa.timestamp("s")),
            "day": pa.array([0, 1], pa.date32()),
            "time": pa.array([0, 1], pa.time32("s")),
            "list": [[1], [2]],
        }
    )
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    (batch,) = table_files.open_table(tmp_path / "a.parquet").batches()
    found = {name: table_files.cells(batch[name]) for name in batch.schema.names}
    assert {name: None if cells is None else cells.to_pylist() for name, cells in found.items()} == {
        "int": [1.0, None],
        "float": [1.5, None],
        "decimal": [1.0, 2.0],
        "flag": ["True", None],
        "coded": ["u", "v"],
        "void": [None, None],
        "moment": ["1970-01-01 00:00:00.000", "1970-01-01 00:00:01.000"],
        "day": ["1970-01-01", "1970-01-02"],
        "time": None,
        "list": None,
    }


def test_progress_ends_at_one(tmp_path, monkeypatch):
    monkeypatch.setattr(read, "_BLOCK_BYTES", 200)
    shares: list[float] = []
    table = written(tmp_path, "x,y\n" + "1,2\n" * 1000)
    assert sum(batch.num_rows for batch in table.batches(shares.append)) == 1000
    assert len(shares) > 5 and shares == sorted(shares) and shares[-1] == 1.0


# Columns ------------------------------------------------------------------------------------------------------------


def test_types_are_those_of_the_whole_file(tmp_path, monkeypatch):
    """Text in the last of many blocks makes the column text, with all its values; a single word among numbers not."""
    monkeypatch.setattr(read, "_BLOCK_BYTES", 200)
    table = written(tmp_path, "x,y,z\n" + "1,2,0\n" * 500 + "1,two,1\n" + "1,3,two\n" * 29)
    found = table_files.survey(table)
    assert found.rows == 530
    assert found.columns["x"].is_number and found.columns["x"].is_constant
    z = found.columns["z"]
    assert not z.is_number and z.first_text == (502, "two")
    assert z.counts == {"0": 500, "1": 1, "two": 29}
    y = found.columns["y"]
    assert y.is_number and y.filled == 529 and (y.low, y.high) == (2, 3)
    assert table_files.notes(found) == ["y: 'two' among numbers taken as missing."]


def test_columns_left_out_are_named_with_a_reason(tmp_path):
    spoilt = [f"oops {i}" if i > 89 else i / 7 for i in range(100)]
    rows = [
        f"{i * i},{'uvw'[i % 3]},7,,0{i % 9 + 1}/03/2020,id {i},{spoilt[i]},{i % 2},{i},{i + 7}" for i in range(100)
    ]
    table = written(tmp_path, "amount,text,same,empty,date,name,spoilt,y,,Policy_ID\n" + "\n".join(rows))
    survey = table_files.survey(table)
    found, left_out = tables.find_schema(survey, "y")
    assert found.names == ("amount", "text")
    reasons = dict(left_out)
    assert list(reasons) == ["same", "empty", "date", "name", "spoilt", "column 9", "Policy_ID"]
    assert "one value" in reasons["same"] and "empty" in reasons["empty"] and "month first" in reasons["date"]
    assert "every row" in reasons["name"] and "row 91: 'oops 90'" in reasons["spoilt"]
    assert "numbers the rows from 0 to 99" in reasons["column 9"] and "identifier" in reasons["Policy_ID"]
    found, left_out = tables.find_schema(survey, "y", use=["Policy_ID"])
    assert found.names == ("amount", "text", "Policy_ID") and "Policy_ID" not in dict(left_out)


def test_nothing_left_to_learn_from(tmp_path):
    with pytest.raises(TableError, match="No column is left to learn from: 'x' holds one value only"):
        tables.find_schema(table_files.survey(written(tmp_path, "x,y\n1,2\n1,3\n")), "y")


def test_categories_are_one_hot_by_frequency(tmp_path):
    cells = ["b"] * 5 + ["a"] * 5 + ["c"] * 7 + [""]
    found, _ = tables.find_schema(
        table_files.survey(written(tmp_path, "x,y\n" + "".join(f"{x},1\n" for x in cells))), "y"
    )
    assert found.columns == (Category("x", ("c", "a", "b")),)
    encoded = found.encode(pa.RecordBatch.from_pydict({"x": ["a", "c", None, "new"]}))
    np.testing.assert_array_equal(encoded, [[0, 1, 0], [1, 0, 0], [np.nan] * 3, [np.nan] * 3])


def test_two_values_make_one_input():
    column = Category("x", ("False", "True"))
    flags = pa.RecordBatch.from_pydict({"x": pa.array([True, False, None])})
    np.testing.assert_array_equal(tables.Schema((column,)).encode(flags), [[0], [1], [np.nan]])


def test_rare_and_new_categories_are_other(tmp_path):
    cells = [f"v{i}" for i in range(300)] * 2 + ["v7"] * 5
    found, _ = tables.find_schema(
        table_files.survey(written(tmp_path, "x,y\n" + "".join(f"{x},1\n" for x in cells))), "y"
    )
    (column,) = found.columns
    assert len(column.values) == MOST_LEVELS and column.values[0] == "v7" and column.has_other
    encoded = found.encode(pa.RecordBatch.from_pydict({"x": ["v99", "unheard of", None, "v7"]}))
    np.testing.assert_array_equal(encoded[:2], np.eye(MOST_LEVELS + 1)[[MOST_LEVELS, MOST_LEVELS]])
    assert np.isnan(encoded[2]).all()
    np.testing.assert_array_equal(encoded[3], np.eye(MOST_LEVELS + 1)[0])


@pytest.mark.parametrize(
    ("write", "order"),
    [("%Y-%m-%d", "ymd"), ("%d.%m.%Y", "dmy"), ("%m/%d/%Y %I:%M %p", "mdy"), ("%Y-%m-%d %H:%M", "ymd")],
)
def test_dates_are_read_however_they_are_written(tmp_path, write, order):
    """The days, and the season that three years of them have."""
    dates = np.datetime64("2020-01-01") + RNG.integers(0, 1000, 200)
    cells = [day.strftime(write) for day in dates.tolist()]
    table = written(tmp_path, "when,y\n" + "".join(f"{cell},{i}\n" for i, cell in enumerate(cells)))
    found, left_out = tables.find_schema(table_files.survey(table), "y")
    assert left_out == [] and found.columns[0] == Date(
        "when", found.columns[0].origin, ("year", "week"), "local", order
    )
    (batch,) = table.batches()
    X = found.encode(batch)
    np.testing.assert_allclose(X[:, 0] + found.columns[0].origin, dates.astype(int), atol=1e-3)
    with pytest.raises(TableError, match=r"'when' should hold dates; row 8 holds 'soon'. Correct the cell"):
        found.encode(pa.RecordBatch.from_pydict({"when": [cells[0], "soon"]}), first_row=7)
    assert tables.Schema.from_state(found.state()) == found


def test_dates_of_parquet_files(tmp_path):
    moments = pa.array(range(0, 10**8, 10**5), pa.timestamp("s", "Europe/Berlin"))
    pa.parquet.write_table(pa.table({"when": moments, "y": range(len(moments))}), tmp_path / "a.parquet")
    table = table_files.open_table(tmp_path / "a.parquet")
    found, left_out = tables.find_schema(table_files.survey(table), "y")
    (batch,) = table.batches()
    X = found.encode(batch)
    assert left_out[0].name == "y" if left_out else True
    np.testing.assert_allclose(X[:, 0] + found.columns[0].origin, np.arange(0, 10**8, 10**5) / 86_400, atol=1e-3)
    assert found.columns[0].clock == "utc" and found.columns[0].periods == ("year", "week", "day")


def test_a_long_file_of_dates_is_covered_to_its_end(tmp_path):
    """More different dates than are counted: the last one counts too."""
    moments = np.arange("2020-01-01", "2022-01-01", np.timedelta64(1, "h"), "datetime64[m]")
    table = written(tmp_path, "when,y\n" + "".join(f"{moment},{i % 7}\n" for i, moment in enumerate(moments)))
    found, _ = tables.find_schema(table_files.survey(table), "y")
    assert found.columns[0].origin == pytest.approx(np.mean(moments.astype(int)[[0, -1]]) / 1440, abs=0.01)


def test_large_numbers_keep_their_differences(tmp_path):
    """Seconds since 1970 in float32 would be whole minutes."""
    times = 1.7e9 + RNG.integers(0, 10_000, 50)
    table = written(tmp_path, "t,y\n" + "".join(f"{t:.0f},{i}\n" for i, t in enumerate(times)))
    found, _ = tables.find_schema(table_files.survey(table), "y")
    (batch,) = table.batches()
    np.testing.assert_allclose(np.diff(found.encode(batch)[:, 0]), np.diff(times), atol=1e-2)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["1", "2", "three"], "Column 'x' should hold numbers; row 13 holds 'three'"),
        (["1", "inf"], "infinite number in row 12"),
        (["1", "1e300"], "beyond 3e38 in row 12"),
    ],
)
def test_wrong_cells_are_named_by_column_and_row(cells, words):
    numbers = tables.Schema((Number("x", 0.0),))
    with pytest.raises(TableError, match=words):
        numbers.encode(pa.RecordBatch.from_pydict({"x": cells}), first_row=11)


def test_a_missing_column_is_named():
    wanted = tables.Schema((Number("age", 0.0), Number("height", 0.0)))
    with pytest.raises(TableError, match=r"'height' is missing.*'Height'"):
        wanted.check(["Height", "age", "more"])
    with pytest.raises(TableError, match="'age' and 1 more"):
        wanted.check(["x"])
    wanted.check(["more", "height", "age"])


SCHEMA = tables.Schema((Number("x", 1.5), Category("z", ("u", "v", "w"), has_other=True)))


def test_schema_survives_its_state():
    assert tables.Schema.from_state(SCHEMA.state()) == SCHEMA
    assert SCHEMA.groups == {"x": slice(0, 1), "z": slice(1, 5)}


@pytest.mark.parametrize(
    "state",
    [
        None,
        [],
        {},
        [{"number": "x"}],
        [{"number": 3, "origin": 0.0}],
        [{"number": "x", "origin": math.nan}],
        [{"number": "x", "origin": 0.0, "more": 1}],
        [{"number": "x", "origin": 0.0, "range": [2.0, 1.0]}],
        [{"number": "x", "origin": 0.0, "range": [0.0, math.inf]}],
        [{"number": "x", "origin": 0.0, "range": [0, 10**400]}],
        [{"number": "x", "origin": 0.0}] * 2,
        [{"category": "x", "values": ["a", 1], "has_other": False}],
        [{"category": "x", "values": ["a", "a"], "has_other": False}],
        [{"category": "x", "values": [f"{i}" for i in range(MOST_LEVELS + 1)], "has_other": False}],
        [{"category": "x", "values": ["a", "b"], "has_other": 1}],
    ],
)
def test_a_schema_from_a_stranger_is_checked(state):
    with pytest.raises(ValueError, match=r"(?i)schema|column|notation"):
        tables.Schema.from_state(state)
