"""Which columns a network reads, and how cells become its inputs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from shlex import quote as quoted
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from torchnpn._text import did_you_mean, shown
from torchnpn.table_files import USUAL_NOTATION, Column, Notation, Survey, TableError, cells, column_numbers

FAR_RANGES = 10  # a number further outside the training values than so many of their ranges is suspicious
MOST_CATEGORIES = 64  # of a column; the rest share one input, "other"
_IDENTIFIER = re.compile(
    r"(?i)(.*[\W_])?(id|uuid|guid|key|index|idx|rowid|row|rownum|row ?number|record|serial|no|nr|num|number)\W*|"
    r"unnamed.*|(?-i:.*[a-z](Id|ID|No|Nr))|id[\W_].*|column 1"
)
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}( .*)?")


@dataclass(frozen=True)
class Number:
    """A column of numbers; one input, x - origin, so that float32 keeps the digits that differ (dates, identifiers)."""

    name: str
    origin: float
    notation: Notation = USUAL_NOTATION
    range: tuple[float, float] | None = None  # smallest and largest training value; None in files of earlier versions

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.name,)

    def encode(self, found: pa.Array, first_row: int) -> NDArray[np.float32]:  # (rows,) -> (rows, 1)
        values = column_numbers(found, self.name, first_row, self.notation) - self.origin
        with np.errstate(over="ignore"):  # a number that float32 cannot hold is refused below
            encoded = values.astype(np.float32)[:, None]
        if np.isinf(encoded).any():
            row = first_row + int(np.flatnonzero(np.isinf(encoded))[0])
            raise TableError(f"Column {self.name!r} holds a number beyond 3e38 in row {row:,}. Scale the column down.")
        return encoded


@dataclass(frozen=True)
class Exposure(Number):
    """A column of numbers above 0, to which the target is in proportion; the last one of a schema, and no feature."""

    def encode(self, found: pa.Array, first_row: int) -> NDArray[np.float32]:  # (rows,) -> (rows, 1)
        encoded = super().encode(found, first_row)
        wrong = ~(encoded[:, 0] > 0)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            what = "nothing" if np.isnan(encoded[row, 0]) else f"{encoded[row, 0]:g}"
            raise TableError(
                f"The exposure {self.name!r} should be a number above 0 in every row; row {first_row + row:,} holds "
                f"{what}. Leave out such rows."
            )
        return encoded


@dataclass(frozen=True)
class Category:
    """A column of text: an input of 0 or 1 for each value, one input alone where there are two values.

    A missing cell is NaN in all of them, which a network reads as "could be any". So is a value that was never seen;
    but where rare values were put together as "other", it is one of these.
    """

    name: str
    values: tuple[str, ...]  # the most frequent first
    has_other: bool = False

    @property
    def inputs(self) -> tuple[str, ...]:
        names = [f"{self.name}={value}" for value in self.values]
        return tuple([*names, f"{self.name}=other"] if self.has_other else names[:1] if len(names) == 2 else names)

    def encode(self, found: pa.Array, first_row: int) -> NDArray[np.float32]:  # (rows,) -> (rows, inputs)
        known = pc.index_in(found.cast(pa.string()), pa.array(self.values, pa.string()), skip_nulls=True)
        code = known.fill_null(len(self.values)).to_numpy(zero_copy_only=False)
        missing = np.asarray(found.is_null()) | ((code == len(self.values)) & (not self.has_other))
        encoded: NDArray[np.float32] = (code[:, None] == np.arange(len(self.inputs))).astype(np.float32)
        encoded[missing] = np.nan
        return encoded


class FarOutside(NamedTuple):
    """A number that no training row comes near."""

    column: Number
    row: int
    value: float


class LeftOut(NamedTuple):
    """A column that is not used, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Schema:
    """The columns that a network reads, in order."""

    columns: tuple[Number | Category, ...]
    missing: tuple[str, ...] = ()  # words for missing cells, beside the usual ones

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def exposure(self) -> str:
        """Name of the column that is an exposure, the last one; empty where there is none."""
        return self.columns[-1].name if isinstance(self.columns[-1], Exposure) else ""

    @property
    def groups(self) -> dict[str, slice]:
        """Where the inputs of each column stand."""
        ends = np.cumsum([0, *(len(column.inputs) for column in self.columns)]).tolist()
        return {column.name: slice(a, b) for column, a, b in zip(self.columns, ends[:-1], ends[1:], strict=True)}

    @property
    def width(self) -> int:
        return sum(len(column.inputs) for column in self.columns)

    def check(self, names: Iterable[str]) -> None:
        """Say which column is missing from a file, if one is."""
        there = list(names)
        missing = [name for name in self.names if name not in there]
        if missing:
            more = f" and {len(missing) - 1} more of those it learnt from are" if len(missing) > 1 else " is"
            raise TableError(f"Column {missing[0]!r}{more} missing from the file.{did_you_mean(missing[0], there)}")

    def encode(self, batch: pa.RecordBatch, first_row: int = 1) -> NDArray[np.float32]:  # -> (rows, width)
        """Inputs of the network; NaN where a cell is missing or a category unknown.

        Args:
            batch: Rows with at least these columns.
            first_row: Number of the first of these rows in the file, for errors.
        """
        self.check(batch.schema.names)
        encoded = np.empty((batch.num_rows, self.width), np.float32)
        for column, place in zip(self.columns, self.groups.values(), strict=True):
            found = cells(batch[column.name], self.missing)
            if found is None:
                kind = "numbers" if isinstance(column, Number) else "text"
                raise TableError(f"Column {column.name!r} should hold {kind}; it holds {batch[column.name].type}.")
            if isinstance(column, Category) and not pa.types.is_string(found.type):
                found = pa.array([None if x is None else f"{x:.15g}" for x in found.to_pylist()], pa.string())
            encoded[:, place] = column.encode(found, first_row)
        return encoded

    def far_outside(self, X: NDArray[np.float32], first_row: int = 1) -> Iterator[FarOutside]:
        """For each column, the first number that lies more than 10 ranges of the training values beyond them.

        Args:
            X: (rows, width) from `encode`.
            first_row: Number of the first of these rows in the file.
        """
        for column, place in zip(self.columns, self.groups.values(), strict=True):
            if isinstance(column, Number) and column.range is not None:
                low, high = column.range
                values = X[:, place.start].astype(np.float64) + column.origin
                beyond = np.maximum(low - values, values - high) > FAR_RANGES * (high - low)
                if beyond.any():
                    row = int(np.argmax(beyond))
                    yield FarOutside(column, first_row + row, float(values[row]))

    def state(self) -> list[dict[str, Any]]:
        """Plain values, for a model file."""
        words = [{"missing": list(self.missing)}] if self.missing else []
        return [*map(_state, self.columns), *words]

    @classmethod
    def from_state(cls, state: object) -> Schema:
        """The inverse of `state`; a ValueError where it is something else."""
        if not isinstance(state, list) or not state:
            raise ValueError("A schema should be a list of columns.")
        match state:
            case [*described, {"missing": list(words), **rest}] if not rest and described:
                if not all(isinstance(word, str) for word in words) or len(words) > 1_000:
                    raise ValueError("A schema should have words for missing cells.")
            case described:
                words = []
        schema = cls(tuple(map(_column, described)), tuple(words))
        if len(set(schema.names)) < len(schema.names):
            raise ValueError("A schema should have columns of different names.")
        if any(isinstance(column, Exposure) for column in schema.columns[:-1]):
            raise ValueError("A schema should have one exposure at most, as its last column.")
        return schema


