"""What a model has learnt, for the report of `npn fit`: predictions along a column, and its most uncertain rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchnpn import inspection, plots, report, tables
from torchnpn.columns import Category, Column, Date, Number, Times
from torchnpn.tables import TableModel, people_read

MOST_COLUMNS = 3  # that are drawn
_MOST_VALUES, _MOST_CLASSES = 8, 5
_POINTS, _ROWS = 25, 200
_UNCERTAIN, _MOST_CELLS = 5, 4
Array = NDArray[Any]


def along(model: TableModel, X: Array, name: str) -> tuple[Any, dict[str, Any]] | None:
    """A function that draws how predictions change along a column, and its arguments; None where it has no two values.

    Args:
        model: Fitted.
        X: (rows, inputs) over which predictions are averaged.
        name: Of the column.
    """
    place = model.schema.groups[name]
    found = _values(next(one for one in model.schema.columns if one.name == name), X[:, place])
    if found is None:
        return None
    grid, inputs = found
    mean = inspection.partial_dependence(model.estimator, X, place, grid=inputs, rows=_ROWS)
    parts = {"epistemic": mean.epistemic, "aleatoric": mean.aleatoric}
    if not model.target.is_class:
        bands = {"mean": mean.mean, "low": mean.low, "high": mean.high}
        return plots.dependence_plot, {"grid": grid, **bands, **parts, "xlabel": name, "ylabel": model.target.name}
    most = np.sort(np.argsort(-np.array(model.target.marginal), kind="stable")[:_MOST_CLASSES])
    of_rows = {part: np.sqrt((each**2).sum(1)) for part, each in parts.items()}
    labels = {"classes": [model.target.classes[i] for i in most], "xlabel": name}
    return plots.class_dependence_plot, {"grid": grid, "probabilities": mean.mean[:, most], **of_rows, **labels}


def _values(column: Column, cells: Array) -> tuple[Array, Array] | None:
    """Values of a column as people read them, and as the network does: (points,) and (points, inputs)."""
    if isinstance(column, Category):
        codes = np.arange(min(len(column.values), _MOST_VALUES))
        return np.array(column.values, object)[codes], np.equal.outer(codes, np.arange(len(column.inputs)))
    first = cells[:, 0].astype(np.float64)
    first = first[~np.isnan(first)]
    if not len(first) or first.min() == first.max() or (isinstance(column, Date) and not column.has_days):
        return None
    different, (low, high) = np.unique(first), np.quantile(first, [0.01, 0.99])
    grid = different if len(different) <= _POINTS else np.linspace(low, high, _POINTS)
    if isinstance(column, Number):
        return grid + column.origin, grid[:, None]
    assert isinstance(column, Date)
    days = np.round(grid + column.origin).astype("datetime64[D]")
    return days, column.encode(Times(days.astype("datetime64[us]"), column.clock))


def uncertain_rows(model: TableModel, X: Array, outcome: tables.Outcome) -> report.Section:
    """The held-out rows with the widest predictions, with what each of their cells does to the width."""
    if isinstance(outcome, tables.ClassOutcome):
        width, what, unit = tables.uncertainty(outcome.probs), "uncertainty in points", 100.0
        header = ["predicted", "true class", "uncertainty, and the model's part of it"]
    else:
        width, what, unit = outcome.high - outcome.low, "standard deviation", 1.0
        header = ["predicted, 90% interval", "true value", "noise, model"]
    chosen = np.argsort(-width, kind="stable")[:_UNCERTAIN]
    rows = [[*_cells(model, X[[i]], outcome, i), _effects(model, X[[i]], unit)] for i in chosen]
    return report.Section(
        "Where it is most uncertain",
        f"The {len(rows)} held-out rows with the most uncertain predictions, the most uncertain first. Noise is what "
        "rows with the same values differ by; the model's part would become smaller with more rows like these.",
        table=report.Table([*header, "what its values do to that"], rows, words=True),
        note=f"What a value does: how much larger (+) or smaller (−) the {what} is than for the same row with that "
        "value missing. The largest effects come first; values that carry the same information share it.",
    )


def _cells(model: TableModel, x: Array, outcome: tables.Outcome, i: int) -> list[str]:
    """A row of the table, but for its last cell."""
    parts = model.estimator.predict_variance(x)
    if isinstance(outcome, tables.ClassOutcome):
        probs, names, total = outcome.probs[i], model.target.classes, float(parts.total.sum())
        share = float(parts.epistemic.sum()) / total if total > 0 else 0.0
        unsure = float(tables.uncertainty(probs[None])[0])
        return [f"{names[probs.argmax()]}, {probs.max():.0%}", names[outcome.y[i]], f"{unsure:.0%}, {share:.0%}"]
    noise, own = (f"±\u00a0{people_read(float(np.sqrt(part[0])))}" for part in (parts.aleatoric, parts.epistemic))
    mean, low, high, y = (people_read(float(one[i])) for one in (outcome.mean, outcome.low, outcome.high, outcome.y))
    return [f"{mean}, {low} to {high}", y, f"{noise}, {own}"]


def _effects(model: TableModel, x: Array, unit: float) -> str:
    """The values of a row that change its uncertainty most, in words, and those that it has not."""
    effects, words = tables.cell_effects(model, x), tables.cells_in_words(model.schema, x[0])
    order = np.argsort(-np.abs(effects.spread), kind="stable")[:_MOST_CELLS]
    said = [f"{effects.names[k]} = {words[effects.names[k]]}: {_signed(unit * effects.spread[k])}" for k in order]
    missing = [name for name, word in words.items() if word is None]
    more = f" and {len(missing) - _MOST_CELLS} more" if len(missing) > _MOST_CELLS else ""
    return "; ".join([*said, *([f"missing: {', '.join(missing[:_MOST_CELLS])}{more}"] if missing else [])])


def _signed(change: float) -> str:
    text = f"{change:+.3g}"
    return text.replace("-", "−") if float(text) else "0"
