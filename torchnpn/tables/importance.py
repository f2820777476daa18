"""Which columns a model relies on: how much worse it does when one is shuffled."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from torchnpn.estimators import NPNClassifier, NPNRegressor
from torchnpn.table_files import Progress, no_progress
from torchnpn.tables.schema import Schema

Array = NDArray[Any]


class Importance(NamedTuple):
    """Columns by falling importance."""

    names: tuple[str, ...]
    increase: Array  # of the NLL in nats per row, mean over shuffles
    error: Array  # standard error of these means


def permutation_importance(
    estimator: NPNRegressor | NPNClassifier,
    schema: Schema,
    X: Array,
    y: Array,
    *,
    rows: int = 1000,
    shuffles: int = 5,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Importance:
    """Increase of the NLL when the cells of a column change places between rows; all inputs of a category together.

    Args:
        estimator: Fitted.
        schema: Its columns.
        X: (rows, inputs) rows that it was not fitted on.
        y: (rows,) their targets.
        rows: At most so many of them are used.
        shuffles: Of each column.
        seed: Decides rows and shuffles.
        progress: Called with the share of the work that is done.
    """
    rng = np.random.default_rng(seed)
    some = rng.permutation(len(y))[:rows]
    X, y = X[some], y[some]
    before = -estimator.log_likelihood(X, y).mean()
    increase = np.empty((len(schema.columns), shuffles))
    for i, place in enumerate(schema.groups.values()):
        for j in range(shuffles):
            shuffled = X.copy()
            shuffled[:, place] = X[rng.permutation(len(y)), place]
            increase[i, j] = -estimator.log_likelihood(shuffled, y).mean() - before
        progress((i + 1) / len(increase))
    order = np.argsort(-increase.mean(1), kind="stable")
    error = increase.std(1, ddof=1) / np.sqrt(shuffles)
    return Importance(tuple(schema.names[i] for i in order), increase.mean(1)[order], error[order])
