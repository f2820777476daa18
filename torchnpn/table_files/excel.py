"""Rows of an Excel workbook's first sheet, as text like that of a CSV file."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from torchnpn.table_files.formats import TableError

_MOST_BYTES = 2 << 30  # of the unpacked workbook
_MOST_COLUMNS = 16_384


def first_rows(path: Path, label: str, count: int) -> list[list[str]]:
    """The cells of the first rows that hold something."""
    with _rows(path, label) as rows:
        return [["" if cell is None else cell for cell in row] for row in islice(rows, count)]


def batches(path: Path, label: str, names: tuple[str, ...], size: int, has_header: bool) -> Iterator[pa.RecordBatch]:
    """All rows, or those below the header."""
    with _rows(path, label) as rows:
        if has_header:
            next(rows, None)
        while some := list(islice(rows, size)):
            columns = {name: [row[i] if i < len(row) else None for row in some] for i, name in enumerate(names)}
            yield pa.RecordBatch.from_pydict({name: pa.array(x, pa.string()) for name, x in columns.items()})


@contextmanager
def _rows(path: Path, label: str) -> Iterator[Iterator[list[str | None]]]:
    with open(path, "rb"):
        pass  # where there is no such file, that is what is wrong
    try:
        import openpyxl
    except ModuleNotFoundError:
        raise TableError(
            f"{label}: Excel files need openpyxl: pip install openpyxl. Or save the sheet as CSV UTF-8."
        ) from None
    try:
        with zipfile.ZipFile(path) as parts:
            unpacked = sum(part.file_size for part in parts.infolist())
        if unpacked > _MOST_BYTES:
            raise TableError(f"{label} unpacks to {unpacked >> 20:,} MiB, too much for a spreadsheet. Save it as CSV.")
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            yield _filled_rows(book.worksheets[0].iter_rows(values_only=True, max_col=_MOST_COLUMNS))
        finally:
            book.close()
    except (TableError, OSError):
        raise
    except Exception as error:  # a damaged workbook fails anywhere inside the zip and XML readers
        raise TableError(f"{label} is not a whole Excel file: {type(error).__name__}.") from None


def _filled_rows(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[str | None]]:
    for row in rows:
        cells = [None if cell is None else _text(cell) for cell in row]
        while cells and cells[-1] is None:
            del cells[-1]
        if cells:
            yield cells


def _text(cell: Any) -> str:
    return cell if isinstance(cell, str) else cell.isoformat(" ") if hasattr(cell, "hour") else str(cell)