def find_schema(
    found: Survey, target: str, use: Collection[str] = (), exposure: str = ""
) -> tuple[Schema, list[LeftOut]]:
    """What to read of a file, and what not.

    Args:
        found: What its columns hold.
        target: Name of the column to predict.
        use: Columns to use though they look like identifiers.
        exposure: Name of the column to which the target is in proportion, if there is one.

    Raises:
        TableError: No column is left, or the exposure is not one of numbers.
    """
    others = [column for column in found.columns.values() if column.name not in (target, exposure)]
    left_out = [LeftOut(name, _type_reason(kind)) for name, kind in found.unreadable.items()]
    left_out += [LeftOut(column.name, reason) for column in others if (reason := _reason(column))]
    named = {name for name, _ in left_out}
    usable = [column for column in others if column.name not in named]
    if not usable:
        why = "; ".join(f"{shown(name)} {reason}" for name, reason in left_out[:3]) or "the target is the only one"
        raise TableError(f"No column is left to learn from: {why}.")
    identifiers = {column.name: reason for column in usable if (reason := _identifier(column, found.rows))}
    if len(identifiers) < len(usable):  # where there is nothing else, a row number may be a time
        left_out += [LeftOut(name, reason) for name, reason in identifiers.items() if name not in use]
        usable = [column for column in usable if column.name not in identifiers or column.name in use]
    exposed = [_exposure(found, exposure)] if exposure else []
    return Schema((*map(_described, usable), *exposed), found.missing), left_out


