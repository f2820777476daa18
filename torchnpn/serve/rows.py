"""Bodies of requests as inputs of a network: JSON objects and CSV tables with the columns of a model."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from torchnpn._text import did_you_mean, shown
from torchnpn.columns import Number
from torchnpn.serve.limits import Limits, Refused
from torchnpn.table_files import open_bytes
from torchnpn.tables import Schema, TableModel

Array = NDArray[Any]
Row = dict[str, Any]
_KNOWN_TEXTS, _LONGEST = 1_000, 100  # cells of each column whose inputs are remembered, and their characters
_DELIMITERS = (b",", b";", b"\t", b"|")


def parsed(body: bytes, limits: Limits) -> tuple[list[Row], bool]:
    """The rows of a JSON body, and whether it was a single one."""
    try:
        content = json.loads(body, parse_constant=_refuse_constant)
    except RecursionError:
        raise Refused(400, "The body is nested too deeply: expected an object, or a list of objects.") from None
    except ValueError as error:  # of JSON, of UTF-8, or of an integer with thousands of digits
        raise Refused(400, f"The body is not JSON: {str(error).rstrip('.')}.") from None
    single = isinstance(content, dict)
    rows = [content] if single else content
    if not isinstance(rows, list) or not rows:
        raise Refused(422, f"Expected a row as a JSON object, or a list of rows, got {_kind(content)}.")
    if len(rows) > limits.rows:
        raise Refused(
            413, f"Expected at most {limits.rows:,} rows in a request, got {len(rows):,}: send them in parts."
        )
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise Refused(422, f"Expected each row to be a JSON object; row {number:,} is {_kind(row)}.")
        if len(row) > limits.columns:
            raise Refused(413, f"Expected at most {limits.columns:,} columns; row {number:,} has {len(row):,}.")
    return rows, single


class RowReader:
    """From rows as JSON gives them to inputs; a single row of plain numbers and known texts takes a short way.

    Numbers are numbers; text is read as in a CSV file; null is a missing value. A column that the model reads must be
    there, since one that is misspelt would else count as missing; others are ignored.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        places = zip(schema.columns, schema.groups.values(), strict=True)
        self._columns = [(column, place, self._reader_of_texts(column)) for column, place in places]

    def encode(self, rows: Sequence[Row]) -> Array:  # -> (rows, width)
        """Inputs of the network; a TableError for a cell that cannot be read."""
        if len(rows) == 1 and not self.schema.exposure and (quick := self._quickly(rows[0])) is not None:
            return quick
        self._check_names(rows)
        columns = {column.name: _cells([row[column.name] for row in rows], column) for column in self.schema.columns}
        return self.schema.encode(pa.RecordBatch.from_pydict(columns))

    def _quickly(self, row: Row) -> Array | None:
        """The inputs of a row, or None where it needs a closer look."""
        x = np.empty((1, self.schema.width), np.float32)
        try:
            for column, place, texts in self._columns:
                value = row[column.name]
                if value is None:
                    x[0, place] = math.nan
                elif isinstance(column, Number):
                    if type(value) not in (int, float) or not abs(value) < 1e30:
                        return None
                    x[0, place.start] = value - column.origin
                elif type(value) is str and len(value) <= _LONGEST:
                    x[0, place] = texts(value)
                else:
                    return None
        except (KeyError, UnicodeError):
            return None
        return x

    def _reader_of_texts(self, column: Any) -> Any:
        alone = dataclasses.replace(self.schema, columns=(column,))

        @functools.lru_cache(_KNOWN_TEXTS)
        def inputs(text: str) -> Array:  # (width of the column,)
            encoded: Array = alone.encode(pa.RecordBatch.from_pydict({column.name: pa.array([text])}))[0]
            return encoded

        return inputs

    def _check_names(self, rows: Sequence[Row]) -> None:
        for number, row in enumerate(rows, 1):
            for name in self.schema.names:
                if name not in row:
                    raise Refused(
                        422,
                        f"Column {name!r} is missing from row {number:,}; send null where a value is unknown."
                        f"{did_you_mean(name, row) if row else ''}",
                    )


class CsvPart(NamedTuple):
    """Some rows of a CSV body."""

    rows: pa.RecordBatch
    X: Array  # (rows, inputs)


def read_csv(body: bytes, model: TableModel, limits: Limits) -> Iterator[CsvPart]:
    """The rows of a CSV body, with cells read as `npn predict` does; a TableError where it cannot be read."""
    for line in body.splitlines():
        if len(line) >= limits.columns and (cells := 1 + max(map(line.count, _DELIMITERS))) > limits.columns:
            raise Refused(413, f"Expected at most {limits.columns:,} columns, got a line with {cells:,} cells.")
    table = open_bytes(body, "The body", model.schema.names)
    model.schema.check(table.names)
    done, adapted = 0, model
    for batch in table.batches():
        if done + batch.num_rows > limits.rows:
            raise Refused(413, f"Expected at most {limits.rows:,} rows in a request, got more: send them in parts.")
        adapted = model.for_file(batch, table.delimiter) if not done else adapted
        yield CsvPart(batch, adapted.schema.encode(batch, done + 1))
        done += batch.num_rows


def _cells(values: list[Any], column: Any) -> pa.Array:
    """JSON values of one column as Arrow's: of one type, or else as texts."""
    try:
        if isinstance(column, Number):
            return pa.array([float(value) if type(value) is int else value for value in values])
        return pa.array([str(value) if type(value) is int else value for value in values])
    except OverflowError:
        raise Refused(422, f"Column {column.name!r} holds a number beyond 3e38; scale the column down.") from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeError):
        pass
    for number, value in enumerate(values, 1):
        if not isinstance(value, (str, int, float, type(None))):
            raise Refused(
                422, f"Column {column.name!r} holds {_kind(value)} in row {number:,}; expected a single value."
            )
    try:
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    except UnicodeError:
        raise Refused(422, f"Column {column.name!r} holds text with half a character (a lone surrogate).") from None


def _refuse_constant(name: str) -> float:
    raise Refused(422, f"JSON has no {name}: send null where a value is unknown.")


def _kind(value: object) -> str:
    match value:
        case dict():
            return "an object"
        case []:
            return "an empty list"
        case list():
            return "a list"
        case None:
            return "null"
    return shown(value)
