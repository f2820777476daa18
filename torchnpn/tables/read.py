"""Rows of a CSV or Parquet file in batches, so that a file larger than memory can be read; as often as wanted."""

from __future__ import annotations

import csv
import errno
import gzip
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from torchnpn.tables.errors import TableError

BATCH_ROWS = 50_000
_BLOCK_BYTES = 8 << 20  # of a CSV file; no row may be longer
_FORMATS = {".csv": "csv", ".tsv": "csv", ".csv.gz": "csv", ".tsv.gz": "csv", ".parquet": "parquet", ".pq": "parquet"}
_MISSING = ("", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "?", "<na>", "nat", ".")  # in any case of letters

Progress = Callable[[float], None]  # takes the share of the file that is read


def no_progress(share: float) -> None:
    """Tells nobody."""


def table_format(path: Path) -> str:
    """'csv' or 'parquet', by the ending of the name; `is_gzip` says whether it is compressed."""
    for ending, kind in _FORMATS.items():
        if path.name.lower().endswith(ending):
            return kind
    raise TableError(f"{path}: the name should end in one of {', '.join(_FORMATS)}, to say what the file holds.")


def is_gzip(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


@dataclass(frozen=True)
class Table:
    """A file with named columns."""

    path: Path
    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]  # all text where the file is a CSV
    delimiter: str = ","

    def batches(self, progress: Progress = no_progress) -> Iterator[pa.RecordBatch]:
        """All rows, in order, as the file has them: cells of a CSV are text."""
        reading = _parquet_batches if table_format(self.path) == "parquet" else _csv_batches
        rows = 0
        for batch in reading(self, progress):
            if batch.num_rows:
                yield batch
            rows += batch.num_rows
        if not rows:
            raise TableError(f"{self.path} has a header and no rows.")
        progress(1.0)


def open_table(path: Path) -> Table:
    """Look at a file's header.

    Args:
        path: .csv, .tsv (also .gz), or .parquet.

    Raises:
        TableError: It is empty, not what its name says, not UTF-8, or has two columns of one name.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if table_format(path) == "parquet":
        with _explained(path), pa.parquet.ParquetFile(path) as file:
            schema, delimiter = file.schema_arrow, ","
    else:
        delimiter = max((",", ";", "\t"), key=_first_line(path).count)  # the first of equals
        with _explained(path), _opened(path) as file, TextIOWrapper(file, "utf-8-sig", newline="") as lines:
            names = next(csv.reader(lines, delimiter=delimiter))  # a reader of pyarrow would start a thread for this
        schema = pa.schema([(name, pa.string()) for name in names])
    twice = [name for name, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise TableError(f"{path}: two columns have the name {twice[0]!r}. Rename one of them.")
    return Table(path, tuple(schema.names), tuple(schema.types), delimiter)


def cells(array: pa.Array) -> pa.Array | None:
    """A column as numbers (float64) or as text, with null for what is missing; None where it is neither.

    Missing are: nothing, NaN, and the usual words for it (NA, N/A, null, None, ?).
    """
    kind = array.type
    if pa.types.is_dictionary(kind):
        array, kind = array.dictionary_decode(), kind.value_type
    if pa.types.is_boolean(kind):
        return pc.if_else(array, "True", "False")
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = array.cast(pa.float64(), safe=False)
        return pc.if_else(pc.is_nan(numbers), None, numbers)
    if pa.types.is_null(kind):
        return array.cast(pa.float64())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        text = pc.utf8_trim_whitespace(array.cast(pa.string()))
        return pc.if_else(pc.is_in(pc.ascii_lower(text), pa.array(_MISSING)), None, text)
    return None


def _parquet_batches(table: Table, progress: Progress) -> Iterator[pa.RecordBatch]:
    with _explained(table.path), pa.parquet.ParquetFile(table.path) as file:
        rows, done = file.metadata.num_rows, 0
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            yield batch
            done += batch.num_rows
            progress(done / rows)


def _csv_batches(table: Table, progress: Progress) -> Iterator[pa.RecordBatch]:
    size = max(table.path.stat().st_size, 1)
    ragged: list[pa.csv.InvalidRow] = []
    with (
        open(table.path, "rb") as file,
        _explained(table.path, ragged),
        _csv_reader(file, table.path, table.delimiter, table.names, ragged) as reader,
    ):
        for batch in reader:
            yield batch
            progress(file.tell() / size)


def _csv_reader(
    file: BinaryIO, path: Path, delimiter: str, text: Sequence[str], ragged: list[pa.csv.InvalidRow]
) -> pa.csv.CSVStreamingReader:
    """A reader that takes the columns in `text` as they are, and adds to `ragged` the row that it fails on."""

    def remember(row: pa.csv.InvalidRow) -> str:
        ragged.append(row)
        return "error"

    stream = pa.PythonFile(file, mode="r")
    return pa.csv.open_csv(
        pa.CompressedInputStream(stream, "gzip") if is_gzip(path) else stream,
        pa.csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),  # only one thread can number its rows
        pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=remember),
        pa.csv.ConvertOptions(column_types=dict.fromkeys(text, pa.string())),
    )


def _first_line(path: Path) -> str:
    with _explained(path), _opened(path) as file:
        line = file.readline(_BLOCK_BYTES).removeprefix(b"\xef\xbb\xbf")
        if not line.strip():
            raise TableError(f"{path} is empty. Expected a first line with the names of the columns.")
        return line.decode()


def _opened(path: Path) -> BinaryIO | gzip.GzipFile:
    return gzip.open(path) if is_gzip(path) else open(path, "rb")


@contextmanager
def _explained(path: Path, ragged: Sequence[pa.csv.InvalidRow] = ()) -> Iterator[None]:
    """What a reader says about a bad file, in words that lead on."""
    try:
        yield
    except UnicodeDecodeError:
        raise TableError(f"{path} is not UTF-8 text. Save it as UTF-8 (in a spreadsheet: 'CSV UTF-8').") from None
    except EOFError:
        raise _not_gzip(path) from None
    except csv.Error as error:
        raise TableError(f"{path} cannot be read: {error}.") from None
    except pa.ArrowInvalid as error:
        raise TableError(f"{path}{_reason(str(error), ragged)}") from None
    except OSError as error:
        if error.errno is not None:
            raise
        if is_gzip(path):
            raise _not_gzip(path) from None
        raise TableError(f"{path} cannot be read: {str(error).splitlines()[0]}.") from None


def _not_gzip(path: Path) -> TableError:
    return TableError(f"{path} is not a whole gzip file, though its name ends in .gz.")


def _reason(message: str, ragged: Sequence[pa.csv.InvalidRow]) -> str:
    if ragged:
        row = ragged[0]
        return f": line {row.number} has {row.actual_columns} cells, the header {row.expected_columns}."
    if "Empty CSV" in message:
        return " has a header and no rows."
    if "invalid UTF8" in message:
        return " is not UTF-8 text. Save it as UTF-8 (in a spreadsheet: 'CSV UTF-8')."
    if "straddling" in message:
        return f": a row is longer than {_BLOCK_BYTES >> 20} MiB. Is there a quotation mark that never closes?"
    if "Parquet" in message:
        return f" is not a whole Parquet file: {message.splitlines()[0]}."
    return f" cannot be read: {message.splitlines()[0]}."
