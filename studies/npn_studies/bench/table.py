"""The rows of a contest as cells of a table: figures, and their ratios to the plain network at its best."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from npn_studies.bench.contest import ENTRIES, FIGURES, PLAIN
from npn_studies.bench.shapes import ratios

_HEADINGS = {"step_us": "step, µs", "predict_us": "predict, µs", "peak_mb": "peak, MB"}
_NONE = "–"


def header(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Names of the columns, of those figures that some row has."""
    return ["network", *(name for key in _figures(rows) for name in (_HEADINGS[key], "ratio"))]


def cells(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """A row for each contestant; one that could not run says why."""
    units = {key: _best_plain(rows, key) for key in _figures(rows)}
    return [[_label(row), *(text for key, unit in units.items() for text in _pair(row.get(key), unit))] for row in rows]


def shape_header(found: Sequence[dict[str, Any]]) -> list[str]:
    """Names of the columns of `shape_cells`."""
    ours = _ours(found)
    return ["network", "plain, µs", *(f"{ENTRIES[name].label}, ratio" for name in ours), *(["predict"] if ours else [])]


def shape_cells(found: Sequence[dict[str, Any]]) -> list[list[str]]:
    """A row for each shape: a plain step at its best, and the ratios of ours; then medians and worst."""
    ours = _ours(found)
    step = {name: ratios(found, name) for name in ours}
    predict = ratios(found, ours[0], "predict_us") if ours else {}
    columns = [*step.values(), predict]
    rows = [
        [
            shape["size"],
            _pair(_best_plain(shape["rows"], "step_us"), None)[0],
            *(_ratio(column.get(shape["name"])) for column in columns),
        ]
        for shape in found
    ]
    for word, of in (("median", statistics.median), ("worst", max)):
        rows.append([word, _NONE, *(_ratio(of(column.values()) if column else None) for column in columns)])
    return rows


def _ours(found: Sequence[dict[str, Any]]) -> list[str]:
    return [name for name in ENTRIES if name not in PLAIN and any(ratios(found, name))]


def _ratio(value: float | None) -> str:
    return _NONE if value is None else f"{value:.2f}"


def _best_plain(rows: Iterable[dict[str, Any]], key: str) -> float | None:
    """The smallest figure among the plain networks."""
    return min((row[key] for row in rows if row["contestant"] in PLAIN and key in row), default=None)


def _shown(value: float) -> str:
    """With three digits or more."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _figures(rows: Iterable[dict[str, Any]]) -> list[str]:
    return [key for key in FIGURES if any(key in row for row in rows)]


def _label(row: dict[str, Any]) -> str:
    label = ENTRIES[row["contestant"]].label
    return f"{label}: {row['why']}" if "why" in row else label


def _pair(value: float | None, unit: float | None) -> tuple[str, str]:
    if value is None:
        return _NONE, _NONE
    return _shown(value), _NONE if unit is None else f"{value / unit:.2f}"
