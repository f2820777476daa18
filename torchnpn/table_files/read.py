"""Rows of a table in a file in batches, so that a file larger than memory can be read; as often as wanted."""

from __future__ import annotations

import csv
import dataclasses
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from torchnpn._text import counted, shown
from torchnpn.table_files import excel, headerless
from torchnpn.table_files.formats import TableError, is_gzip, table_format
from torchnpn.table_files.layout import Layout, check_names, count, find_layout, headerless_note, names_of
from torchnpn.table_files.numerals import MISSING, blanked
from torchnpn.table_files.spool import is_pipe, spooled, spooled_bytes

BATCH_ROWS = 50_000
_BLOCK_BYTES = 8 << 20  # of a CSV file; no row may be longer
_BUFFER_BYTES = 1 << 18  # of a column of a Parquet file, whose row groups may be larger than memory

Progress = Callable[[float], None]  # takes the share of the file that is read


def no_progress(share: float) -> None:
    """Tells nobody."""


@dataclass(frozen=True)
class Table:
    """A file with named columns."""

    path: Path
    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]  # all text where the file is no Parquet file
    label: str  # what to call it in messages
    layout: Layout | None = None  # of a text file
    has_header: bool = True  # False where the first row holds data, and the names are column_1, column_2, …
    note: str = ""  # what is worth a word about how the file is written, to follow "is"
    rows: int | None = None  # only so many are read; None for all
    spool: IO[bytes] | None = field(default=None, repr=False)  # keeps a temporary file alive

    @property
    def delimiter(self) -> str:
        return "," if self.layout is None else self.layout.delimiter

    @property
    def name(self) -> str:
        """The label without its folder."""
        return self.label if self.spool else self.path.name

    def batches(self, progress: Progress = no_progress) -> Iterator[pa.RecordBatch]:
        """All rows, in order, as the file has them: cells of a CSV are text."""
        reading = {"parquet": _parquet_batches, "excel": _excel_batches, "csv": _csv_batches}[table_format(self.path)]
        rows = 0
        for whole in reading(self, progress):
            batch = whole if self.rows is None else whole.slice(0, max(self.rows - rows, 0))
            if batch.num_rows:
                yield batch
            rows += batch.num_rows
        if not rows:
            raise TableError(f"{self.label} has a header and no rows.")
        progress(1.0)

    def head(self, rows: int) -> Table:
        """The same file without the rows that follow."""
        return dataclasses.replace(self, rows=rows)

    def column(self, name: str) -> str:
        """The name of a column; where the file has no header, its number will do."""
        known = {} if self.has_header else {str(place): one for place, one in enumerate(self.names, 1)}
        return known.get(name, name)


def open_table(path: Path, names: Sequence[str] = ()) -> Table:
    """Look at a file's header, and at how it is written; "-" is standard input.

    Of the columns that are expected in `names`, column_1, column_2, … say that the file has no header. A TableError
    says that it is empty, not what its name says, or has two columns of one name.
    """
    if is_pipe(path):
        file = spooled(path)
        return _opened(Path(file.name), "standard input", file, names)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if "://" in str(path) and not path.exists():
        raise TableError(f"There is nothing at {path}.")
    return _opened(path, str(path), None, names)


def open_bytes(content: bytes, label: str, names: Sequence[str] = ()) -> Table:
    """The same for a text file that has come as bytes, such as the body of a request, whatever its first bytes are."""
    file = spooled_bytes(content)
    return _opened(Path(file.name), label, file, names)


def _opened(path: Path, label: str, spool: IO[bytes] | None, expected: Sequence[str]) -> Table:
    kind, layout = table_format(path), None
    if kind == "parquet":
        with explained(path, label), path.open("rb") as content, pa.parquet.ParquetFile(content) as file:
            schema = file.schema_arrow
        check_names(tuple(schema.names), label)
        if not schema.names:
            raise TableError(f"{label} has no columns.")
        return Table(path, tuple(schema.names), tuple(schema.types), label, spool=spool)
    if kind == "excel":
        first = excel.first_rows(path, label, 1 + headerless.ROWS)
        if not first:
            raise TableError(f"{label} is empty. Expected a first row with the names of the columns.")
        has_header = not headerless.is_data(first[0], first[1:], expected)
        header = tuple(first[0]) if has_header else headerless.numbered(max(map(len, first)))
        note = "" if has_header else headerless_note(len(header))
    else:
        with explained(path, label):
            layout = find_layout(path, label, expected)
        header, has_header, note = layout.header, layout.has_header, layout.note
    names = names_of(header, label)
    return Table(path, names, (pa.string(),) * len(names), label, layout, has_header, note, spool=spool)


def cells(array: pa.Array, missing: Sequence[str] = ()) -> pa.Array | None:
    """A column as numbers (float64) or as text, with null for what is missing; None where it is neither.

    Dates, with a time or without, are text such as 2024-12-31.
    Missing are: nothing, NaN, the usual words for it (NA, n.a., null, None, ?, #DIV/0!), and those of `missing`.
    """
    kind = array.type
    if pa.types.is_dictionary(kind):
        array, kind = array.dictionary_decode(), kind.value_type
    if pa.types.is_boolean(kind):
        return pc.if_else(array, "True", "False")
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = array.cast(pa.float64(), safe=False)
        return pc.if_else(pc.is_nan(numbers), None, numbers)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return array.cast(pa.string())
    if pa.types.is_null(kind):
        return array.cast(pa.float64())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return blanked(pc.utf8_trim_whitespace(array.cast(pa.string())), (*MISSING, *missing))
    return None


