"""Tables of every kind as columns: dicts, frames of pandas and polars, Arrow tables, arrays, rows of CSV files."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from npn_runtime.errors import TableError, did_you_mean, shown


class Frame(NamedTuple):
    """Columns by name.

    `first_row` is the number of the first row, for errors. `is_text` says that all cells are text of a file, where an
    empty one is missing.
    """

    columns: Mapping[str, Any]
    rows: int
    first_row: int = 1
    is_text: bool = False

    def parts(self, rows: int) -> Iterator[Frame]:
        """The same in parts of at most so many rows; at least one."""
        for start in range(0, max(self.rows, 1), rows):
            part = {name: column[start : start + rows] for name, column in self.columns.items()}
            yield Frame(part, min(rows, self.rows - start), self.first_row + start)


def frame_of(table: Any, names: Sequence[str]) -> Frame:
    """The columns of a table that have these names; others do no harm, nor does another order.

    Raises:
        TableError: One is missing, two have different lengths, or it is no table.
    """
    if isinstance(table, np.ndarray) and table.ndim == 2:
        if table.shape[1] != len(names):
            raise TableError(f"Expected an array with {len(names)} columns, got {table.shape[1]}.")
        return Frame(dict(zip(names, table.T, strict=True)), len(table))
    there = _names(table)
    check_names(names, there)
    columns = {name: _column(table, name, there) for name in names}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        short, long = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        raise TableError(
            f"Columns should be of one length; {short!r} has {lengths[short]:,} rows and {long!r} {lengths[long]:,}."
        )
    return Frame(columns, next(iter(lengths.values()), 0))


def check_names(names: Sequence[str], there: Sequence[str]) -> None:
    """Say which column is missing, if one is."""
    known = set(there)
    missing = [name for name in names if name not in known]
    if missing:
        more = f" and {len(missing) - 1} more of those that the model reads are" if len(missing) > 1 else " is"
        raise TableError(f"Column {missing[0]!r}{more} missing from the table.{did_you_mean(missing[0], there)}")


def _names(table: Any) -> list[str]:
    if isinstance(table, Mapping):
        return [str(name) for name in table]
    names = getattr(table, "column_names", None) or getattr(table, "columns", None)  # of Arrow; of pandas and polars
    if names is None or isinstance(table, np.ndarray):
        raise TableError(
            "Expected a dict of columns, a frame of pandas or polars, an Arrow table, an array (rows, columns) or the "
            f"path of a CSV file, got {shown(type(table).__name__)}."
        )
    return [str(name) for name in names]


def _column(table: Any, name: str, there: Sequence[str]) -> Any:
    """The cells of a column: a numpy array of numbers where it is one of numbers, else what Python has."""
    if isinstance(table, Mapping):
        column = table[name] if name in table else next(table[key] for key in table if str(key) == name)
        if isinstance(column, str) or not hasattr(column, "__len__"):
            raise TableError(f"Column {name!r} should be a list or an array, got {shown(column)}.")
        return column
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(table, pandas.DataFrame):
        return _of_pandas(table.iloc[:, there.index(name)])
    column = table[name]
    if polars is not None and isinstance(table, polars.DataFrame):
        return column.to_numpy() if column.dtype.is_numeric() else column.to_list()
    if column.type.bit_width in (8, 16, 32, 64) and str(column.type).startswith(("int", "uint", "float", "double")):
        return column.to_numpy(zero_copy_only=False) if hasattr(column, "type_id") else column.to_numpy()
    return column.to_pylist()


def _of_pandas(column: Any) -> Any:
    if getattr(column.dtype, "kind", "O") in "iuf":
        return column.to_numpy(np.float64, na_value=np.nan)
    if getattr(column.dtype, "kind", "O") == "b" and column.dtype == bool:
        return column.to_numpy()
    return column.astype(object).tolist()  # timestamps among them, which are datetimes
