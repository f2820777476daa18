"""A method that predicts a point becomes one that predicts a distribution, by residuals of rows that it has not seen.

Five fits, each without a fifth of the rows, give a residual for every row; a sixth on all rows gives the point. Amounts
are learnt as logs. Counts get a negative binomial whose overdispersion makes the held-out counts most likely.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from npn_studies.tabular.predictions import Counts, LogResiduals, Residuals, count_log_prob
from npn_studies.tabular.rivals.interface import Fit, Inputs, Predict, Task, folds

Array = NDArray[Any]
Make = Callable[[Task], Any]  # an estimator as scikit-learn has them


def with_residuals(regressor: Make, classifier: Make) -> Fit:
    """The method whose estimators these are; of classes it has probabilities already."""

    def fit(task: Task) -> Predict:
        X = task.inputs.X
        if task.kind == "classes":
            model = classifier(task).fit(X, task.y)
            return lambda inputs: np.asarray(model.predict_proba(inputs.X))
        t = np.log(task.y) if task.kind == "amounts" else task.y
        held = np.zeros(len(t))
        for train, rest in folds(task):
            held[rest] = regressor(task).fit(X[train], t[train]).predict(X[rest])
        model = regressor(task).fit(X, t)

        def predict(inputs: Inputs) -> Counts | Residuals | LogResiduals:
            point = np.asarray(model.predict(inputs.X), np.float64)
            if task.kind == "counts":
                return counts(point, overdispersion(task.y, held))
            found = Residuals(point, t - held)
            return LogResiduals(found) if task.kind == "amounts" else found

        return predict

    return fit


def counts(rate: Array, alpha: float) -> Counts:
    """Of one member."""
    mu = np.maximum(rate, 1e-9)[None]
    return Counts(mu, np.full(mu.shape, alpha))


def overdispersion(y: Array, rate: Array) -> float:
    """The α that makes these counts most likely."""
    mu = np.maximum(rate, 1e-9)
    worst = lambda log_alpha: -float(count_log_prob(y, mu, np.full(len(y), np.exp(log_alpha))).sum())  # noqa: E731
    return float(np.exp(optimize.minimize_scalar(worst, bounds=(-12, 4), method="bounded").x))
