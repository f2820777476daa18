"""What intervals hold with `calibrate=` and without: five folds of some tables, so that each row is judged once.

Most are single small networks, since calibration is to hold whatever the network is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import KFold

from npn_studies.experiments.experiment import Cell, Experiment, Options, Progress, Record
from npn_studies.experiments.tables import rounded, table
from torchnpn import datasets
from torchnpn.estimators import NPNRegressor

SETS = ("boston", "concrete", "energy", "wine", "yacht")
FOLDS, LEVEL = 5, 0.9


class Way(NamedTuple):
    """How a model is made, and what it is called."""

    words: str
    calibrate: str | None
    effort: str = "quick"


WAYS = {
    "none": Way("not calibrated", None),
    "split": Way('"split"', "split"),
    "cross": Way('"cross"', "cross"),
    "mixture": Way('"cross", the default mixture', "cross", "default"),
}


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
            model = NPNRegressor(calibrate=WAYS[way].calibrate, effort=WAYS[way].effort, device="cpu", random_state=0)
            low, high = model.fit(X[train], y[train]).predict_interval(X[test], LEVEL)
            figures["coverage"].append(rounded(float(np.mean((low <= y[test]) & (y[test] <= high)))))
            figures["width"].append(rounded(float(np.median(high - low) / y.std())))
            progress((fold + 1) / FOLDS)
        return {**figures, "rows": len(y)}

    return Cell(f"{name}/{way}", {"folds": FOLDS, "effort": WAYS[way].effort}, run, device="cpu")


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
    rows.append(["mean", "", *(f"{np.mean(one):.1%}" if one else "–" for one in every.values()), *[""] * len(WAYS)])
    shown = [way.words for way in WAYS.values()]
    head = ["table", "rows", *(f"{words}: holds" for words in shown), *(f"{words}: width" for words in shown)]
    return f"{_INTRODUCTION}\n\n{table(head, rows)}"


_INTRODUCTION = """The share of rows in their 90 % intervals, in five folds of each table, so that each row is judged
once; of 500 rows this is known to ±1.3 %. Networks are those of `effort="quick"`, but for the default mixture. The
width is the median of the intervals' widths, in standard deviations of the target."""

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
