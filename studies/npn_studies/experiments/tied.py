"""Standard deviations of weights one by one, or tied, std_ij = r_i c_j: small tables, published splits, same seeds."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from npn_studies.experiments.experiment import Cell, Experiment, Options, Progress, Record
from npn_studies.experiments.tables import Summary, rounded, table
from torchnpn import datasets
from torchnpn.estimators import NPNRegressor

SETS = ("yacht", "boston", "energy", "concrete", "wine")
SPLITS = 5
POSTERIORS = ("mean_field", "tied")
MODELS: dict[str, dict[str, Any]] = {"one network": {"effort": "quick"}, "mixture": {}}
FIGURES = ("log_likelihood", "rmse", "cpu_seconds")


def cells(options: Options) -> list[Cell]:
    """One for each model and table: both posteriors on the same splits."""
    sets = SETS[:1] if options.quick else SETS
    splits = options.seeds or (2 if options.quick else SPLITS)
    quick = {"effort": "quick", "max_epochs": 4} if options.quick else {}
    return [_cell(model, name, splits, {**MODELS[model], **quick}) for model in MODELS for name in sets]


def _cell(model: str, name: str, splits: int, settings: dict[str, Any]) -> Cell:
    def run(progress: Progress) -> dict[str, Any]:
        found: dict[str, dict[str, list[float]]] = {one: {key: [] for key in FIGURES} for one in POSTERIORS}
        for split, parts in enumerate(datasets.load(name).splits[:splits]):
            for k, posterior in enumerate(POSTERIORS):
                for key, value in zip(FIGURES, _judged(name, parts, posterior, settings), strict=True):
                    found[posterior][key].append(rounded(value))
                progress((split + (k + 1) / len(POSTERIORS)) / splits)
        return found

    return Cell(f"{model}/{name}", {**settings, "splits": splits}, run, device="cpu")


def _judged(name: str, parts: Any, posterior: str, settings: dict[str, Any]) -> tuple[float, float, float]:
    """Mean log-likelihood of the test rows, RMSE, and seconds of the process to learn."""
    data, (train, test) = datasets.load(name), parts
    model = NPNRegressor(posterior=posterior, device="cpu", random_state=0, **settings)
    start = time.process_time()
    model.fit(data.X[train], data.y[train])
    seconds = time.process_time() - start
    found = model.predict_dist(data.X[test])
    error = float(np.sqrt(np.mean((found.mean - data.y[test]) ** 2)))
    return float(found.log_prob(data.y[test]).mean()), error, seconds


def section(record: Record) -> str:
    """Means over the splits, and what tying gains on the same split."""
    rows = []
    for key, cell in record["cells"].items():
        model, name = key.split("/")
        full, tied = (cell["figures"][posterior] for posterior in POSTERIORS)
        logs, errors, seconds = ([np.asarray(one[figure]) for one in (full, tied)] for figure in FIGURES)
        shown = [str(Summary.of(column.tolist())) for column in (logs[0], logs[1] - logs[0], errors[0])]
        ratio = Summary.of((errors[1] / errors[0]).tolist())
        rows.append([model, name, *shown, str(ratio), f"{seconds[1].sum() / seconds[0].sum():.2f}"])
    head = ["", "table", "log-likelihood", "tied: gain", "RMSE", "tied: ratio", "CPU time: ratio"]
    return f"{_INTRODUCTION}\n\n{table(head, rows, words=2)}"


_INTRODUCTION = f"""`NPNRegressor(posterior="tied")` beside the default, `"mean_field"`: one network
(`effort="quick"`) and the default mixture, the first {SPLITS} published splits with the standard error over them.
Gains and ratios are those of the same split and seed. A network of 50 units gains no time; what a tied one
saves are products of wide layers ([speed](speed.md#other-shapes-and-tied-standard-deviations)). `"mean_field"` stays
the default: the mixture's likelihood is worse by more than one standard error on three of the tables."""

EXPERIMENT = Experiment(
    name="tied",
    title="Tied standard deviations",
    data=SETS,
    quick_data=SETS[:1],
    minutes=20,
    cells=cells,
    section=section,
    in_parts=True,
)
