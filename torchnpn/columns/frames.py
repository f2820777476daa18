"""Tables in memory: pandas and polars frames, Arrow tables and arrays, column by column."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from torchnpn.columns.cells import CLOCK, LOCAL, NONE, UTC, Cells, Texts, Times, in_days, label, of_array

Array = NDArray[Any]


class Frame(NamedTuple):
    """A table in memory, with columns of different names."""

    content: Any  # a pandas frame, an Arrow table or an array
    names: tuple[str, ...]

    @classmethod
    def of(cls, X: Any) -> Frame | None:
        """`X` as a frame; None for arrays, for what is no table, and where it takes pyarrow, which is not there."""
        if is_pandas(X):
            return cls(X, tuple(map(str, X.columns)))
        if not hasattr(X, "__arrow_c_stream__") or importlib.util.find_spec("pyarrow") is None:
            return None
        table = _pyarrow().table(X)
        return cls(table, tuple(table.column_names))

    @classmethod
    def of_array(cls, X: Array) -> Frame:  # (rows, features)
        """An array as a frame whose columns are called by their numbers."""
        return cls(X, tuple(map(str, range(X.shape[1]))))

    @property
    def rows(self) -> int:
        return len(self.content)

    @property
    def is_plain(self) -> bool:
        """Whether all columns are of types of numbers, or of truth values."""
        if is_pandas(self.content):
            return all(getattr(kind, "kind", "O") in "biufc" for kind in self.content.dtypes.unique())
        if isinstance(self.content, np.ndarray):
            return self.content.dtype.kind in "biufc"
        types = _pyarrow().types
        return all(
            types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind)
            for kind in self.content.schema.types
        )

    def is_category(self, place: int) -> bool:
        """Whether a column's type says that it holds categories."""
        if is_pandas(self.content):
            return type(self.content.dtypes.iloc[place]).__name__ == "CategoricalDtype"
        if isinstance(self.content, np.ndarray):
            return False
        return bool(_pyarrow().types.is_dictionary(self.content.schema.types[place]))

    def cells(self, place: int) -> Cells:
        """The cells of a column.

        Raises:
            ValueError: They are neither numbers, nor text, categories, dates or times.
        """
        name = self.names[place]
        if is_pandas(self.content):
            return _pandas_cells(self.content.iloc[:, place], name)
        if isinstance(self.content, np.ndarray):
            return of_array(self.content[:, place], name)
        return arrow_cells(self.content.column(place).combine_chunks(), name)

    def every(self) -> Iterator[Cells]:
        """The cells of each column."""
        return map(self.cells, range(len(self.names)))


def is_pandas(X: Any) -> bool:
    """Whether it is a frame of pandas, which is imported if it is."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(X, pandas.DataFrame)


def _pandas_cells(column: Any, name: str) -> Cells:
    kind = type(column.dtype).__name__
    if kind == "CategoricalDtype":
        return Texts(column.cat.codes.to_numpy(np.int64), [label(level) for level in column.cat.categories.tolist()])
    if kind == "ArrowDtype":
        return arrow_cells(column.array.__arrow_array__().combine_chunks(), name)
    if kind == "DatetimeTZDtype":
        in_utc = column.dt.tz_convert("UTC").dt.tz_localize(None)
        return Times(in_utc.to_numpy().astype("datetime64[us]"), UTC)
    if kind == "PeriodDtype":
        return Times(column.dt.to_timestamp().to_numpy().astype("datetime64[us]"), LOCAL)
    if getattr(column.dtype, "kind", "O") in "biuf":
        values: Array = column.to_numpy(np.float64, na_value=np.nan)
        return values
    return of_array(column.to_numpy(object if kind == "StringDtype" else None), name)


def arrow_cells(column: Any, name: str) -> Cells:
    """Cells of an Arrow array.

    Raises:
        ValueError: They are neither numbers, nor text, categories, dates or times.
    """
    pa = _pyarrow()
    types, kind = pa.types, column.type
    if types.is_dictionary(kind):
        levels: Sequence[str] = [label(level) for level in column.dictionary.to_pylist()]
        return Texts(column.indices.cast(pa.int64()).fill_null(NONE).to_numpy(zero_copy_only=False), levels)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return arrow_cells(column.cast(pa.large_string()).dictionary_encode(), name)
    if types.is_boolean(kind):
        column = column.cast(pa.uint8())
    if types.is_timestamp(kind) or types.is_date(kind):
        values = column.cast(pa.timestamp("us"), safe=False).to_numpy(zero_copy_only=False)
        return Times(values, UTC if getattr(kind, "tz", None) else LOCAL)
    if types.is_time(kind):
        of_day = column.cast(pa.time64("us"), safe=False).cast(pa.int64()).cast(pa.timestamp("us"))
        return Times(of_day.to_numpy(zero_copy_only=False), CLOCK)
    if types.is_duration(kind):
        return in_days(column.cast(pa.duration("us"), safe=False).to_numpy(zero_copy_only=False))
    if not (types.is_primitive(column.type) or types.is_decimal(kind) or types.is_null(kind)):
        raise ValueError(f"Column {name!r} holds {kind}; expected numbers, text, categories, dates or times.")
    numbers: Array = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers


def _pyarrow() -> Any:
    return importlib.import_module("pyarrow")  # which not everybody has
