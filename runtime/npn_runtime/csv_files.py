"""CSV files: their rows in parts, as text, and predictions beside them."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from npn_runtime.errors import TableError, shown
from npn_runtime.frames import Frame
from npn_runtime.numerals import MARKS, parse

PART = 20_000  # rows
_DELIMITERS, _SAMPLE = (",", ";", "\t", "|"), 1 << 16
_BINARY = {b"PAR1": "a Parquet file", b"PK\x03\x04": "a zip archive or an Excel workbook"}
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # all but tab and the ends of lines
_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r]")


def read(path: str | os.PathLike[str], names: Sequence[str]) -> Iterator[Frame]:
    """The rows of a CSV file in parts, with all of its columns as text.

    Cells stand between commas, semicolons, tabs or pipes; text is UTF-8, UTF-16 or else Windows-1252. A file without a
    header has columns column_1, column_2, …, which a model reads that learnt from such a file.

    Args:
        path: Of the file; of one that ends in .gz, the content is compressed.
        names: Of the columns that the model reads.
    """
    compressed = Path(path).name.lower().endswith(".gz")
    with gzip.open(path, "rb") if compressed else open(path, "rb") as file:
        yield from read_text(file, str(path), names)


def read_text(file: IO[bytes] | gzip.GzipFile, label: str, names: Sequence[str]) -> Iterator[Frame]:
    """The same for a file that is open."""
    try:
        start = file.read(_SAMPLE)
        if binary := next((words for magic, words in _BINARY.items() if start.startswith(magic)), None):
            raise TableError(f"{label} is {binary}. Expected a CSV file; read it with pandas, and predict the frame.")
        file.seek(0)
        with io.TextIOWrapper(file, _encoding(file, start), newline="") as text:
            yield from _parts(text, label, names)
    except UnicodeError:
        raise TableError(f"{label} is not text in a known encoding. Save it as UTF-8.") from None
    except (gzip.BadGzipFile, EOFError):
        raise TableError(f"{label} is not a whole gzip file, though its name ends in .gz.") from None
    except csv.Error as error:
        raise TableError(f"{label} cannot be read: {error}.") from None


def _encoding(file: Any, start: bytes) -> str:
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return "cp1252"
    finally:
        file.seek(0)
    return "utf-8-sig"


def _parts(text: io.TextIOWrapper, label: str, names: Sequence[str]) -> Iterator[Frame]:
    sample = text.read(_SAMPLE)
    if not sample.strip():
        raise TableError(f"{label} is empty. Expected a first line with the names of the columns.")
    if "\0" in sample:
        raise TableError(f"{label} holds zero bytes: it is not a text file. Is its name right?")
    text.seek(0)
    hint = re.match(r"sep=(.)\r?\n", sample)  # Excel's own way to say it
    if hint:
        text.readline()
    rows = csv.reader(text, delimiter=hint[1] if hint else _delimiter(sample), strict=True)
    filled: Iterator[list[str]] = filter(None, rows)
    header = [name.strip() or f"column {place}" for place, name in enumerate(next(filled), 1)]
    if all(re.fullmatch(r"column_[1-9][0-9]*", name) for name in names) and not set(header) & set(names):
        filled = itertools.chain([header], filled)
        header = [f"column_{place}" for place in range(1, len(header) + 1)]
    if twice := next((name for name in header if header.count(name) > 1), None):
        raise TableError(f"{label}: two columns have the name {shown(twice)}. Rename one of them.")
    done = 0
    while part := list(itertools.islice(filled, PART)):
        for row in part:
            if len(row) != len(header):
                cells = "1 cell" if len(row) == 1 else f"{len(row)} cells"
                where = f"the row with {shown(row[0])} in its first cell"
                raise TableError(f"{label}: {where} has {cells}, the header {len(header)}.")
        columns = map(list, zip(*part, strict=True))
        yield Frame(dict(zip(header, columns, strict=True)), len(part), done + 1, is_text=True)
        done += len(part)
    if not done:
        raise TableError(f"{label} has a header and no rows.")


def _delimiter(sample: str) -> str:
    """The delimiter that cuts all lines of a sample into the same number of cells, and the most of them."""
    whole = sample if len(sample) < _SAMPLE else sample[: sample.rfind("\n") + 1] or sample

    def score(delimiter: str) -> tuple[bool, int]:
        try:
            rows = csv.reader(io.StringIO(whole, newline=""), delimiter=delimiter)
            widths = [len(row) for row in itertools.islice(filter(None, rows), 50)]
        except csv.Error:
            return False, 0
        return len(set(widths)) == 1 and widths[0] > 1, widths[0] if widths else 0

    return max(_DELIMITERS, key=score)  # the first of equals


@contextmanager
def whole_file(path: Path) -> Iterator[IO[str]]:
    """A new text file, which is there only when it is whole."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(beside, "w", encoding="utf-8", newline="") as file:
            yield file
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def write(file: IO[str], table: Frame, predicted: dict[str, Any], with_header: bool, raw: bool = False) -> None:
    """Rows with predictions, which have seven digits; text that a spreadsheet would run gets an apostrophe in front."""
    writer = csv.writer(file, lineterminator="\n")
    if with_header:
        names = [*table.columns, *predicted]
        writer.writerow(names if raw else map(harmless, names))
    kept = [column if raw else map(harmless, column) for column in table.columns.values()]
    writer.writerows(zip(*kept, *map(_cells, predicted.values()), strict=True))


def _cells(values: Any) -> list[Any]:
    if values.dtype.kind != "f":
        return [harmless(value) for value in values.tolist()]
    return [_digits(value) for value in values.tolist()]


def _digits(value: float) -> str:
    text = repr(float(f"{value:.7g}"))
    return text.removesuffix(".0")


def harmless(cell: str) -> str:
    """Control characters as codes; an apostrophe before what a spreadsheet would take for a formula."""
    text = _CONTROL.sub(lambda found: ascii(found[0])[1:-1], cell)
    if not _FORMULA.match(text):
        return text
    bare = text.strip()
    if re.fullmatch(r"[-+−–—]{1,3}|(?i:-nan)", bare) or any(parse(bare, mark) is not None for mark in MARKS):
        return text
    return f"'{text}"


def stacked(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Columns of several parts, one below the other."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
