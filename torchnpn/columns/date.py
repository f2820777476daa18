"""A column of dates or times: how much time has passed, and where in the year, the week and the day it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchnpn._text import shown
from torchnpn.columns.cells import CLOCK, LOCAL, UTC, Cells, Texts, Times, of_moments, taken
from torchnpn.columns.dates import ORDERS, parsed

Array = NDArray[Any]
PERIODS = {"year": 330.0, "week": 6.0, "day": 0.9}  # days that the training rows must reach over
_LEAST_SCALE = 0.07  # of a wave
_VARIES = 1e-3  # standard deviation of a sine or cosine
_WHAT = {LOCAL: "times without a time zone", UTC: "times with a time zone", CLOCK: "times of day without a date"}


@dataclass(frozen=True)
class Date:
    """A column of dates or times: days since `origin`, and sines and cosines of periods that the training rows cover.

    A period is there if the training rows differ in it and reach over nearly a whole one: of dates in a single spring,
    the season says nothing that the days do not say.
    """

    name: str
    origin: float  # in days since 1970
    periods: tuple[str, ...]
    clock: str = LOCAL
    order: str = ORDERS[0]  # of year, month and day, in text

    @classmethod
    def learn(cls, name: str, cells: Times | Texts, order: str = ORDERS[0]) -> Date:
        """What to read of a column.

        Args:
            name: Of the column.
            cells: Its training rows.
            order: Of year, month and day, where they are texts.
        """
        times = times_of(cells, name, order)
        there = times.values[~np.isnat(times.values)]
        if not len(there):
            return cls(name, 0.0, (), times.clock, order)
        low, high = float(_days(there.min())), float(_days(there.max()))
        covered = [period for period, least in PERIODS.items() if high - low >= least]
        if times.clock == CLOCK:
            covered = ["day"]
        turns = _turns(there)
        varying = tuple(period for period in covered if _waves(turns[period]).std(axis=0).max() > _VARIES)
        return cls(name, round((low + high) / 2, 6), varying, times.clock, order)

    @property
    def has_days(self) -> bool:
        return self.clock != CLOCK

    @property
    def inputs(self) -> tuple[str, ...]:
        waves = [f"{self.name}: {wave} of the {period}" for period in self.periods for wave in ("sine", "cosine")]
        return tuple([f"{self.name}: days", *waves] if self.has_days else waves)

    @property
    def least_scales(self) -> tuple[float, ...]:
        return (0.0,) * self.has_days + (_LEAST_SCALE,) * (2 * len(self.periods))

    def encode(self, cells: Cells, first_row: int = 0) -> Array:  # (rows,) -> (rows, inputs)
        """Days and waves; NaN where a date is missing.

        Raises:
            ValueError: A cell is no date, or dates have a time zone where those of the training rows had none.
        """
        if not isinstance(cells, (Texts, Times)):
            if not np.isnan(cells).all():
                raise ValueError(f"Column {self.name!r} should hold dates; it holds numbers.")
            return np.full((len(cells), len(self.inputs)), np.nan)
        times = times_of(cells, self.name, self.order, first_row)
        if times.clock != self.clock and not np.isnat(times.values).all():
            raise ValueError(
                f"Column {self.name!r} should hold {_WHAT[self.clock]}, as in training; it holds {_WHAT[times.clock]}."
            )
        turns = _turns(times.values)
        waves = [_waves(turns[period]) for period in self.periods]
        days = [(_days(times.values) - self.origin)[:, None]] if self.has_days else []
        return np.concatenate([np.empty((len(times.values), 0)), *days, *waves], axis=1)

    def state(self) -> dict[str, Any]:
        """Plain values, for a model file."""
        plain = {"date": self.name, "origin": self.origin, "periods": list(self.periods)}
        return {**plain, "clock": self.clock, "order": self.order}

    @classmethod
    def from_state(cls, state: object) -> Date:
        """The inverse of `state`; a ValueError where it is something else."""
        match state:
            case {
                "date": str(name),
                "origin": int() | float() as origin,
                "periods": list(periods),
                "clock": ("local" | "utc" | "clock") as clock,
                "order": ("ymd" | "dmy" | "mdy") as order,
                **rest,
            } if not rest and math.isfinite(origin):
                if periods == [period for period in PERIODS if period in periods]:
                    return cls(name, float(origin), tuple(periods), str(clock), str(order))
        raise ValueError(f"A column of dates should have a name, an origin and periods, got {shown(state)}.")


def times_of(cells: Times | Texts, name: str, order: str, first_row: int = 0) -> Times:
    """Texts as times.

    Raises:
        ValueError: A text is no date.
    """
    if isinstance(cells, Times):
        return cells
    moments = [parsed(text, order) for text in cells.different]
    if None in moments:
        wrong = np.array([moment is None for moment in moments])
        row = int(np.flatnonzero(taken(wrong, cells.codes, False))[0])
        text = shown(cells.different[cells.codes[row]])
        raise ValueError(f"Column {name!r} should hold dates; row {first_row + row:,} holds {text}.")
    times = of_moments(moments, name)
    return Times(taken(times.values, cells.codes, "NaT"), times.clock)


def _days(values: Array) -> Array:
    """Days since 1970; NaN for NaT."""
    return (values - np.datetime64(0, "us")) / np.timedelta64(1, "D")


def _turns(values: Array) -> dict[str, Array]:
    """How far in its year, week and day each moment is, from 0 to 1; all hours of a day are the same in the week."""
    year, day = values.astype("datetime64[Y]"), values.astype("datetime64[D]")
    length = ((year + 1).astype("datetime64[D]") - year.astype("datetime64[D]")) / np.timedelta64(1, "D")
    return {
        "year": (values - year) / np.timedelta64(1, "D") / length,
        "week": np.floor(_days(values)) % 7 / 7,
        "day": (values - day) / np.timedelta64(1, "D"),
    }


def _waves(turns: Array) -> Array:  # (rows,) -> (rows, 2)
    return np.stack([np.sin(2 * np.pi * turns), np.cos(2 * np.pi * turns)], axis=1)
