"""The decimal marks of a new file, which may be written in another way than the file that a model learnt from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pyarrow as pa

from torchnpn.columns import Number
from torchnpn.table_files import COMMA, POINT, Notation, Reading, SurveyedColumn, cells, other_mark
from torchnpn.tables.schema import FAR_RANGES


def notations(
    known: Mapping[Number, Notation], batch: pa.RecordBatch, delimiter: str, missing: Sequence[str] = ()
) -> dict[str, Notation]:
    """How the first rows of a file write these columns.

    A column's own cells decide; where all of them can be read both ways (1.234), it is the mark that the model knows,
    unless the other columns contradict what the model knows of them. Where no cell of the file decides anything, it is
    the reading that is nearer to the training values, if the delimiter is not usual for the known mark, or if the known
    mark gives numbers far outside the training values.

    Args:
        known: Columns of numbers, and how they were written; those that the file lacks are left alone.
        batch: The first rows.
        delimiter: What stands between the cells of the file.
        missing: Words for missing cells.
    """
    there = [column for column in known if column.name in batch.schema.names]
    seen = {column.name: _seen(column.name, batch, missing) for column in there}
    same = sum(seen[column.name].readings[known[column].decimal].only for column in there)
    different = sum(seen[column.name].readings[other_mark(known[column].decimal)].only for column in there)
    found = {}
    for column in there:
        notation, readings = known[column], seen[column.name].readings
        own, other = readings[notation.decimal], readings[other_mark(notation.decimal)]
        if own.only != other.only:
            changed = other.only > own.only
        elif same or different:
            changed = different > same
        else:
            usual = {",": POINT, ";": COMMA}.get(delimiter) == notation.decimal
            is_unlikely = not usual or _is_far(own, column.range)
            changed = is_unlikely and _distance(other, column.origin) < _distance(own, column.origin)
        found[column.name] = Notation(other_mark(notation.decimal), notation.missing) if changed else notation
    return found


def _seen(name: str, batch: pa.RecordBatch, missing: Sequence[str]) -> SurveyedColumn:
    column, found = SurveyedColumn(name), cells(batch[name], missing)
    if found is not None and pa.types.is_string(found.type):
        column.add(found, 1)
    return column


def _distance(reading: Reading, middle: float) -> float:
    """By how many orders of magnitude a column's numbers lie away from what is known."""
    here = abs(reading.low / 2 + reading.high / 2)
    if not reading.cells or not here or not middle:
        return math.inf
    return abs(math.log(here) - math.log(abs(middle)))


def _is_far(reading: Reading, known: tuple[float, float] | None) -> bool:
    """Whether all of a column's numbers lie far outside the training values."""
    if known is None or not reading.cells:
        return False
    low, high = known
    return max(low - reading.high, reading.low - high) > FAR_RANGES * (high - low)
