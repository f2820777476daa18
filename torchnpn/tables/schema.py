"""Which columns of a file a network reads, and how the file writes them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from shlex import quote as quoted
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from torchnpn import table_files
from torchnpn._text import did_you_mean, shown
from torchnpn.columns import (
    Category,
    Cells,
    Column,
    Columns,
    Date,
    Number,
    Texts,
    arrow_cells,
    column_from_state,
    orders,
)
from torchnpn.table_files import USUAL_NOTATION, Notation, Survey, TableError, cells, column_numbers

FAR_RANGES = 10  # a number further outside the training values than so many of their ranges is suspicious
_MANY_TEXTS = 64  # different ones, more than numbers with a few words among them have
_OF_NOTATION = ("decimal", "missing", "unit")  # what the state of a column of numbers holds of it
_IDENTIFIER = re.compile(
    r"(?i)(.*[\W_])?(id|uuid|guid|key|index|idx|rowid|row|rownum|row ?number|record|serial|no|nr|num|number)\W*|"
    r"unnamed.*|(?-i:.*[a-z](Id|ID|No|Nr))|id[\W_].*|column 1"
)
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}( .*)?")
_ADVICE = "write them as 2024-12-31 to use it"


@dataclass(frozen=True)
class Exposure(Number):
    """A column of numbers above 0, to which the target is in proportion; the last one of a schema, and no feature."""

    def encode(self, cells: Cells, first_row: int = 0) -> NDArray[Any]:  # (rows,) -> (rows, 1)
        encoded = super().encode(cells, first_row)
        wrong = ~(encoded[:, 0] >= np.finfo(np.float32).tiny)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            what = "nothing" if np.isnan(encoded[row, 0]) else f"{encoded[row, 0]:g}"
            raise TableError(
                f"The exposure {self.name!r} should be a number above 0 in every row; row {first_row + row:,} holds "
                f"{what}. Leave out such rows."
            )
        return encoded

    def state(self) -> dict[str, Any]:
        """Plain values, for a model file."""
        return {"exposure" if name == "number" else name: value for name, value in super().state().items()}

    @classmethod
    def from_state(cls, state: object) -> Exposure:
        """The inverse of `state`; a ValueError where it is something else."""
        plain = dict(state) if isinstance(state, dict) else {}
        number = Number.from_state({"number" if name == "exposure" else name: value for name, value in plain.items()})
        if number.origin:
            raise ValueError(f"An exposure should be a column of numbers from 0 on, got {shown(state)}.")
        return cls(number.name, 0.0, number.range)


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
class Schema(Columns):
    """The columns that a network reads, in order, and how files write them."""

    missing: tuple[str, ...] = ()  # words for missing cells, beside the usual ones
    notations: Mapping[str, Notation] = field(default_factory=dict)  # of numbers, where it is not the usual one

    @property
    def exposure(self) -> str:
        """Name of the column that is an exposure, the last one; empty where there is none."""
        return self.columns[-1].name if isinstance(self.columns[-1], Exposure) else ""

    def notation(self, name: str) -> Notation:
        """How the numbers of a column are written."""
        return self.notations.get(name, USUAL_NOTATION)

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
            with np.errstate(over="ignore"):  # a number that float32 cannot hold is refused below
                encoded[:, place] = self._encoded(column, found, first_row)
            if np.isinf(encoded[:, place]).any():
                row = first_row + int(np.flatnonzero(np.isinf(encoded[:, place.start]))[0])
                raise TableError(
                    f"Column {column.name!r} holds a number beyond 3e38 in row {row:,}. Scale the column down."
                )
        return encoded

    def _encoded(self, column: Column, found: pa.Array, first_row: int) -> NDArray[Any]:
        if isinstance(column, Number):
            numbers = column_numbers(found, column.name, first_row, self.notation(column.name))
            return column.encode(numbers, first_row)
        try:
            return column.encode(arrow_cells(found, column.name), first_row)
        except ValueError as error:
            raise TableError(f"{error} Correct the cell, or leave it empty to mark it as missing.") from None

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
        return [*({**column.state(), **self.notation(column.name).state()} for column in self.columns), *words]

    @classmethod
    def from_state(cls, state: object) -> Schema:
        """The inverse of `state`; a ValueError where it is something else."""
        match state:
            case [*described, {"missing": list(words), **rest}] if not rest and described:
                if not all(isinstance(word, str) for word in words) or len(words) > 1_000:
                    raise ValueError("A schema should have words for missing cells.")
            case list(described) if described:
                words = []
            case _:
                raise ValueError("A schema should be a list of columns.")
        apart = [_apart(one) for one in described]
        columns = tuple(_column(plain) for plain, _ in apart)
        found = zip(columns, (Notation.from_state(notation) for _, notation in apart), strict=True)
        notations = {column.name: notation for column, notation in found if notation != USUAL_NOTATION}
        schema = cls(columns, tuple(words), notations)
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
    described = (*map(_described, usable), *exposed)
    notations = {column.name: found.columns[column.name].notation for column in described}
    special = {name: notation for name, notation in notations.items() if notation not in (None, USUAL_NOTATION)}
    return Schema(described, found.missing, special), left_out


def _exposure(found: Survey, name: str) -> Exposure:
    column = found.columns.get(name)
    if column is None or column.notation is None:
        what = (
            f"{shown(column.first_text[1])} in row {column.first_text[0]:,}" if column and column.first_text else "none"
        )
        raise TableError(f"The exposure {name!r} should hold numbers; it holds {what}.")
    return Exposure(name, 0.0, (column.low, column.high))


def _described(column: table_files.SurveyedColumn) -> Column:
    if column.is_number:
        return Number(column.name, column.low / 2 + column.high / 2, (column.low, column.high))
    texts = column.texts
    match orders(texts):
        case [order]:
            return Date.learn(column.name, Texts(np.arange(len(texts)), texts), order)
    return Category.learn(column.name, column.counts)


def _identifier(column: table_files.SurveyedColumn, rows: int) -> str | None:
    """Why a column only names its rows, or None."""
    if column.filled < rows or rows < 10:
        return None
    if column.numbers_rows:
        return f"numbers the rows from {column.low:.0f} to {column.high:.0f}; to use it: --use {quoted(column.name)}"
    if _IDENTIFIER.fullmatch(column.name) and column.has_different_whole_numbers:
        return f"is an identifier, different in every row; to use it: --use {quoted(column.name)}"
    return None


def _reason(column: table_files.SurveyedColumn) -> str | None:
    """Why a column cannot be used, or None."""
    different = len(column.counts)
    if column.filled == 0:
        return "is empty"
    if column.is_constant:
        return "holds one value only"
    if column.is_number:
        return None
    is_various = not column.has_all_counts or (different > 10 and different > column.filled / 2)
    if (is_various or different > _MANY_TEXTS) and column.is_mostly_numbers and column.first_text:
        row, text = column.first_text
        return (
            f"holds numbers and text (row {row:,}: {shown(text)}); to use it, correct these cells, "
            f"or, if they mean that it is missing: --na {quoted(text)}"
        )
    match orders(column.texts):
        case [_]:
            return None
        case [_, *_]:
            return f"holds dates with the day or the month first, such as {shown(column.texts[0])}; {_ADVICE}"
    if all(map(_DATE.fullmatch, column.texts)):
        return f"holds dates, of which some cannot be read, such as {shown(column.texts[0])}; {_ADVICE}"
    what, advice = "text", ""
    if column.code:
        what = f"code with leading zeros, such as {shown(column.code)},"
        advice = f"; to use it as a number: --use {quoted(column.name)}"
    if not column.has_all_counts:
        return f"holds more than {different:,} different texts{advice}"
    if is_various:
        return f"holds a different {what} in nearly every row{advice}"
    return None


def _apart(state: object) -> tuple[object, dict[str, Any]]:
    """What a file says of a column, and how its numbers are written."""
    if not isinstance(state, dict) or not state.keys() & {"number", "exposure"}:
        return state, {}
    plain = {name: value for name, value in state.items() if name not in _OF_NOTATION}
    return plain, {name: value for name, value in state.items() if name in _OF_NOTATION}


def _column(state: object) -> Column:
    is_exposure = isinstance(state, dict) and "exposure" in state and "number" not in state
    return Exposure.from_state(state) if is_exposure else column_from_state(state)


def _type_reason(kind: pa.DataType) -> str:
    return f"holds {kind}, neither numbers, text nor dates"
