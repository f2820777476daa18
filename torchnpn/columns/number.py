"""A column of numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchnpn._text import shown
from torchnpn.columns.cells import Cells, Texts, Times, taken

Array = NDArray[Any]


@dataclass(frozen=True)
class Number:
    """A column of numbers; one input, x - origin, so that float32 keeps the digits that differ."""

    name: str
    origin: float = 0.0
    range: tuple[float, float] | None = None  # smallest and largest training value, where they were looked for

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def least_scales(self) -> tuple[float, ...]:
        return (0.0,)

    def encode(self, cells: Cells, first_row: int = 0) -> Array:  # (rows,) -> (rows, 1)
        """The numbers; NaN where missing.

        Raises:
            ValueError: A cell is no number.
        """
        if isinstance(cells, Times):
            raise ValueError(f"Column {self.name!r} should hold numbers; it holds dates or times.")
        values = self._parsed(cells, first_row) if isinstance(cells, Texts) else cells
        return (values - self.origin)[:, None]

    def _parsed(self, texts: Texts, first_row: int) -> Array:
        numbers = np.array([_number(text) for text in texts.different])
        values = taken(numbers, texts.codes, np.nan)
        if len(odd := np.flatnonzero(np.isnan(values) & (texts.codes >= 0))):
            text = shown(texts.different[texts.codes[odd[0]]])
            raise ValueError(
                f"Column {self.name!r} should hold numbers; row {first_row + odd[0]:,} holds {text}. What is missing "
                "is None or NaN."
            )
        return values

    def state(self) -> dict[str, Any]:
        """Plain values, for a model file."""
        known = {} if self.range is None else {"range": list(self.range)}
        return {"number": self.name, "origin": self.origin, **known}

    @classmethod
    def from_state(cls, state: object) -> Number:
        """The inverse of `state`; a ValueError where it is something else."""
        match state:
            case {"number": str(name), "origin": int() | float() as origin, **rest} if math.isfinite(origin):
                if not rest.keys() - {"range"}:
                    return cls(name, float(origin), _range(rest["range"]) if rest else None)
        raise ValueError(f"A column of numbers should have a name and an origin, got {shown(state)}.")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _range(state: object) -> tuple[float, float]:
    match state:
        case [float(low), float(high)] if np.isfinite([low, high]).all() and low <= high:
            return low, high
    raise ValueError(f"The range of a column should be two finite numbers, the smaller one first, got {shown(state)}.")
