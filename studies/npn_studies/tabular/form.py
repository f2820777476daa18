"""A table of a package as numbers: one column for each level of a category, or a code for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from npn_studies.tabular.collection import Table
from npn_studies.tabular.rows import Rows
from npn_studies.tabular.sources import TARGET, raw

Array = NDArray[Any]
MOST_ROWS = 20_000  # of a longer table, so many are drawn
MOST_LEVELS = 20  # of a column of strings; rarer ones share a column
LEAST_ROWS = 5  # of a class: every split has some to learn from


def rows(table: Table) -> Rows:
    """The table from the package that has it; `NotInstalled` says what is missing."""
    columns = frame(table)
    target = columns.pop(TARGET)
    columns = columns.drop(columns=table.text.split())
    numeric = pd.concat([_numbers(columns[name], name) for name in columns], axis=1)
    numeric = numeric.loc[:, numeric.nunique(dropna=False) > 1]
    categorical = [
        not pd.api.types.is_numeric_dtype(columns[name].dtype) and not _is_day(columns[name]) for name in columns
    ]
    coded = np.column_stack([_codes(columns[name]) for name in columns])
    y = pd.factorize(target, sort=True)[0] if table.kind == "classes" else target.to_numpy(np.float64)
    X = _single(numeric.to_numpy(np.float64))
    return Rows(table, X, _single(coded) if any(categorical) else X, np.array(categorical), y)


def frame(table: Table) -> pd.DataFrame:
    """The columns that may be seen, as numbers, days and strings, with the target in the column `target`."""
    columns = _chosen_columns(table, raw(table.source))
    columns = columns[columns[TARGET].notna()]
    if table.kind == "amounts":  # of people with an expense, a wage, ...: whether there is one is another question
        columns = columns[columns[TARGET] > 0]
    if len(columns) > MOST_ROWS:
        drawn = np.random.default_rng(0).choice(len(columns), MOST_ROWS, replace=False)
        columns = columns.iloc[np.sort(drawn)]
    if table.kind == "classes":
        columns = columns[columns.groupby(TARGET)[TARGET].transform("size") >= LEAST_ROWS]
    return columns.reset_index(drop=True)


def _chosen_columns(table: Table, columns: pd.DataFrame) -> pd.DataFrame:
    """Without what must not be seen; numbers as numbers, days as days, all else as strings."""
    nominal = {*table.nominal.split(), *table.text.split()}
    unknown = {*table.dropped.split(), *nominal, table.target} - set(columns)
    if unknown:
        raise KeyError(f"{table.source} has no column {', '.join(sorted(unknown))}; it has {', '.join(columns)}.")
    columns = columns.drop(columns=table.dropped.split()).rename(columns={table.target: TARGET})
    if table.kind == "classes":
        nominal.add(TARGET)
    return pd.DataFrame({name: _strings(c) if name in nominal else _typed(c) for name, c in columns.items()})


def _strings(column: pd.Series) -> pd.Series:
    text = column.dropna().map(lambda value: f"{value:g}" if isinstance(value, float) else str(value))
    return text.astype(object).reindex(column.index)


def _typed(column: pd.Series) -> pd.Series:
    if pd.api.types.is_numeric_dtype(column.dtype):
        return pd.Series(column.to_numpy(np.float64, na_value=np.nan), column.index)
    text = column.dropna().astype(str)
    numbers = pd.to_numeric(text, errors="coerce")
    if numbers.notna().all():
        return numbers.astype(np.float64).reindex(column.index)
    if text.str.fullmatch(r"\d{4}-\d\d-\d\d([T ].*)?").all():
        return pd.to_datetime(text.str[:10]).reindex(column.index)
    return text.astype(object).reindex(column.index)


def _is_day(column: pd.Series) -> bool:
    return bool(pd.api.types.is_datetime64_any_dtype(column.dtype))


def _days(column: pd.Series) -> pd.Series:
    return (column - column.min()).dt.days.astype(np.float64)


def _numbers(column: pd.Series, name: str) -> pd.DataFrame:
    """A number as it is; a day as its distance from the first, month and weekday; strings as one column a level."""
    if _is_day(column):
        parts = {"days": _days(column), "month": column.dt.month, "weekday": column.dt.weekday}
        return pd.DataFrame({f"{name} {part}": values.astype(np.float64) for part, values in parts.items()})
    if pd.api.types.is_numeric_dtype(column.dtype):
        return pd.DataFrame({name: column})
    column = column.fillna("missing")
    levels = list(column.value_counts().sort_index().sort_values(ascending=False, kind="stable").index)
    if len(levels) > MOST_LEVELS:
        column = column.where(column.isin(levels[: MOST_LEVELS - 1]), "other levels")
        levels = [*levels[: MOST_LEVELS - 1], "other levels"]
    levels = levels[1:] if len(levels) == 2 else levels
    return pd.DataFrame({f"{name}={level}": (column == level).astype(np.float64) for level in levels})


def _codes(column: pd.Series) -> Array:
    if _is_day(column):
        return np.asarray(_days(column))
    if pd.api.types.is_numeric_dtype(column.dtype):
        return np.asarray(column)
    codes = pd.factorize(column, sort=True)[0].astype(np.float64)
    return np.where(codes < 0, np.nan, codes)


def _single(X: Array) -> Array:
    """Rounded to float32, in which they are written: the same numbers on every machine."""
    return np.asarray(X.astype(np.float32).astype(np.float64))
