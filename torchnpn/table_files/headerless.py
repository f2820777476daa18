"""Files without a first row of names: the first row is then data, and columns take their names from their places."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from torchnpn.table_files.numerals import MARKS, MISSING, parse

ROWS = 200  # below the first row that it is compared with
_MOST_COLUMNS = 100  # that are compared
_NAME = re.compile(r"column_[1-9][0-9]{0,6}")
_YEARS = range(1800, 2201)


def numbered(count: int) -> tuple[str, ...]:
    """Names for the columns of a file without a header."""
    return tuple(f"column_{place}" for place in range(1, count + 1))


def is_data(first: Sequence[str], others: Sequence[Sequence[str]], expected: Sequence[str] = ()) -> bool:
    """Whether a first row holds data and not names, by some rows below it.

    Then each of its cells is a number in a column of numbers, or a text that stands in its column again, or missing.
    Numbers that count (0, 1, 2, …, or years) are names. The columns that are expected
    decide if the first row holds one of them, or if they are names of a file without a header.
    """
    if {cell.strip() for cell in first} & set(expected):
        return False
    if expected and all(map(_NAME.fullmatch, expected)):
        return True
    cells = [cell.strip() for cell in first]
    is_number = _are_numbers(cells)
    if not any(is_number) or _counts([cell for cell, number in zip(cells, is_number, strict=True) if number]):
        return False
    below = [[row[i].strip() for row in others if i < len(row)] for i in range(min(len(cells), _MOST_COLUMNS))]
    return all(map(_belongs, cells, is_number, below))


def _belongs(cell: str, is_number: bool, below: list[str]) -> bool:
    if cell.lower() in MISSING:
        return True
    filled = [other for other in below if other.lower() not in MISSING]
    return sum(_are_numbers(filled)) >= 0.9 * len(filled) if is_number else cell in filled


def _are_numbers(cells: Sequence[str]) -> list[bool]:
    texts = pa.array(cells, pa.string())
    point, comma = (parse(texts, mark).is_valid() for mark in MARKS)
    return [bool(valid) for valid in pc.or_(point, comma).to_pylist()]


def _counts(numbers: list[str]) -> bool:
    """Whether numbers go up by one from 0 or 1, or are years in equal steps."""
    if not all(re.fullmatch("[0-9]{1,6}", number, re.ASCII) for number in numbers):
        return False
    values = [int(number) for number in numbers]
    steps = {b - a for a, b in itertools.pairwise(values)}
    if values[0] in (0, 1):
        return steps <= {1}
    return len(steps) <= 1 and steps != {0} and all(value in _YEARS for value in values)
