"""What intervals hold with `calibrate=` and without: five folds of some tables, so that each row is judged once.

The networks are the small ones of `effort="quick"`, since calibration is to hold whatever the network is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from npn_studies.experiments.experiment import Cell, Experiment, Options, Progress, Record
from npn_studies.experiments.tables import rounded, table
from torchnpn import datasets
from torchnpn.estimators import NPNRegressor

SETS = ("boston", "concrete", "energy", "wine", "yacht")
WAYS = {"none": None, "split": "split", "cross": "cross"}
FOLDS, LEVEL, EFFORT = 5, 0.9, "quick"


def cells(options: Options) -> list[Cell]:
    """One for each table and way."""
    names, ways = (("yacht",), ("split",)) if options.quick else (SETS, tuple(WAYS))
    return [_cell(name, way) for name in names for way in ways]


def _cell(name: str, way: str) -> Cell:
    def run(progress: Progress) -> dict[str, Any]:
        data = datasets.load(name)
        X, y = data.X, data.y.ravel()
        figures: dict[str, list[float]] = {"coverage": [], "width": []}
        for fold, (train, test) in enumerate(KFold(FOLDS, shuffle=True, random_state=0).split(X)):
            model = NPNRegressor(calibrate=WAYS[way], effort=EFFORT, device="cpu", random_state=0)
            low, high = model.fit(X[train], y[train]).predict_interval(X[test], LEVEL)
            figures["coverage"].append(rounded(float(np.mean((low <= y[test]) & (y[test] <= high)))))
            figures["width"].append(rounded(float(np.median(high - low) / y.std())))
            progress((fold + 1) / FOLDS)
        return {**figures, "rows": len(y)}

    return Cell(f"{name}/{way}", {"folds": FOLDS, "effort": EFFORT}, run, device="cpu")


def section(record: Record) -> str:
    """Coverage of all rows of each table, and how wide intervals are."""
    cells = record["cells"]
    names = dict.fromkeys(key.partition("/")[0] for key in cells)
    rows: list[list[str]] = []
    every: dict[str, list[float]] = {way: [] for way in WAYS}
    for name in names:
        found = {way: cells[f"{name}/{way}"]["figures"] for way in WAYS if f"{name}/{way}" in cells}
        held = {way: float(np.mean(one["coverage"])) for way, one in found.items()}
        for way, share in held.items():
            every[way].append(share)
        count = next(iter(found.values()))["rows"]
        widths = [f"{np.mean(found[way]['width']):.2f}" if way in found else "–" for way in WAYS]
        rows.append([name, str(count), *(f"{held[way]:.1%}" if way in held else "–" for way in WAYS), *widths])
    rows.append(["mean", "", *(f"{np.mean(one):.1%}" if one else "–" for one in every.values()), "", "", ""])
    shown = ("calibrate=None", '"split"', '"cross"')
    head = ["table", "rows", *(f"{one} holds" for one in shown), *(f"{one}, width" for one in shown)]
    return f"{_INTRODUCTION}\n\n{table(head, rows)}"


_INTRODUCTION = """The share of rows in their 90 % intervals, by networks of `effort="quick"` in five folds of each
table, so that each row is judged once; of 500 rows this is known to ±1.3 %. The width is the median of the intervals'
widths, in standard deviations of the target."""

EXPERIMENT = Experiment(
    name="calibrated",
    title="Intervals with and without calibrate=",
    data=SETS,
    quick_data=("yacht",),
    minutes=5,
    cells=cells,
    section=section,
    in_parts=True,
)
