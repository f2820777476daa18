"""How a text file is written: its encoding, what stands between its cells, and the names of its columns."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from torchnpn._text import shown
from torchnpn.table_files import headerless
from torchnpn.table_files.formats import TableError, is_gzip

DELIMITERS = (",", ";", "\t", "|")
_CHUNK = 1 << 20
_SAMPLE = 1 << 16  # characters that the delimiter is found by
_MARKS = {  # bytes at the start of a file that say how it is encoded
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class Layout(NamedTuple):
    """How a text file is written."""

    encoding: str
    delimiter: str
    header: tuple[str, ...]  # as it stands in the file; made up where `has_header` is False
    skipped: int  # lines before the header
    titles: int = 0  # of them, those that are comments or a title
    has_header: bool = True

    @property
    def note(self) -> str:
        """What is worth a word, to follow "is"."""
        said = []
        if self.encoding in ("cp1252", "latin-1"):
            said.append("not UTF-8 text: read as Western European (Windows-1252), check accented letters")
        if not self.has_header:
            said.append(headerless_note(len(self.header)))
        elif self.titles:
            said.append(f"read from line {self.skipped + 1} on, where the names of the columns stand")
        return "; ".join(said)


def headerless_note(columns: int) -> str:
    """What to say of a file without a header, to follow "is"."""
    return f"without a header: its columns are called column_1 to column_{columns}"


def find_layout(path: Path, label: str, expected: Sequence[str] = ()) -> Layout:
    """Read a whole text file once to see how it is written; `expected` are names of columns that a model needs.

    Raises:
        TableError: It is empty, or not text.
    """
    encoding = _encoding(path, label)
    with open_uncompressed(path) as file, io.TextIOWrapper(file, _codec(encoding), newline="") as lines:
        sample = lines.read(_SAMPLE)
    if not sample.strip():
        raise TableError(f"{label} is empty. Expected a first line with the names of the columns.")
    hint = re.match(r"sep=(.)\r?\n", sample)  # Excel's own way to say it
    skipped = 1 if hint else 0
    titles = 0 if hint else _titles(sample)
    delimiter = hint[1] if hint else _delimiter("".join(_lines(sample)[titles:]))
    with open_uncompressed(path) as file, io.TextIOWrapper(file, _codec(encoding), newline="") as lines:
        for _ in range(skipped + titles):
            lines.readline()
        header = next(filter(None, csv.reader(lines, delimiter=delimiter)), [])
    below = _rows("".join(_lines(sample)[skipped + titles :]), delimiter)[1 : 1 + headerless.ROWS]
    has_header = not headerless.is_data(header, below, expected)
    names = tuple(header) if has_header else headerless.numbered(len(header))
    return Layout(encoding, delimiter, names, skipped + titles, titles, has_header)


def _titles(sample: str) -> int:
    """Lines above the header: comments that begin with # and have no delimiter, or a title with a blank line below."""
    lines = _lines(sample)
    simple = [not any(mark in line for mark in DELIMITERS) and '"' not in line for line in lines[:100]]
    place = found = 0
    while place + 1 < len(simple) and simple[place] and (lines[place].startswith("#") or not lines[place].strip()):
        place += 1
        found = place if lines[place - 1].strip() else found
    if not found and len(simple) > 2 and simple[0] and lines[0].strip() and not lines[1].strip() and not simple[2]:
        return 2
    return found if found and not simple[place] else 0


def _lines(sample: str) -> list[str]:
    return list(io.StringIO(sample, newline=""))


def names_of(header: tuple[str, ...], label: str) -> tuple[str, ...]:
    """Names without the spaces around them; a column without a name gets one from its place."""
    names = tuple(name.strip() or f"column {place}" for place, name in enumerate(header, 1))
    check_names(names, label)
    return names


def check_names(names: tuple[str, ...], label: str) -> None:
    """Refuse two columns of one name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise TableError(f"{label}: two columns have the name {shown(twice[0])}. Rename one of them.")


@contextmanager
def open_uncompressed(path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """The bytes of a file, without compression."""
    with path.open("rb") as file:
        if is_gzip(path):
            with gzip.GzipFile(fileobj=file) as content:
                yield content
        else:
            yield file


def count(path: Path, character: bytes) -> int:
    """How often a character stands in a file."""
    with open_uncompressed(path) as file:
        return sum(chunk.count(character) for chunk in iter(lambda: file.read(_CHUNK), b""))


def _codec(encoding: str) -> str:
    return "utf-8-sig" if encoding == "utf-8" else encoding


def _encoding(path: Path, label: str) -> str:
    """UTF-8 where all bytes are; else what the first bytes say, or the encoding of Western Windows."""
    decoder, is_utf8, is_windows = codecs.getincrementaldecoder("utf-8")(), True, True
    with open_uncompressed(path) as file:
        chunk = file.read(_CHUNK)
        for mark, encoding in _MARKS.items():
            if chunk.startswith(mark) and encoding != "utf-8":
                return encoding
        if (zeros := chunk[:1000].count(0)) and zeros >= len(chunk[:1000]) // 3:
            return "utf-16-le" if chunk[1] == 0 else "utf-16-be"
        while True:
            if 0 in chunk:
                raise TableError(f"{label} holds zero bytes: it is not a text file. Is its name right?")
            is_utf8 = is_utf8 and _decodes(decoder, chunk)
            is_windows = is_windows and not any(byte in chunk for byte in b"\x81\x8d\x8f\x90\x9d")
            if not chunk:
                return "utf-8" if is_utf8 else "cp1252" if is_windows else "latin-1"
            chunk = file.read(_CHUNK)


def _decodes(decoder: codecs.IncrementalDecoder, chunk: bytes) -> bool:
    """Whether these bytes go on as text; none are the end of it."""
    try:
        decoder.decode(chunk, final=not chunk)
    except UnicodeDecodeError:
        return False
    return True


def _delimiter(sample: str) -> str:
    """The delimiter that cuts all lines of a sample into the same number of cells, and the most of them."""

    def score(delimiter: str) -> tuple[bool, int]:
        widths = [len(row) for row in _rows(sample, delimiter)][:50]
        return len(set(widths)) == 1 and widths[0] > 1, widths[0] if widths else 0

    return max(DELIMITERS, key=score)  # the first of equals


def _rows(sample: str, delimiter: str) -> list[list[str]]:
    """The whole rows of a sample that are not empty; none where it cannot be read."""
    whole = sample if len(sample) < _SAMPLE else sample[: sample.rfind("\n") + 1] or sample
    try:
        return [row for row in csv.reader(io.StringIO(whole, newline=""), delimiter=delimiter) if row]
    except csv.Error:
        return []