def parquet_metadata(path: Path) -> pa.parquet.FileMetaData:
    """What the end of a Parquet file says of the rest."""
    with path.open("rb") as content:
        return pa.parquet.read_metadata(content)


def _parquet_batches(table: Table, progress: Progress) -> Iterator[pa.RecordBatch]:
    rows, done = parquet_metadata(table.path).num_rows, 0
    for batch in parquet_batches(table):
        yield batch
        done += batch.num_rows
        progress(done / rows)


def parquet_batches(
    table: Table, groups: Sequence[int] | None = None, names: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows of a Parquet file; of some of its row groups, and some of its columns. Pages are read one by one."""
    with (
        explained(table.path, table.label),
        table.path.open("rb") as content,
        pa.parquet.ParquetFile(content, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file,
    ):
        yield from file.iter_batches(BATCH_ROWS, groups, names)


def _excel_batches(table: Table, progress: Progress) -> Iterator[pa.RecordBatch]:
    return excel.batches(table.path, table.label, table.names, BATCH_ROWS, table.has_header)


def _csv_batches(table: Table, progress: Progress) -> Iterator[pa.RecordBatch]:
    size = max(table.path.stat().st_size, 1)
    ragged: list[pa.csv.InvalidRow] = []
    assert table.layout is not None  # of every text file
    with (
        table.path.open("rb") as file,
        explained(table.path, table.label, ragged),
        _csv_reader(file, table.path, table.layout, ragged) as reader,
    ):
        batch = None
        for batch in reader:
            if batch.num_columns != len(table.names):
                raise TableError(f"{table.label} changed while it was read. Start again.")
            yield batch.rename_columns(list(table.names))
            progress(min(file.tell() / size, 1.0))
        _check_last_cell(batch, table)


def _check_last_cell(batch: pa.RecordBatch | None, table: Table) -> None:
    """A quotation mark that never closes puts the rest of a file into one cell, and leaves an odd number of marks."""
    last = batch.column(batch.num_columns - 1)[-1].as_py() if batch is not None and batch.num_rows else None
    if last and "\n" in last and count(table.path, b'"') % 2:
        line = shown(last.splitlines()[0])
        raise TableError(
            f"{table.label}: a quotation mark before {line} never closes, and takes in all lines that follow."
        )


def _csv_reader(
    file: BinaryIO, path: Path, layout: Layout, ragged: list[pa.csv.InvalidRow]
) -> pa.csv.CSVStreamingReader:
    """A reader that takes all columns as text, and adds to `ragged` the row that it fails on."""

    def remember(row: pa.csv.InvalidRow) -> str:
        ragged.append(row)
        return "error"

    stream = pa.PythonFile(file, mode="r")
    return pa.csv.open_csv(
        pa.CompressedInputStream(stream, "gzip") if is_gzip(path) else stream,
        pa.csv.ReadOptions(
            use_threads=False,  # only one thread can number its rows
            block_size=_BLOCK_BYTES,
            skip_rows=layout.skipped,
            column_names=None if layout.has_header else list(layout.header),
            encoding="utf8" if layout.encoding == "utf-8" else layout.encoding,
        ),
        pa.csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True, invalid_row_handler=remember),
        pa.csv.ConvertOptions(column_types=dict.fromkeys(layout.header, pa.string())),
    )


@contextmanager
def explained(path: Path, label: str, ragged: Sequence[pa.csv.InvalidRow] = ()) -> Iterator[None]:
    """What a reader says about a bad file, in words that lead on."""
    try:
        yield
    except UnicodeError:
        raise TableError(f"{label} is not text in a known encoding. Save it as UTF-8.") from None
    except EOFError:
        raise _not_gzip(label) from None
    except csv.Error as error:
        raise TableError(f"{label} cannot be read: {error}.") from None
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        if is_gzip(path) and (isinstance(error, OSError) or "zlib" in str(error)):
            raise _not_gzip(label) from None
        raise TableError(f"{label}{_reason(str(error), ragged)}") from None


def _not_gzip(label: str) -> TableError:
    return TableError(f"{label} is not a whole gzip file, though its name ends in .gz.")


def _reason(message: str, ragged: Sequence[pa.csv.InvalidRow]) -> str:
    if ragged:
        row = ragged[0]
        cells = counted(row.actual_columns, "cell")
        return f": line {row.number} has {cells}, the header {row.expected_columns}."
    if "Empty CSV" in message:
        return " has a header and no rows."
    if "UTF8" in message:
        return " is not text in a known encoding. Save it as UTF-8."
    if "straddling" in message:
        return f": a row is longer than {_BLOCK_BYTES >> 20} MiB. Is there a quotation mark that never closes?"
    if "Parquet" in message:
        return f" is not a whole Parquet file: {message.splitlines()[0]}."
    return f" cannot be read: {message.splitlines()[0]}."
