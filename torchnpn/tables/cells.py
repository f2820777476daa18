"""The cells of one row: what they say, and what each does to the prediction and to its uncertainty.

What a cell does is seen by taking it away. A missing value is nothing special to these networks: it enters with the
mean and the variance that its column has. So the same row is predicted once for each column with that cell missing, and
the differences say what it is worth to know: how far the mean moves, and how much narrower the prediction becomes.
Columns with the same information share it: where both are known, each one alone can be missed.
"""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from torchnpn.columns import Category, Column, Date
from torchnpn.estimators import NPNClassifier
from torchnpn.tables.model import TableModel, uncertainty
from torchnpn.tables.record import people_read
from torchnpn.tables.schema import Schema

Array = NDArray[Any]


class CellEffects(NamedTuple):
    """Against the same row with that cell missing, for each column that has a cell in this row."""

    names: tuple[str, ...]
    mean: Array  # change of the predicted mean, or of the probability of the predicted class
    spread: Array  # change of the standard deviation, or of the uncertainty of the class


def cell_effects(model: TableModel, x: Array) -> CellEffects:
    """What each cell of a row does.

    Args:
        model: Fitted.
        x: (1, inputs) the row, as `schema.encode` reads it. An exposure is no cell.
    """
    places = model.schema.groups
    names = tuple(name for name in places if name != model.schema.exposure and not np.isnan(x[0, places[name]]).all())
    rows = np.repeat(x, 1 + len(names), axis=0)
    for i, name in enumerate(names, 1):
        rows[i, places[name]] = np.nan
    if isinstance(model.estimator, NPNClassifier):
        probs = model.estimator.predict_proba(rows)
        means, spreads = probs[:, probs[0].argmax()], uncertainty(probs)
    else:
        predicted = model.estimator.predict_dist(rows)
        means, spreads = predicted.mean, predicted.std
    return CellEffects(names, means[0] - means[1:], spreads[0] - spreads[1:])


def cells_in_words(schema: Schema, x: Array) -> dict[str, str | None]:  # (inputs,) -> by column
    """What the cells of a row say, from what the network reads of them; None for one that is missing."""
    places = zip(schema.columns, schema.groups.values(), strict=True)
    return {column.name: None if np.isnan(x[place]).all() else _word(column, x[place]) for column, place in places}


def _word(column: Column, values: Array) -> str:
    if isinstance(column, Category):
        if len(values) == 1:
            return column.values[int(values[0] < 0.5)]
        code = int(values.argmax())
        return column.values[code] if code < len(column.values) else "other"
    if not isinstance(column, Date):
        return people_read(float(values[0]) + column.origin)
    if not column.has_days:
        minutes = round(float(np.arctan2(values[0], values[1])) / (2 * np.pi) * 24 * 60) % (24 * 60)
        return f"{minutes // 60:02}:{minutes % 60:02}"
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(
        minutes=round((column.origin + float(values[0])) * 24 * 60)
    )
    return f"{moment:%Y-%m-%d}" if moment.time() == datetime.time() else f"{moment:%Y-%m-%d %H:%M}"
