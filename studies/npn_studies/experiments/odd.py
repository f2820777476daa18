"""Odd data, made up, each fault alone: ours beside linear models and boosted trees.

The law of each case is known, so rows to judge by are drawn anew. Nothing is set for a case, for any method: as on real
tables, all know the kind of the target.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npn_studies.experiments.experiment import Cell, Experiment, Options, Progress, Record
from npn_studies.experiments.tables import rounded, table
from npn_studies.tabular import METHODS, TABLES, Rows, judged
from npn_studies.tabular.odd import CASES, Case
from npn_studies.tabular.predictions import Counts, NormalMixture
from npn_studies.tabular.rivals.interface import Inputs, Method, Predict, Standard, Task

Array = NDArray[Any]
DRAWS = 3


def _lasso(task: Task) -> Predict:
    """With the noise of rows that cross-validation left out; of counts, a Poisson regression without a penalty."""
    from sklearn.linear_model import LassoCV, PoissonRegressor

    standard = Standard.of(task.inputs.X)
    X = standard(task.inputs.X)
    if task.kind == "counts":
        counts = PoissonRegressor(alpha=0, max_iter=1000).fit(X, task.y)
        return lambda inputs: _rates(counts.predict(standard(inputs.X)))
    model = LassoCV(random_state=task.seed).fit(X, task.y)
    std = float(np.sqrt(model.mse_path_.mean(1).min()))

    def predict(inputs: Inputs) -> NormalMixture:
        mean = model.predict(standard(inputs.X))[None]
        return NormalMixture(mean, np.full(mean.shape, std))

    return predict


def _rates(rate: Array) -> Counts:
    return Counts(np.clip(rate, 1e-9, 1e6)[None], np.zeros((1, len(rate))))


_LABELS = {"npn": "NPN", "linear": "linear, penalty chosen", "lasso": "lasso, or Poisson GLM", "hgb": "HGB"}
_METHODS = {
    **{name: METHODS[name] for name in ("npn", "linear", "hgb")},
    "lasso": Method("lasso", _lasso, kinds=("gaussian", "counts")),
}


def cells(options: Options) -> list[Cell]:
    """One for each case and method."""
    cases, methods = (CASES[:1], ("linear", "hgb")) if options.quick else (CASES, tuple(_LABELS))
    draws = options.seeds or (1 if options.quick else DRAWS)
    return [_cell(case, name, draws) for case in cases for name in methods if case.kind in _METHODS[name].kinds]


def _cell(case: Case, name: str, draws: int) -> Cell:
    def run(progress: Progress) -> dict[str, Any]:
        every = []
        for seed in range(draws):
            drawn = case.draw(np.random.default_rng([5, seed]))
            X, y = np.vstack([drawn.X, drawn.new_X]), np.concatenate([drawn.y, drawn.new_y])
            nothing = np.zeros(X.shape[1], bool)
            rows = Rows(next(iter(TABLES.values()))._replace(name=case.name, kind=case.kind), X, X, nothing, y)
            train, test = np.split(np.arange(len(y)), [len(drawn.y)])
            every.append(judged(_METHODS[name], rows, train, test, seed))
            progress(len(every) / draws)
        return {key: [rounded(one[key]) for one in every] for key in every[0]}

    return Cell(f"{name}/{case.name}", {"draws": draws}, run, device="cpu")


def section(record: Record) -> str:
    """RMSE or error, NLL and coverage of each case: the medians of the draws."""
    cells = record["cells"]
    rows = []
    for case in CASES:
        found = {name: cells[key]["figures"] for name in _LABELS if (key := f"{name}/{case.name}") in cells}
        for what, keys in _SHOWN.items():
            if shown := {name: key for name in found for key in keys if key in found[name]}:
                texts = (f"{np.median(found[name][shown[name]]):.3g}" if name in shown else "–" for name in _LABELS)
                rows.append([case.words, what.format("error" if case.kind == "classes" else "RMSE"), *texts])
    draws = max(cell["settings"]["draws"] for cell in cells.values())
    told = "one draw" if draws == 1 else f"medians of {draws} draws"
    return f"{_INTRODUCTION.format(draws=told)}\n\n{table(['data', '', *_LABELS.values()], rows, words=2)}"


_SHOWN = {"{}": ("rmse", "error"), "NLL": ("nll",), "90 % intervals hold": ("coverage",)}
_INTRODUCTION = """Made-up tables, each with one fault that real tables have, and at least 2,000 new rows from the same
law; {draws}. Linear models are ridge, Poisson or logistic regression."""

EXPERIMENT = Experiment(
    name="odd",
    title="Odd data",
    minutes=10,
    cells=cells,
    section=section,
    in_parts=True,
)
