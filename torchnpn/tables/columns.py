"""A first look at every column of a file: numbers or text, how many, which. Types are those of the whole file."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from torchnpn.tables.errors import TableError
from torchnpn.tables.read import Progress, Table, cells, no_progress

_MOST_VALUES = 10_000  # different texts of a column that are counted
_NUMBER = r"(?i)^[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity)$"


@dataclass
class Column:
    """What has been seen of a column so far."""

    name: str
    filled: int = 0  # cells that are not missing
    is_number: bool = True
    low: float = math.inf
    high: float = -math.inf
    counts: Counter[str] = field(default_factory=Counter)  # of texts; numbers that are written as text too
    has_all_counts: bool = True
    first_text: tuple[int, str] | None = None  # row and cell that made it text

    def add(self, found: pa.Array, first_row: int) -> None:
        """Look at some more cells."""
        self.filled += len(found) - found.null_count
        if pa.types.is_string(found.type) and (self.has_all_counts or not self.is_number):
            self._count(found)
        if self.is_number:
            if (numbers := as_numbers(found)) is not None:
                low, high = pc.min_max(numbers).as_py().values()
                if low is not None:
                    self.low, self.high = min(self.low, low), max(self.high, high)
            else:
                self.is_number = False
                row = _first_that_is_no_number(found)
                self.first_text = first_row + row, found[row].as_py()

    def _count(self, found: pa.Array) -> None:
        for text, count in zip(*found.drop_null().value_counts().flatten(), strict=True):
            if text.as_py() in self.counts or len(self.counts) < _MOST_VALUES:
                self.counts[text.as_py()] += count.as_py()
            else:
                self.has_all_counts = False

    @property
    def is_constant(self) -> bool:
        return self.low == self.high if self.is_number else self.has_all_counts and len(self.counts) == 1

    @property
    def is_mostly_numbers(self) -> bool:
        """Text, but only because of a few cells."""
        texts = pa.array(self.counts.keys(), pa.string())
        matches = np.asarray(pc.match_substring_regex(texts, _NUMBER), dtype=bool)
        return float(np.dot(matches, list(self.counts.values()))) >= 0.8 * self.counts.total()


class Survey(NamedTuple):
    """What a file holds."""

    rows: int
    columns: dict[str, Column]
    unreadable: dict[str, pa.DataType]  # columns of Parquet types that are neither numbers nor text


def survey(table: Table, drop: Collection[str] = (), progress: Progress = no_progress) -> Survey:
    """Read the whole file once.

    Args:
        table: The file.
        drop: Columns not to look at.
        progress: Called with the share of the file that is read.
    """
    columns = {name: Column(name) for name in table.names if name not in drop}
    unreadable, rows = {}, 0
    for batch in table.batches(progress):
        for name, kind in zip(batch.schema.names, batch.schema.types, strict=True):
            if name in columns:
                if (found := cells(batch[name])) is None:
                    unreadable[name] = kind
                    del columns[name]
                else:
                    columns[name].add(found, rows + 1)
        rows += batch.num_rows
    return Survey(rows, columns, unreadable)


def as_numbers(found: pa.Array) -> pa.Array | None:
    """Cells as float64, or None where one of them is text."""
    try:
        return found.cast(pa.float64())
    except pa.ArrowInvalid:
        return None


def numbers(found: pa.Array, name: str, first_row: int) -> NDArray[np.float64]:
    """Cells of a column of numbers, NaN where missing.

    Args:
        found: From `cells`.
        name: Of the column, for errors.
        first_row: Number of the first of these rows in the file.

    Raises:
        TableError: A cell is text or infinite.
    """
    array = as_numbers(found)
    if array is None:
        row = _first_that_is_no_number(found)
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


def shown(cell: Any, most: int = 40) -> str:
    """A cell in quotes, shortened."""
    text = str(cell)
    return repr(text if len(text) <= most else text[: most - 1] + "…")


def _first_that_is_no_number(found: pa.Array) -> int:
    wrong = pc.invert(pc.fill_null(pc.match_substring_regex(found, _NUMBER), True))
    return max(int(pc.index(wrong, True).as_py()), 0)
