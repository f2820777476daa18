"""Rows to a CSV or Parquet file, batch after batch; a file is whole or not there."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from torchnpn._files import whole_file
from torchnpn._text import shown
from torchnpn.table_files.formats import TableError, is_gzip, written_format
from torchnpn.table_files.numerals import MARKS, parse

_DIGITS = 7
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"  # all but tab and the ends of lines
_FORMULA = r"^\s*[=+\-@＝＋－＠]|^[\t\r]"


def csv_cells(column: pa.Array, name: str, raw: bool = False) -> pa.Array:
    """A column for a CSV file, with text that no spreadsheet runs and no terminal obeys, or as it is for `raw`.

    Raises:
        TableError: CSV has no way to write it.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return csv_cells(column.dictionary_decode(), name, raw)
    if pa.types.is_float16(kind):
        return column.cast(pa.float32())
    if (pa.types.is_primitive(kind) and not pa.types.is_temporal(kind)) or pa.types.is_null(kind):
        return column
    try:
        texts = column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise TableError(
            f"Column {shown(name)} holds {kind}, which CSV cannot hold. Choose columns with --keep, or write Parquet."
        ) from None
    harmless = raw or pa.types.is_temporal(kind) or pa.types.is_decimal(kind)
    return texts if harmless else _as_a_cell(texts)


def rounded(values: NDArray[Any]) -> NDArray[Any]:
    """Predictions for a CSV file: floating-point numbers with seven significant digits, others as they are."""
    if values.dtype.kind != "f":
        return values
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        power = _DIGITS - 1 - np.floor(np.log10(np.abs(values)))
        small, large = 10.0 ** np.clip(power, 0, 22), 10.0 ** np.clip(-power, 0, 22)  # powers that float64 has exactly
        result = np.rint(values * small / large) * large / small
    usual = np.isfinite(result) & (np.abs(power) <= 22)
    return np.where(usual, result, values)


def _as_a_cell(texts: pa.Array) -> pa.Array:
    """Control characters as codes; an apostrophe before what a spreadsheet would take for a formula."""
    if pc.any(pc.match_substring_regex(texts, _CONTROL)).as_py():
        texts = pa.array([None if text is None else _shown_controls(text) for text in texts.to_pylist()], pa.string())
    suspect = pc.fill_null(pc.match_substring_regex(texts, _FORMULA), False)
    if not pc.any(suspect).as_py():
        return texts
    trimmed = pc.utf8_trim_whitespace(texts)
    for decimal in MARKS:
        suspect = pc.and_(suspect, parse(trimmed, decimal).is_null())
    harmless = pc.fill_null(pc.match_substring_regex(trimmed, r"^[-+−–—]{1,3}$|(?i)^-nan$"), False)
    return pc.if_else(pc.and_not(suspect, harmless), pc.binary_join_element_wise("'", texts, ""), texts)


def _shown_controls(text: str) -> str:
    return re.sub(_CONTROL, lambda found: ascii(found[0])[1:-1], text)


class Writer(Protocol):
    """Takes batches of one schema."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""


@contextmanager
def _output(path: Path) -> Iterator[IO[bytes]]:
    """A whole file; what is not a file (a device, a pipe) is written to as it is."""
    if path.exists() and not path.is_file() and not path.is_dir():
        with open(path, "wb", opener=_without_waiting) as device:
            yield device
        return
    with whole_file(path) as file:
        yield file


def _without_waiting(path: str, flags: int) -> int:
    """A pipe that nobody reads is an error, not a reason to wait."""
    number = os.open(path, flags & ~(os.O_CREAT | os.O_TRUNC) | os.O_NONBLOCK)
    os.set_blocking(number, True)
    return number


@contextmanager
def table_writer(path: Path, schema: pa.Schema, raw: bool = False) -> Iterator[Writer]:
    """A writer to a new file, in the format that the ending of its name asks for; `raw` is about names in CSV files."""
    kind = written_format(path)
    with ExitStack() as stack:
        file = stack.enter_context(_output(path))
        if kind == "parquet":
            yield stack.enter_context(pa.parquet.ParquetWriter(file, schema))
        else:
            text = stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0)) if is_gzip(path) else file
            yield CsvWriter(text, schema, "\t" if ".tsv" in path.name.lower() else ",", raw)


class CsvWriter:
    """Batches as CSV, with quotation marks only in batches that need them."""

    def __init__(
        self, file: IO[bytes] | gzip.GzipFile, schema: pa.Schema, delimiter: str = ",", raw: bool = False
    ) -> None:
        self.file, self.delimiter = file, delimiter
        header = io.StringIO()
        csv.writer(header, delimiter=delimiter, lineterminator="\n").writerow(
            csv_cells(pa.array(schema.names), "", raw).to_pylist()
        )
        file.write(header.getvalue().encode())

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        try:
            self.file.write(self._text(batch, "none"))
        except pa.ArrowInvalid:  # a cell holds the delimiter, a quotation mark or the end of a line
            self.file.write(self._text(batch, "needed"))

    def _text(self, batch: pa.RecordBatch, quoting: str) -> bytes:
        buffer = io.BytesIO()
        options = pa.csv.WriteOptions(include_header=False, delimiter=self.delimiter, quoting_style=quoting)
        pa.csv.write_csv(batch, buffer, options)
        return buffer.getvalue()
