"""The columns of a table together: from their cells to the inputs of a network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from torchnpn._text import shown
from torchnpn.columns.category import Category
from torchnpn.columns.cells import Cells
from torchnpn.columns.date import Date
from torchnpn.columns.number import Number

Array = NDArray[Any]
Column = Number | Category | Date


@dataclass(frozen=True)
class Columns:
    """The columns that a network reads, in order."""

    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(name for column in self.columns for name in column.inputs)

    @property
    def width(self) -> int:
        return sum(len(column.inputs) for column in self.columns)

    @property
    def groups(self) -> dict[str, slice]:
        """Where the inputs of each column stand."""
        ends = np.cumsum([0, *(len(column.inputs) for column in self.columns)]).tolist()
        return {column.name: slice(a, b) for column, a, b in zip(self.columns, ends[:-1], ends[1:], strict=True)}

    @property
    def least_scale(self) -> Array:  # (width,)
        """What the standard deviation of an input is taken to be at least: one that is seldom 1 is not blown up."""
        return np.array([scale for column in self.columns for scale in column.least_scales])

    def encoded(self, cells: Iterable[Cells], rows: int) -> Array:  # -> (rows, width)
        """Inputs of the network, from the cells of each column; NaN where one is missing or a category unknown."""
        encoded = np.empty((rows, self.width))
        for column, place, found in zip(self.columns, self.groups.values(), cells, strict=True):
            encoded[:, place] = column.encode(found)
        return encoded

    def state(self) -> list[dict[str, Any]]:
        """Plain values, for a model file."""
        return [column.state() for column in self.columns]

    @classmethod
    def from_state(cls, state: object) -> Columns:
        """The inverse of `state`; a ValueError where it is something else."""
        if not isinstance(state, list) or not state:
            raise ValueError(f"Columns should be a list of them, got {shown(state)}.")
        return cls(tuple(map(column_from_state, state)))


def column_from_state(state: object) -> Column:
    """A column of any kind, from plain values."""
    match state:
        case {"number": _, **_others}:
            return Number.from_state(state)
        case {"category": _, **_others}:
            return Category.from_state(state)
        case {"date": _, **_others}:
            return Date.from_state(state)
    raise ValueError(f"A column should be one of numbers, categories or dates, got {shown(state)}.")


class Encoded(NamedTuple):
    """Rows that were encoded already, to learn from: features as in an array, with the scales of their columns."""

    rows: Array  # (rows, width)
    least_scale: Array  # (width,)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.rows.shape
