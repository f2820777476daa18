"""Cells of a column, whatever table they come from: numbers, texts or times, each with gaps."""

from __future__ import annotations

import datetime
import decimal
import numbers
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from torchnpn._text import shown

Array = NDArray[Any]
NONE = -1  # the code of a missing text
LOCAL, UTC, CLOCK = "local", "utc", "clock"  # times without a zone; with one; times of day
_DAY = np.timedelta64(1, "D")
_MIDNIGHT = datetime.date(1970, 1, 1)


class Texts(NamedTuple):
    """Texts, each of which is stored once."""

    codes: Array  # (rows,) place in `different`, NONE where missing
    different: Sequence[str]


class Times(NamedTuple):
    """Dates, dates with a time, or times of day."""

    values: Array  # (rows,) datetime64[us], NaT where missing; of times of day, on the first of January 1970
    clock: str = LOCAL


Cells = Array | Texts | Times  # an array is of float64 numbers, NaN where missing


def label(value: Any) -> str:
    """A level as text: the number 1 and the number 1.0 are the same one."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        return str(value)
    return f"{float(value):.15g}"


def as_texts(cells: Cells) -> Texts:
    """The same cells as texts, for a column of categories."""
    if isinstance(cells, Texts):
        return cells
    values = cells.values if isinstance(cells, Times) else cells
    different, codes = np.unique(values, return_inverse=True)
    gaps = np.isnan(different) if different.dtype.kind == "f" else np.isnat(different)
    codes = np.where(gaps[codes], NONE, codes)
    names = different.astype(str) if isinstance(cells, Times) else map(label, different)
    return Texts(codes, [str(name) for name in names])


def of_array(values: Array, name: str) -> Cells:
    """Cells of a numpy array (rows,), of any type that holds numbers, text or times.

    Raises:
        ValueError: It holds something else.
    """
    match values.dtype.kind:
        case "b" | "i" | "u" | "f":
            return values.astype(np.float64)
        case "M":
            return Times(values.astype("datetime64[us]"))
        case "m":
            return in_days(values)
        case "U":
            different, codes = np.unique(values, return_inverse=True)
            return Texts(codes, different.tolist())
        case "O":
            return _of_objects(values, name)
    raise ValueError(f"Column {name!r} holds {values.dtype}; expected numbers, text, categories, dates or times.")


def in_days(spans: Array) -> Array:
    """Lengths of time, timedelta64, as days; NaN for NaT."""
    return spans / _DAY


def factorised(values: Iterable[Any], name: str) -> tuple[Array, list[Any]]:
    """Codes and different values; None, NaN and the like have the code NONE."""
    places: dict[Any, int] = {}
    try:
        codes = np.array([places.setdefault(value, len(places)) for value in values], np.int64)
    except TypeError:  # of a list, say, which cannot be a key
        raise ValueError(
            f"Column {name!r} holds lists or other compound values; expected numbers, text, categories, dates or times."
        ) from None
    there = [not is_missing(value) for value in places]
    new = np.where(there, np.cumsum(there) - 1, NONE) if places else np.empty(0, np.int64)
    return new[codes], [value for value, is_there in zip(places, there, strict=True) if is_there]


def taken(values: Array, codes: Array, gap: Any) -> Array:
    """`values[codes]`, and `gap` for NONE."""
    extended: Array = np.append(values, np.array(gap, values.dtype))
    return extended[codes]  # NONE is the last one


def _of_objects(values: Array, name: str) -> Cells:
    codes, different = factorised(values.tolist(), name)

    def all_are(*kinds: type) -> bool:
        return all(isinstance(value, kinds) for value in different)

    if all_are(numbers.Real, decimal.Decimal, np.bool_):
        return taken(_floats(different, name), codes, np.nan)
    if all_are(str):
        return Texts(codes, different)
    if all_are(datetime.date, np.datetime64):
        times = of_moments(different, name)
        return Times(taken(times.values, codes, "NaT"), times.clock)
    if all_are(datetime.time):
        moments = [datetime.datetime.combine(_MIDNIGHT, time.replace(tzinfo=None)) for time in different]
        return Times(taken(np.array(moments, "datetime64[us]"), codes, "NaT"), CLOCK)
    if all_are(datetime.timedelta, np.timedelta64):
        return taken(in_days(np.array(different, "timedelta64[us]")), codes, np.nan)
    raise ValueError(_mixture(different, name))


def of_moments(moments: Sequence[Any], name: str) -> Times:
    """Dates and datetimes: as they are without a zone, in UTC with one."""
    zoned = {getattr(moment, "tzinfo", None) is not None for moment in moments}
    if len(zoned) > 1:
        raise ValueError(f"Column {name!r} holds times with a time zone and times without one. Give all one, or none.")
    if True not in zoned:
        return Times(np.array(moments, "datetime64[us]"))
    in_utc = [moment.astimezone(datetime.UTC).replace(tzinfo=None) for moment in moments]
    return Times(np.array(in_utc, "datetime64[us]"), UTC)


def _floats(values: list[Any], name: str) -> Array:
    try:
        return np.array([float(value) for value in values], np.float64)
    except OverflowError:
        raise ValueError(f"Column {name!r} holds a number that float64 cannot hold. Divide the column.") from None


def _mixture(different: list[Any], name: str) -> str:
    first = different[0]
    other = next((value for value in different if type(value) is not type(first)), None)
    if other is None:
        kind = type(first).__name__
        return f"Column {name!r} holds values of type {kind}; expected numbers, text, categories, dates or times."
    return (
        f"Column {name!r} holds values of several types, such as {shown(first)} ({type(first).__name__}) and "
        f"{shown(other)} ({type(other).__name__}). Make them one type: numbers, or text with .astype(str)."
    )


def is_missing(value: Any) -> bool:
    """Whether it is None, NaN or the like."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # of pandas.NA, which is neither true nor false
        return True
