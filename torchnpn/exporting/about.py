"""What an exported file says of itself: format 1, one JSON text under the key `torchnpn` of the file's metadata.

    {
      "format": 1,
      "library": "0.1.0",                     of torchnpn, which wrote it
      "kind": "regression",                   or "classification", or "network"
      "model": "TableModel",                  what was exported
      "input": "X",                           name of the only input, float64 (rows, columns): one row, one vector
      "columns": [                            in the order of the input
        {"name": "age", "kind": "number", "range": [17.0, 90.0]},
        {"name": "price", "kind": "number", "decimal": ",", "unit": "€", "missing": ["so far"]},
        {"name": "colour", "kind": "category", "levels": ["red", "blue"], "other": false},
        {"name": "sold", "kind": "date", "clock": "local", "order": "ymd"},
        {"name": "months", "kind": "exposure"}
      ],
      "missing": ["unknown"],                 words for a missing cell, beside the usual ones (empty, NA, …)
      "target": {"name": "sales", "family": "gamma", "unit": "€", "targets": 1},
      "outputs": {"mean": "…", "variance": "…"}, words for each output, in the order of the file
      "interval": 0.9,                        what the interval from `low` to `high` holds
      "levels": [0.05, 0.5, 0.95],            of `quantiles`, its last dimension
      "classes": ["no", "yes"]                of a classification: the last dimension of `probabilities`
    }

All arithmetic is in the graph; what is left to a runtime is to make a number of each cell, NaN where it is missing:

- `number`: itself. Text is read with the mark in `decimal` ("." if there is none); the sign of a unit, that of
  `unit`, and separators of thousands may stand in it. Truth values are 0 and 1, lengths of time days.
- `exposure`: the same; above 0, and never missing.
- `category`: the place of its text in `levels`, from 0; of a text that is none of them the number of levels where
  `other` is true, else NaN. A number has the text that C's %.15g gives it: 1, and not 1.0.
- `date`: seconds since 1970-01-01 00:00, to the microsecond. They are of the clock's reading where `clock` is "local"
  (no time zone), in UTC where it is "utc" (with one), and since midnight where it is "clock" (times of day). Text has
  year, month and day in the `order` "ymd", "dmy" or "mdy".

`range` is that of the training rows, where it is known. A file never needs more than it says: unknown keys may be
ignored, and another number in "format" is a format that this text does not describe.

Outputs are float64, with `rows` as their first dimension. Of a regression: `mean`, `variance`, `epistemic`,
`aleatoric`, `low`, `high`, each (rows,), or (rows, targets) where "targets" is there in "target" and above 1; and
`quantiles`, with a last dimension for the levels, if there are levels. Of a classification: `probabilities`
(rows, classes) and `uncertainty` (rows,), the entropy over its largest value; and, if they were asked for, `variance`,
`epistemic`, `aleatoric` (rows, classes). Of a network: `mean` and `variance` of its outputs; its inputs are two,
`input_mean` and `input_variance` (rows, in_features) in float32, and "input" and "columns" are not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import torchnpn
from torchnpn.columns import Category, Column, Columns, Date, Number
from torchnpn.estimators import NPNClassifier, NPNRegressor

KEY = "torchnpn"
FORMAT = 1

WORDS = {
    "mean": "expected value of the target",
    "variance": "variance of the target",
    "epistemic": "part of the variance that more data would take away",
    "aleatoric": "part of the variance that no data takes away",
    "low": "lower end of the interval",
    "high": "upper end of the interval",
    "quantiles": "quantiles at the levels",
    "probabilities": "probability of each class",
    "uncertainty": "entropy of the classes, 0 where one is certain and 1 where all are as likely",
}


def about(kind: str, model: str, outputs: Sequence[str], **others: Any) -> dict[str, Any]:
    """The metadata of a file; what is None is left out."""
    start = {"format": FORMAT, "library": torchnpn.__version__, "kind": kind, "model": model}
    words = {name: WORDS[name] for name in outputs}
    return {**start, "outputs": words, **{name: value for name, value in others.items() if value is not None}}


def columns_of(estimator: NPNRegressor | NPNClassifier) -> tuple[Column, ...]:
    """The columns that an estimator reads; of an array, they are called by their numbers."""
    if estimator.columns_ is not None:
        return estimator.columns_.columns
    names = getattr(estimator, "feature_names_in_", np.arange(estimator.n_features_in_).astype(str))
    return tuple(Number(str(name)) for name in names)


def described(columns: Columns | Sequence[Column], notations: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Columns as the metadata has them.

    Args:
        columns: In the order of the input.
        notations: How the numbers of some of them are written, as a table's schema knows it.
    """
    every = columns.columns if isinstance(columns, Columns) else columns
    return [_described(column, (notations or {}).get(column.name)) for column in every]


def _described(column: Column, notation: Any) -> dict[str, Any]:
    if isinstance(column, Category):
        return {"name": column.name, "kind": "category", "levels": list(column.values), "other": column.has_other}
    if isinstance(column, Date):
        return {"name": column.name, "kind": "date", "clock": column.clock, "order": column.order}
    kind = "number" if type(column) is Number else "exposure"
    known = {} if column.range is None else {"range": list(column.range)}
    written = {} if notation is None else {key: value for key, value in notation.state().items() if value}
    return {"name": column.name, "kind": kind, **known, **written}