def _exposure(found: Survey, name: str) -> Exposure:
    column = found.columns.get(name)
    if column is None or column.notation is None:
        what = (
            f"{shown(column.first_text[1])} in row {column.first_text[0]:,}" if column and column.first_text else "none"
        )
        raise TableError(f"The exposure {name!r} should hold numbers; it holds {what}.")
    return Exposure(name, 0.0, column.notation, (column.low, column.high))


def _described(column: Column) -> Number | Category:
    if column.notation is not None:
        return Number(column.name, column.low / 2 + column.high / 2, column.notation, (column.low, column.high))
    values = sorted(column.counts, key=lambda text: (-column.counts[text], text))
    return Category(column.name, tuple(values[:MOST_CATEGORIES]), len(values) > MOST_CATEGORIES)


def _identifier(column: Column, rows: int) -> str | None:
    """Why a column only names its rows, or None."""
    if column.filled < rows or rows < 10:
        return None
    if column.numbers_rows:
        return f"numbers the rows from {column.low:.0f} to {column.high:.0f}; to use it: --use {quoted(column.name)}"
    if _IDENTIFIER.fullmatch(column.name) and column.has_different_whole_numbers:
        return f"is an identifier, different in every row; to use it: --use {quoted(column.name)}"
    return None


def _reason(column: Column) -> str | None:
    """Why a column cannot be used, or None."""
    different = len(column.counts)
    if column.filled == 0:
        return "is empty"
    if column.is_constant:
        return "holds one value only"
    if column.is_number:
        return None
    is_various = not column.has_all_counts or (different > 10 and different > column.filled / 2)
    if (is_various or different > MOST_CATEGORIES) and column.is_mostly_numbers and column.first_text:
        row, text = column.first_text
        return (
            f"holds numbers and text (row {row:,}: {shown(text)}); to use it, correct these cells, "
            f"or, if they mean that it is missing: --na {quoted(text)}"
        )
    if all(map(_DATE.fullmatch, column.counts)):
        return _DATES
    what, advice = "text", ""
    if column.code:
        what = f"code with leading zeros, such as {shown(column.code)},"
        advice = f"; to use it as a number: --use {quoted(column.name)}"
    if not column.has_all_counts:
        return f"holds more than {different:,} different texts{advice}"
    if is_various:
        return f"holds a different {what} in nearly every row{advice}"
    return None


_DATES = "holds dates; turn them into numbers (a year, a number of days) to use it"


def _type_reason(kind: pa.DataType) -> str:
    return _DATES if pa.types.is_temporal(kind) else f"holds {kind}, neither numbers nor text"


def _state(column: Number | Category) -> dict[str, Any]:
    if isinstance(column, Number):
        known = {} if column.range is None else {"range": list(column.range)}
        kind = "exposure" if isinstance(column, Exposure) else "number"
        return {kind: column.name, "origin": column.origin, **known, **column.notation.state()}
    return {"category": column.name, "values": list(column.values), "has_other": column.has_other}


def _column(state: object) -> Number | Category:
    match state:
        case {"number": str(name), "origin": int() | float() as origin, **rest} if np.isfinite(origin):
            known = _range(rest.pop("range")) if "range" in rest else None
            return Number(name, float(origin), Notation.from_state(rest), known)
        case {"exposure": str(name), "origin": 0.0, **rest}:
            known = _range(rest.pop("range")) if "range" in rest else None
            return Exposure(name, 0.0, Notation.from_state(rest), known)
        case {"category": str(name), "values": list(values), "has_other": bool(has_other), **rest} if not rest:
            texts = all(isinstance(value, str) for value in values) and len(set(values)) == len(values)
            if texts and 2 <= len(values) <= MOST_CATEGORIES:
                return Category(name, tuple(values), has_other)
    raise ValueError(f"A column of a schema should be a number or a category, got {shown(state)}.")


def _range(state: object) -> tuple[float, float]:
    match state:
        case [float(low), float(high)] if np.isfinite([low, high]).all() and low <= high:
            return low, high
    raise ValueError(f"The range of a column should be two finite numbers, the smaller one first, got {shown(state)}.")
