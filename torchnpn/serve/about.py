"""What a model reads and predicts, as plain values: for the page that shows it, and for whoever writes a client."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np
import torch

from torchnpn.columns import Category, Column, Date, Number
from torchnpn.estimators import Predictive
from torchnpn.moments import Moments
from torchnpn.serve.shape import shape
from torchnpn.tables import TableModel, marginal_moments

_AXIS = 0.002  # quantile of the training targets at which an axis begins
_STEPS = 200  # of a slider, about


def about(model: TableModel) -> dict[str, Any]:
    """Target, columns and record of a model."""
    target, record = model.target, model.record
    described: dict[str, Any] = {"name": target.name, "family": target.family}
    if target.is_class:
        described |= {"classes": list(target.classes), "shares": list(target.marginal)}
    else:
        described |= {"words": target.likelihood.words, "whole": target.is_count, **_everyone(model)}
    return {
        "target": described,
        "columns": [_column(model, column) for column in model.schema.columns],
        "record": {
            "file": record.file,
            "rows": record.rows,
            "held_out": record.held_out,
            "figures": [[*figure.shown(), figure.wins] for figure in record.figures],
            "notes": list(record.notes),
            "is_worse": record.is_worse,
        },
    }


def _everyone(model: TableModel) -> dict[str, Any]:
    """The distribution of the training targets, as their mean and variance say, and the axis that it needs."""
    mean, variance = (torch.from_numpy(part) for part in marginal_moments(model.target, 1, _middle_exposure(model)))
    each = Moments(mean[:, None], variance[:, None])
    marginal = Predictive(model.target.likelihood.marginal(each))
    low, high = (float(marginal.quantile(q)[0]) for q in (_AXIS, 1 - _AXIS))
    return {"axis": [low, high], "everyone": shape(marginal, model.target.is_count)}


def _middle_exposure(model: TableModel) -> Any:
    if not model.target.exposure:
        return None
    return np.array([_middle(model.schema.columns[-1])])


def _column(model: TableModel, column: Column) -> dict[str, Any]:
    """The name of a column, its kind, where its values lie, and a usual one."""
    place = model.schema.groups[column.name].start
    if isinstance(column, Category):
        return {"name": column.name, "kind": "category", "values": list(column.values), "usual": column.values[0]}
    if isinstance(column, Date):
        if not column.has_days:
            return {"name": column.name, "kind": "time", "usual": "12:00"}
        low, middle, high = (column.origin + x for x in _training_values(model, place))
        as_date = {"kind": "date", "low": _date(math.floor(low)), "high": _date(math.ceil(high))}
        return {"name": column.name, **as_date, "usual": _date(round(middle)), "zone": column.clock == "utc"}
    is_exposure = column.name == model.target.exposure
    low, middle, high = (column.origin + x for x in _training_values(model, place)) if not is_exposure else (0, 0, 0)
    low, high = column.range or (low, high)
    middle = _middle(column) if is_exposure else middle
    step = 1.0 if low % 1 == high % 1 == 0 and 3 <= high - low <= _STEPS else _step(high - low)  # counts, most likely
    usual = min(max(round(middle / step) * step, low), high)
    described = {"name": column.name, "kind": "number", "low": low, "high": high, "step": step}
    return {**described, "usual": float(f"{usual:.12g}"), "required": is_exposure}


def _training_values(model: TableModel, place: int) -> tuple[float, float, float]:
    """The least, the mean and the largest training value of an input, from how the network scales it."""
    inputs = model.estimator.inputs_
    center, scale = float(inputs.center[place]), float(inputs.scale[place])
    low, high = float(inputs.low[place]), float(inputs.high[place])  # with a margin of half of the range at each end
    if not -1e6 < low < high < 1e6:
        return center - 3 * scale, center, center + 3 * scale
    margin = (high - low) / 4
    return center + scale * (low + margin), center, center + scale * (high - margin)


def _middle(column: Column) -> float:
    assert isinstance(column, Number)
    low, high = column.range or (1.0, 1.0)
    return max(low, 1.0 if low <= 1.0 <= high else (low + high) / 2)


def _step(width: float) -> float:
    """A round number, of which about 200 fit into the width."""
    if not (0 < width < math.inf):
        return 1.0
    power = 10.0 ** math.floor(math.log10(width / _STEPS))
    return next(float(f"{k * power:.3g}") for k in (1, 2, 5, 10) if k * power >= width / _STEPS * 0.999)


def _date(days: float) -> str:
    """A day since 1970, within the years that browsers and Python both know."""
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(days=min(max(days, -719_000), 2_932_000))
    return moment.date().isoformat()
