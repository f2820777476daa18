"""Rows to a CSV or Parquet file, batch after batch; a file is whole or not there."""

from __future__ import annotations

import csv
import errno
import gzip
import io
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from torchnpn.tables.read import is_gzip, table_format


class Writer(Protocol):
    """Takes batches of one schema."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes its name when all is written, and leaves no trace otherwise.

    What is not a file (a device, a pipe) is written to as it is.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        with open(path, "wb") as device:
            yield device
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(beside, "wb") as file:
            yield file
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def table_writer(path: Path, schema: pa.Schema) -> Iterator[Writer]:
    """A writer to a new file, in the format that the ending of its name asks for."""
    kind = table_format(path)
    with ExitStack() as stack:
        file = stack.enter_context(whole_file(path))
        if kind == "parquet":
            yield _Parquet(stack.enter_context(pa.parquet.ParquetWriter(file, schema)))
        else:
            text = stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0)) if is_gzip(path) else file
            yield CsvWriter(text, schema, "\t" if ".tsv" in path.name.lower() else ",")


class CsvWriter:
    """Batches as CSV, with quotation marks only in batches that need them."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile, schema: pa.Schema, delimiter: str = ",") -> None:
        self.file, self.delimiter = file, delimiter
        header = io.StringIO()
        csv.writer(header, delimiter=delimiter, lineterminator="\n").writerow(schema.names)
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


class _Parquet:
    def __init__(self, writer: pa.parquet.ParquetWriter) -> None:
        self.writer = writer

    def write(self, batch: pa.RecordBatch) -> None:
        self.writer.write_batch(batch)
