"""From the cells of a column to numbers for the graph, as the metadata of the file describe its columns.

A number is itself, a category its place among the levels, a date the seconds since 1970; NaN is missing.
"""

from __future__ import annotations

import datetime
import decimal
import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npn_runtime import dates
from npn_runtime.errors import TableError, shown
from npn_runtime.numerals import MISSING, POINT, Notation, is_missing

Array = NDArray[Any]
_DAY = datetime.timedelta(days=1)
_LARGEST = float(np.finfo(np.float32).max)  # what the network can take
_CLOCKS = {
    dates.LOCAL: "times without a time zone",
    dates.UTC: "times with a time zone",
    dates.CLOCK: "times of day without a date",
}


class Column(NamedTuple):
    """One entry of `columns` in the metadata of a file.

    `words` are texts that are missing in every column; None where texts are categories as they stand.
    """

    name: str
    kind: str
    words: frozenset[str] | None
    levels: dict[str, int]
    has_other: bool
    notation: Notation
    clock: str
    order: str

    @classmethod
    def of(cls, about: dict[str, Any], words: frozenset[str] | None) -> Column:
        """A column that the metadata describe; a KeyError, TypeError or ValueError where they do not."""
        name, kind = str(about["name"]), str(about["kind"])
        if kind not in _READERS:
            raise ValueError(f"a column of kind {kind!r}")
        levels = {str(level): place for place, level in enumerate(about["levels"])} if kind == "category" else {}
        missing = frozenset(str(word).lower() for word in about.get("missing", ())) | (words or frozenset())
        notation = Notation(str(about.get("decimal", POINT)), missing, str(about.get("unit", "")))
        clock, order = str(about.get("clock", dates.LOCAL)), str(about.get("order", "ymd"))
        return cls(name, kind, words, levels, bool(about.get("other")), notation, clock, order)

    def of_files(self) -> Column:
        """The same for cells of a file, where spaces around a text do not count and an empty one is missing."""
        return self if self.words is not None else self._replace(words=frozenset())

    def encode(self, cells: Any, first_row: int = 1) -> Array:  # (rows,) -> (rows,)
        """The numbers of these cells: a numpy array, or a sequence of what Python has.

        Raises:
            TableError: A cell cannot be read.
        """
        if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf" and self.kind in ("number", "exposure"):
            encoded = cells.astype(np.float64)
        else:
            encoded = self._each(cells.tolist() if _is_plain(cells) else list(cells), first_row)
        if self.kind in ("number", "exposure"):
            self._check(encoded, first_row)
        return encoded

    def _each(self, cells: Sequence[Any], first_row: int) -> Array:
        if self.kind in ("number", "exposure"):
            texts = {cell.strip() for cell in cells if isinstance(cell, str)}
            self = self._replace(notation=self.notation.fitting(texts))
        read, known = _READERS[self.kind], dict[Any, float]()
        encoded = np.empty(len(cells))
        for row, cell in enumerate(cells):
            key = (cell, type(cell))
            try:
                number = known.get(key)
            except TypeError:  # of a list, say, which cannot be a key
                raise self._unreadable(cell, first_row + row) from None
            if number is None:
                found = math.nan if _is_gap(cell, self.words) else read(self, cell)
                if found is None:
                    raise self._unreadable(cell, first_row + row)
                number = known[key] = found
            encoded[row] = number
        return encoded

    def _check(self, encoded: Array, first_row: int) -> None:
        wrong = np.abs(encoded) > _LARGEST
        what = f"Column {self.name!r} holds {{}} in row {{:,}}. Correct the cell, or leave it empty."
        if self.kind == "exposure":
            wrong |= ~(encoded > 0)
            what = f"The exposure {self.name!r} should be a number above 0 in every row; it is {{}} in row {{:,}}."
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise TableError(what.format("missing" if np.isnan(encoded[row]) else f"{encoded[row]:g}", first_row + row))

    def _unreadable(self, cell: Any, row: int) -> TableError:
        expected = {"category": "text or numbers", "date": _CLOCKS.get(self.clock, "dates")}.get(self.kind, "numbers")
        return TableError(
            f"Column {self.name!r} should hold {expected}; row {row:,} holds {shown(cell)}. "
            "Correct the cell, or leave it empty to mark it as missing."
        )


def _number(column: Column, cell: Any) -> float | None:
    if isinstance(cell, str):
        return column.notation.read(cell.strip())
    if isinstance(cell, datetime.timedelta):
        return cell / _DAY
    if isinstance(cell, np.timedelta64):
        return float(cell / np.timedelta64(1, "D"))
    if isinstance(cell, (numbers.Real, decimal.Decimal, np.bool_)):
        try:
            return float(cell)
        except OverflowError:
            return math.inf
    return None


def _category(column: Column, cell: Any) -> float | None:
    if isinstance(cell, (list, dict, set, tuple)):
        return None
    text = str(cell)
    if isinstance(cell, numbers.Real) and not isinstance(cell, (bool, np.bool_)):
        text = f"{float(cell):.15g}"
    elif column.words is not None:
        text = text.strip()
    return column.levels.get(text, len(column.levels) if column.has_other else math.nan)


def _date(column: Column, cell: Any) -> float | None:
    found = dates.seconds(cell.strip() if isinstance(cell, str) else cell, column.order)
    return found[0] if found is not None and found[1] == column.clock else None


_READERS: dict[str, Callable[[Column, Any], float | None]] = {
    "number": _number,
    "exposure": _number,
    "category": _category,
    "date": _date,
}


def _is_plain(cells: Any) -> bool:
    """Whether numpy's own `tolist` gives what Python has; of datetimes it gives whole numbers."""
    return isinstance(cells, np.ndarray) and cells.dtype.kind not in "Mm"


def _is_gap(cell: Any, words: frozenset[str] | None) -> bool:
    if isinstance(cell, str):
        return words is not None and is_missing(cell.strip(), MISSING, words)
    try:
        return cell is None or bool(cell != cell)
    except TypeError:  # of pandas.NA, which is neither true nor false
        return True
    except ValueError:  # of an array
        return False
