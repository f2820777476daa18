"""Predictions between the training rows: the middle third of the values of one feature is held out.

Such splits show who stays sure where nothing was seen (Foong et al., 'In-Between' Uncertainty in Bayesian Neural
Networks, 2019). There is one for each feature; nothing is set for a table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npn_studies.experiments.experiment import Cell, Experiment, Options, Progress, Record
from npn_studies.experiments.tables import rounded, table
from npn_studies.tabular import METHODS, TABLES, Rows, judged
from torchnpn import datasets

Array = NDArray[Any]
SETS, SHOWN = ("energy", "yacht", "concrete"), ("npn", "ensemble", "hgb", "linear")
QUICK_SETS, QUICK_METHODS = ("yacht",), ("linear",)
SINGLE, MIXTURE = -62.8, -43.0  # mean log-likelihood of energy, by the network and the mixture of version 0.1


def gaps(X: Array) -> list[tuple[Array, Array]]:
    """For each feature, rows to learn from, and the middle third of the rows in its order."""
    third = len(X) // 3
    orders = [np.argsort(column, kind="stable") for column in X.T]
    return [(np.r_[order[:third], order[-third:]], order[third:-third]) for order in orders]


def cells(options: Options) -> list[Cell]:
    """One for each table and method."""
    names, methods = (QUICK_SETS, QUICK_METHODS) if options.quick else (SETS, SHOWN)
    return [_cell(name, method) for name in names for method in methods]


def _cell(name: str, method: str) -> Cell:
    def run(progress: Progress) -> dict[str, Any]:
        data = datasets.load(name)
        nothing = np.zeros(data.X.shape[1], bool)
        found = Rows(TABLES[name]._replace(kind="gaussian"), data.X, data.X, nothing, data.y)
        every = []
        for feature, (train, test) in enumerate(gaps(data.X)):
            every.append(judged(METHODS[method], found, train, test, feature))
            progress(len(every) / len(nothing))
        return {key: [rounded(one[key]) for one in every] for key in ("nll", "rmse", "coverage")}

    return Cell(f"{method}/{name}", {}, run, device="cpu")


def section(record: Record) -> str:
    """Means over the features of each table, and the worst of them."""
    cells = record["cells"]
    methods = [method for method in SHOWN if any(key.startswith(f"{method}/") for key in cells)]
    rows = []
    for name in dict.fromkeys(key.partition("/")[2] for key in cells):
        told = [cells[key]["figures"] if (key := f"{method}/{name}") in cells else None for method in methods]
        for what, figure in _SHOWN.items():
            rows.append([name, what, *("–" if one is None else figure(one) for one in told)])
    return f"{_INTRODUCTION}\n\n{table(['table', '', *(METHODS[name].label for name in methods)], rows, words=2)}"


_INTRODUCTION = f"""For each feature, the middle third of the rows in its order is the test set: predictions lie between
the training rows. On energy one network of version 0.1 had a mean log-likelihood of {SINGLE}, its mixture {MIXTURE}."""
_SHOWN = {
    "log-likelihood, mean": lambda told: f"{-np.mean(told['nll']):.2f}",
    "log-likelihood, worst": lambda told: f"{-np.max(told['nll']):.2f}",
    "RMSE, mean": lambda told: f"{np.mean(told['rmse']):.3g}",
    "90 % intervals hold": lambda told: f"{np.mean(told['coverage']):.0%}",
}

EXPERIMENT = Experiment(
    name="gaps",
    title="Between the training rows",
    data=("energy", "yacht", "concrete"),
    quick_data=("yacht",),
    minutes=15,
    cells=cells,
    section=section,
    in_parts=True,
)
