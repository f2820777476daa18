"""A first look at every column of a file: numbers or text, how many, which. Types are those of the whole file."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from torchnpn._text import shown
from torchnpn.table_files.formats import TableError
from torchnpn.table_files.numerals import (
    COMMA,
    MARKS,
    POINT,
    Notation,
    as_plain,
    is_adorned,
    is_money,
    parse,
    style,
    unit_of,
    with_comma,
    without_unit,
)
from torchnpn.table_files.read import Progress, Table, cells, no_progress
from torchnpn.table_files.totals import batches_without_total

_MOST_VALUES = 10_000  # different texts of a column that are counted
_MOST_ODD = 20  # different words among numbers that can be taken for missing cells
_ODD_SHARE = 0.02  # of the cells, that may be such words; a single cell always may
_LEAST_NUMBERS = 8  # cells that must be numbers before a word among them is odd
_MOST_WATCHED = 5_000_000  # whole numbers of a column that are compared to find identifiers


@dataclass
class Reading:
    """The cells of a column as numbers under one decimal mark."""

    cells: int = 0  # that can be read
    only: int = 0  # of them, those that the other mark cannot read
    low: float = math.inf
    high: float = -math.inf
    odd: Counter[str] = field(default_factory=Counter)  # cells that cannot be read: at most _MOST_ODD + 1 different
    first_odd: tuple[int, str] | None = None  # row and cell
    example: tuple[str, float] | None = None  # a cell that is no plain number, and its value

    def add(self, numbers: pa.Array) -> None:
        """Numbers, with null for all else."""
        self.cells += len(numbers) - numbers.null_count
        low, high = pc.min_max(numbers).as_py().values()
        if low is not None:
            self.low, self.high = min(self.low, low), max(self.high, high)

    def add_odd(self, texts: pa.Array, is_odd: pa.Array, first_row: int) -> None:
        """Texts of which some are not numbers."""
        if self.first_odd is None and (row := pc.index(is_odd, True).as_py()) >= 0:
            self.first_odd = first_row + row, texts[row].as_py()
        if len(self.odd) <= _MOST_ODD:
            for text in texts.filter(is_odd).unique()[: _MOST_ODD + 1].to_pylist():
                self.odd[text] += 1


@dataclass
class SurveyedColumn:
    """What has been seen of a column so far; `settle` decides in the end what it holds."""

    name: str
    filled: int = 0  # cells that are not missing
    notation: Notation | None = None  # of its numbers; None for text
    counts: Counter[str] = field(default_factory=Counter)  # of texts; numbers that are written as text too
    has_all_counts: bool = True
    last_text: str | None = None  # of those that are not counted
    readings: dict[str, Reading] = field(default_factory=lambda: {mark: Reading() for mark in MARKS})
    unclear: Counter[str] = field(default_factory=Counter)  # words that mean a missing cell if the others are numbers
    is_text: bool = False  # most cells were not numbers: no need to look for numbers any longer
    whole: list[NDArray[np.float64]] | None = field(default_factory=list)  # its whole numbers while all differ
    unit: str | None = None  # word behind the first number that has one, such as kg
    first_padded: str | None = None  # a cell such as 00123
    has_other_than_digits: bool = False  # beside digits, in a cell

    def add(self, found: pa.Array, first_row: int) -> None:
        """Look at some more cells."""
        self.filled += len(found) - found.null_count
        is_string = pa.types.is_string(found.type)
        if is_string and (self.has_all_counts or self.is_text):
            self._count(found)
        if self.is_text:
            return
        texts = found
        if is_string and as_plain(found) is None:
            texts = Notation().without_missing(found)
            for word, count in _counted(found.filter(pc.and_(found.is_valid(), texts.is_null()))):
                self.unclear[word] += count
            self.unit = self.unit or unit_of(texts)
            found = without_unit(texts, self.unit)
        if is_string and not self.has_other_than_digits:
            self._watch_zeros(found)
        numbers = as_plain(found)
        if numbers is not None and (not is_string or self._is_clear(found)):
            for reading in self.readings.values():
                reading.add(numbers)
            self._watch(numbers)
        else:
            self._read_both_ways(found, numbers, texts, first_row)

    def _is_clear(self, texts: pa.Array) -> bool:
        """Whether numbers without commas can be meant in one way only: none has a point, or an earlier one shows it."""
        point, comma = self.readings[POINT], self.readings[COMMA]
        return (point.only > 0 and comma.only == 0) or not pc.any(pc.match_substring(texts, POINT)).as_py()

    def _read_both_ways(self, texts: pa.Array, plain: pa.Array | None, with_units: pa.Array, first_row: int) -> None:
        if plain is None:
            read = {mark: parse(texts, mark) for mark in MARKS}
        else:
            read = {POINT: plain, COMMA: with_comma(texts, plain)}
        ambiguous = pc.and_(read[POINT].is_valid(), read[COMMA].is_valid())
        money = pc.and_(ambiguous, is_money(texts))
        for mark, other in (MARKS, MARKS[::-1]):
            reading, numbers = self.readings[mark], read[mark]
            reading.add(numbers)
            grouped = pc.and_(money, pc.greater(pc.abs(numbers), pc.abs(read[other])))
            reading.only += _count_true(pc.and_(numbers.is_valid(), read[other].is_null())) + _count_true(grouped)
            reading.add_odd(with_units, pc.and_(texts.is_valid(), numbers.is_null()), first_row)
            differs = pc.fill_null(pc.not_equal(numbers, read[other]), False)
            special = pc.and_(numbers.is_valid(), pc.or_(is_adorned(texts), differs))
            if reading.example is None and (row := pc.index(special, True).as_py()) >= 0:
                reading.example = texts[row].as_py(), numbers[row].as_py()
        self._watch(read[POINT])
        most = max(reading.cells for reading in self.readings.values())
        self.is_text = self.filled >= 1_000 and most + self.unclear.total() < self.filled / 2

    def _count(self, found: pa.Array) -> None:
        for text, count in _counted(found):
            if text in self.counts or len(self.counts) < _MOST_VALUES:
                self.counts[text] += count
            else:
                self.has_all_counts, self.last_text = False, text

    def _watch_zeros(self, texts: pa.Array) -> None:
        """Note the first cell with a leading zero, while no cell has a sign, a decimal mark or the like."""
        self.has_other_than_digits = bool(pc.any(pc.match_substring_regex(texts, r"\d\D|\D\d")).as_py())
        if self.first_padded is None and (row := pc.index(pc.match_substring_regex(texts, r"^0\d"), True).as_py()) >= 0:
            self.first_padded = texts[row].as_py()

    def _watch(self, numbers: pa.Array) -> None:
        if self.whole is None:
            return
        values = numbers.drop_null().to_numpy(zero_copy_only=False)
        enough = sum(map(len, self.whole)) + len(values) > _MOST_WATCHED
        with np.errstate(invalid="ignore"):
            whole = bool((np.abs(values) < 2**53).all()) and bool((values == np.rint(values)).all())
        self.whole = None if enough or not whole or len(np.unique(values)) < len(values) else [*self.whole, values]

    @property
    def is_number(self) -> bool:
        return self.notation is not None

    @property
    def texts(self) -> list[str]:
        """Different texts; in a file that is sorted by them, the last one too, however many there are."""
        return [*self.counts, *([] if self.last_text is None else [self.last_text])]

    @property
    def code(self) -> str | None:
        """An example where leading zeros show that the digits are a code, such as 01067 among zip codes."""
        is_code = not self.has_other_than_digits and not self.is_number and self.is_mostly_numbers
        return self.first_padded if is_code else None

    @property
    def reading(self) -> Reading:
        """Of the notation that was decided on; of plain numbers for text."""
        return self.readings[POINT if self.notation is None else self.notation.decimal]

    @property
    def low(self) -> float:
        return self.reading.low

    @property
    def high(self) -> float:
        return self.reading.high

    @property
    def is_constant(self) -> bool:
        return self.low == self.high if self.is_number else self.has_all_counts and len(self.counts) == 1

    @property
    def is_mostly_numbers(self) -> bool:
        """Text, but only because of a few cells."""
        return max(reading.cells for reading in self.readings.values()) >= 0.8 * self.filled

    @property
    def first_text(self) -> tuple[int, str] | None:
        """Row and content of a cell that is not a number."""
        return max(self.readings.values(), key=lambda reading: reading.cells).first_odd

    @property
    def numbers_rows(self) -> bool:
        """Whether it counts from 0 or 1, in any order."""
        return self.has_different_whole_numbers and self.low in (0, 1) and self.high - self.low + 1 == self.filled

    @property
    def has_different_whole_numbers(self) -> bool:
        """Whether every cell is a whole number that no other cell holds."""
        if not self.is_number or self.whole is None or self.filled < 2:
            return False
        values = np.concatenate(self.whole)
        return len(values) == self.filled and len(np.unique(values)) == self.filled


class Survey(NamedTuple):
    """What a file holds."""

    rows: int
    columns: dict[str, SurveyedColumn]
    unreadable: dict[str, pa.DataType]  # columns of Parquet types that are neither numbers, text nor dates
    missing: tuple[str, ...] = ()  # the user's words for missing cells
    total: str | None = None  # the word that shows that the last row is a total, which is not counted in


def survey(
    table: Table,
    drop: Collection[str] = (),
    progress: Progress = no_progress,
    *,
    decimal: str | None = None,
    missing: Sequence[str] = (),
    numbers: Collection[str] = (),
) -> Survey:
    """Read the whole file once, but for the columns in `drop`.

    Args:
        table: The file.
        drop: Columns not to look at.
        progress: Takes the share that is read.
        decimal: The decimal mark, "." or ","; None finds out for each column.
        missing: Words for missing cells, beside the usual ones.
        numbers: Columns that are numbers though they have leading zeros.
    """
    columns = {name: SurveyedColumn(name) for name in table.names if name not in drop}
    unreadable, rows, totals = {}, 0, list[str]()
    for batch in batches_without_total(table, progress, totals.append):
        for name, kind in zip(batch.schema.names, batch.schema.types, strict=True):
            if name in columns:
                if (found := cells(batch[name], missing)) is None:
                    unreadable[name] = kind
                    del columns[name]
                else:
                    columns[name].add(found, rows + 1)
        rows += batch.num_rows
    settle(columns.values(), decimal, table.delimiter, missing, numbers)
    return Survey(rows, columns, unreadable, tuple(missing), totals[0] if totals else None)


def settle(
    found: Iterable[SurveyedColumn],
    decimal: str | None,
    delimiter: str,
    missing: Sequence[str] = (),
    numbers: Collection[str] = (),
) -> None:
    """Decide which columns are numbers, and how they are written.

    A column's own cells decide about its decimal mark; where all of them can be read both ways (1.234), the other
    columns do; where these do not say either, a comma goes with semicolons between the cells. Digits with leading zeros
    (01067) are codes, and so text, unless the column is one of `numbers`.
    """
    columns = list(found)
    point, comma = (sum(column.readings[mark].only for column in columns) for mark in MARKS)
    usual = COMMA if comma > point or (comma == point and delimiter == ";") else POINT
    for column in columns:
        if column.code and column.name not in numbers:
            continue
        ours, theirs = (column.readings[mark].only for mark in MARKS)
        likely = decimal or (usual if ours == theirs else POINT if ours > theirs else COMMA)
        for mark in sorted(MARKS, key=lambda mark: mark != likely):
            if not column.is_number and _holds_numbers(column, column.readings[mark]):
                column.notation = Notation(mark, (*missing, *column.readings[mark].odd), column.unit or "")
                column.filled = column.readings[mark].cells


def _holds_numbers(column: SurveyedColumn, reading: Reading) -> bool:
    cells = column.filled - column.unclear.total()
    odd = cells - reading.cells
    if column.is_text:
        return False
    if odd == 0:
        return cells > 0 or column.filled == 0
    rare = odd <= max(1, _ODD_SHARE * cells) and len(reading.odd) <= _MOST_ODD
    return rare and reading.cells >= _LEAST_NUMBERS


def notes(found: Survey) -> list[str]:
    """What was read in another way than it stands there: a sentence for each column, or for many that are alike."""
    styles: dict[str, list[SurveyedColumn]] = {}
    said = [] if found.total is None else [f"the last row is a total ({shown(found.total)}), and is not used."]
    for column in found.columns.values():
        if column.code:
            said.append(
                f"{column.name}: read as codes, not as numbers, because of leading zeros ({shown(column.code)})."
            )
        if column.notation is None:
            continue
        if column.notation.unit:
            said.append(f"{column.name}: read as numbers with the unit {shown(column.notation.unit)}.")
        if column.reading.example and (how := style(column.reading.example[0], column.notation.decimal)):
            styles.setdefault(how, []).append(column)
        if words := {**column.unclear, **column.reading.odd}:
            listed = ", ".join(map(shown, list(words)[:3])) + (", …" if len(words) > 3 else "")
            said.append(f"{column.name}: {listed} among numbers taken as missing.")
    return [*(line for how, alike in styles.items() for line in _style_notes(how, alike)), *said]


def _style_notes(how: str, columns: list[SurveyedColumn]) -> list[str]:
    listed = [[column] for column in columns] if len(columns) <= 3 else [columns]
    lines = []
    for group in listed:
        first, *more = group
        assert first.reading.example is not None  # it has a style
        text, value = first.reading.example
        names = first.name if not more else f"{first.name} and {len(more)} more columns"
        lines.append(f"{names}: read as numbers with {how} ({shown(' '.join(text.split()))} is {value:.15g}).")
    return lines


def column_numbers(found: pa.Array, name: str, first_row: int, notation: Notation | None = None) -> NDArray[np.float64]:
    """Cells of a column of numbers, found by `cells`, NaN where missing.

    Raises:
        TableError: A cell is text or infinite.
    """
    array, is_odd = (notation or Notation()).read(found)
    if is_odd.any():
        row = int(np.flatnonzero(is_odd)[0])
        raise TableError(
            f"Column {name!r} should hold numbers; row {first_row + row:,} holds {shown(found[row].as_py())}. "
            "Correct the cell, or leave it empty to mark it as missing."
        )
    values: NDArray[np.float64] = array.to_numpy(zero_copy_only=False)
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise TableError(
            f"Column {name!r} holds an infinite number in row {first_row + row:,}. Correct the cell, or leave it empty."
        )
    return values


def _counted(found: pa.Array) -> Iterable[tuple[Any, int]]:
    values, counts = found.drop_null().value_counts().flatten()
    return zip(values.to_pylist(), counts.to_pylist(), strict=True)


def _count_true(mask: pa.Array) -> int:
    return int(pc.sum(mask).as_py() or 0)
