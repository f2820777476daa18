"""Tables as people write them: every number, word and letter is read as a person would read it."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pyarrow as pa
import pytest
from support.written_tables import CASES, NAN

from torchnpn import table_files, tables
from torchnpn.columns import Number
from torchnpn.table_files import numerals
from torchnpn.tables import decimal_marks


def read(path, options):
    table = table_files.open_table(path)
    found = table_files.survey(table, **options)
    said = [*filter(None, [table.note]), *table_files.notes(found)]
    return table, found, said


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_table_is_read_as_a_person_would(case, tmp_path):
    (path := tmp_path / case.file).write_bytes(case.data)
    table, found, said = read(path, case.options)
    (batch,) = table.batches()
    for name, expected in case.columns.items():
        column = found.columns[name]
        cells = table_files.cells(batch[name], case.options.get("missing", ()))
        if column.is_number:
            values = table_files.column_numbers(cells, name, 1, column.notation)[: len(expected)]
            np.testing.assert_allclose(values, [NAN if x is None else x for x in expected], rtol=1e-6)
        else:
            assert cells.to_pylist()[: len(expected)] == expected
    for words in case.notes:
        assert any(words in line for line in said), said
    if not case.notes:
        assert said == []
    last = table.names[-1]
    if case.kind == "constant":
        assert found.columns[last].is_constant
        return
    column = tables.find_column(found, last, "auto")
    schema, _ = tables.find_schema(found, last)
    rows = tables.load_rows(table.head(found.rows), schema, column, column.filled)
    target, _, _ = tables.make_target(column, rows.y, "auto")
    assert target.family == case.kind


def test_twenty_tables():
    assert len(CASES) >= 20 and len({case.name for case in CASES}) == len(CASES)


def test_the_notation_travels_with_the_schema(tmp_path):
    """New rows are read in the notation of the training rows; plain numbers, and types of Parquet, are too."""
    (path := tmp_path / "a.csv").write_bytes(CASES[0].data)
    _, found, _ = read(path, {})
    schema, _ = tables.find_schema(found, "Größe")
    again = tables.Schema.from_state(schema.state())
    assert again == schema and again.notation("Preis").decimal == ","
    origin = again.columns[0].origin
    for cells in (["1.234,56", "1.234"], ["1234.56", "1234"], pa.array([1234.56, 1234.0]), ["1234,56", "1234 €"]):
        encoded = again.encode(pa.RecordBatch.from_pydict({"Preis": cells}))
        np.testing.assert_allclose(encoded[:, 0] + origin, [1234.56, 1234], rtol=1e-6)


def test_a_schema_without_notation_is_that_of_earlier_files():
    plain = tables.Schema((Number("x", 1.5),))
    assert plain.state() == [{"number": "x", "origin": 1.5}]
    assert tables.Target("y", "gaussian", marginal=(0.0, 1.0)).state().keys() == {
        *("name", "family", "classes", "of_numbers", "marginal")
    }


@pytest.mark.parametrize("installed", [True, False])
def test_excel_workbooks(tmp_path, monkeypatch, installed):
    if not installed:
        monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
        (path := tmp_path / "a.xlsx").write_bytes(b"PK\x03\x04")
        with pytest.raises(table_files.TableError, match="pip install openpyxl"):
            table_files.open_table(path)
        return
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["name", "price", None], ["u", 1.5, "x"], ["v", None, None], ["w", 3, "y"]):
        book.active.append(row)
    book.save(content := BytesIO())
    (path := tmp_path / "a.xlsx").write_bytes(content.getvalue())
    (batch,) = table_files.open_table(path).batches()
    assert batch.to_pydict() == {"name": ["u", "v", "w"], "price": ["1.5", None, "3"]}
    path.write_bytes(content.getvalue()[:500])
    with pytest.raises(table_files.TableError, match="not a whole Excel file"):
        table_files.open_table(path)


def test_the_fast_way_reads_what_the_long_way_reads():
    rng = np.random.default_rng(0)
    numbers = rng.lognormal(3, 4, 2_000) * rng.choice([-1, 1], 2_000)
    cells = pa.array([f"{x:.{digits}f}" for x, digits in zip(numbers, rng.integers(0, 5, 2_000), strict=True)])
    read = numerals.as_plain(cells)
    np.testing.assert_allclose(read.to_numpy(), numerals.parse(cells, ".").to_numpy())
    both = numerals.with_comma(cells, read), numerals.parse(cells, ",")
    np.testing.assert_allclose(*(x.to_numpy(zero_copy_only=False) for x in both), rtol=1e-12)
    assert both[0].null_count > 500


def german(value: float, decimals: int) -> str:
    return f"{value:,.{decimals}f}".translate(str.maketrans(",.", ".,"))


WAYS = {  # delimiter, and how a number is written
    "plain": (",", lambda x, d: f"{x:.{d}f}"),
    "English thousands": (",", lambda x, d: f"{x:,.{d}f}"),
    "German": (";", german),
    "German without thousands": (";", lambda x, d: f"{x:.{d}f}".replace(".", ",")),
    "tabs": ("\t", german),
    "Swiss": (";", lambda x, d: f"{x:,.{d}f}".replace(",", "'")),
}


@pytest.mark.parametrize("rows", [30, 2])
@pytest.mark.parametrize("new", WAYS)
@pytest.mark.parametrize("old", WAYS)
def test_a_new_file_may_be_written_in_another_way(tmp_path, old, new, rows):
    """12,345 in a German file is about twelve, also where the model learnt from English files."""
    rng = np.random.default_rng(0)
    values = {
        "length": (rng.uniform(10, 900, 30).round(3), 3),  # each cell can be read both ways
        "people": (rng.integers(1_000, 900_000, 30).astype(float), 0),
        "share": (rng.uniform(0, 1, 30).round(2), 2),
    }

    def table(way: str, rows: int) -> table_files.Table:
        delimiter, write = WAYS[way]
        lines = [values] + [[f'"{write(x[i], d)}"' for x, d in values.values()] for i in range(rows)]
        path = tmp_path / "table.csv"
        path.write_text("".join(delimiter.join(line) + "\n" for line in lines), encoding="utf-8")
        return table_files.open_table(path)

    schema, _ = tables.find_schema(table_files.survey(table(old, 30)), "nothing")
    known = {column: schema.notation(column.name) for column in schema.columns}
    other = table(new, rows)
    (batch,) = other.batches()
    found = decimal_marks.notations(known, batch, other.delimiter)
    for name, (wanted, _) in values.items():
        read, _ = found[name].read(table_files.cells(batch[name]))
        np.testing.assert_allclose(read.to_numpy(), wanted[:rows])


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_quotation_mark_that_never_closes_is_named(tmp_path, end):
    (path := tmp_path / "data.csv").write_text('a,b\n1,x\n2,"y\n' + "3,z\n" * 20 + f"4,z{end}")
    with pytest.raises(table_files.TableError, match="quotation mark before 'y' never closes"):
        read(path, {})


def test_a_long_cell_below_the_header_is_read(tmp_path):
    (path := tmp_path / "data.csv").write_text("a,b\n1," + "x" * 300_000 + "\n2,y\n")
    assert table_files.survey(table_files.open_table(path)).rows == 2


def test_a_quoted_cell_of_several_lines_may_be_the_last(tmp_path):
    (path := tmp_path / "data.csv").write_text('a,b\n1,x\n2,"y\nand z\n"\n')
    assert table_files.survey(table_files.open_table(path)).rows == 2
