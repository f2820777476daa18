"""CatBoost at its defaults, with categories as such.

`CATBOOST` learns mean and variance of a number, or of the log of an amount, by its own loss; `CATBOOST_RESIDUALS`
learns the mean by squared error, and has residuals of rows that it has not seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npn_studies.tabular.predictions import LogNormalMixture, LogResiduals, NormalMixture, Residuals
from npn_studies.tabular.rivals.interface import Answer, Inputs, Method, Predict, Task, folds
from npn_studies.tabular.rivals.points import counts, overdispersion

Array = NDArray[Any]


def _with_variance(task: Task) -> Predict:
    if task.kind in ("counts", "classes"):
        return _counts(task) if task.kind == "counts" else _classes(task)
    model = _learnt(task, "RMSEWithUncertainty", task.inputs, _target(task))

    def predict(inputs: Inputs) -> Answer:
        mean, variance = model.predict(_pool(inputs), prediction_type="RMSEWithUncertainty").T
        found = NormalMixture(mean[None], np.sqrt(np.maximum(variance, 1e-18))[None])
        return LogNormalMixture(found) if task.kind == "amounts" else found

    return predict


def _with_residuals(task: Task) -> Predict:
    t, model = _target(task), _learnt(task, "RMSE", task.inputs, _target(task))
    held = np.zeros(len(t))
    for train, rest in folds(task):
        part = _learnt(task, "RMSE", _some(task.inputs, train), t[train])
        held[rest] = part.predict(_pool(_some(task.inputs, rest)))

    def predict(inputs: Inputs) -> Answer:
        found = Residuals(model.predict(_pool(inputs)), t - held)
        return LogResiduals(found) if task.kind == "amounts" else found

    return predict


def _counts(task: Task) -> Predict:
    """Poisson; the overdispersion of one fifth of the rows by a second fit, since five more would take long."""
    model = _learnt(task, "Poisson", task.inputs, task.y)
    train, rest = next(folds(task))
    second = _learnt(task, "Poisson", _some(task.inputs, train), task.y[train])
    alpha = overdispersion(task.y[rest], _rate(second, _some(task.inputs, rest)))
    return lambda inputs: counts(_rate(model, inputs), alpha)


def _classes(task: Task) -> Predict:
    model = _learnt(task, "MultiClass" if task.classes > 2 else "Logloss", task.inputs, task.y)
    return lambda inputs: np.asarray(model.predict(_pool(inputs), prediction_type="Probability"))


def _target(task: Task) -> Array:
    return np.asarray(np.log(task.y) if task.kind == "amounts" else task.y)


def _rate(model: Any, inputs: Inputs) -> Array:
    return np.asarray(model.predict(_pool(inputs), prediction_type="Exponent"))


def _learnt(task: Task, loss: str, inputs: Inputs, t: Array) -> Any:
    from catboost import CatBoost

    plain = {"verbose": False, "allow_writing_files": False, "thread_count": 1}
    return CatBoost({"loss_function": loss, "random_seed": task.seed, **plain}).fit(_pool(inputs, t))


def _pool(inputs: Inputs, t: Array | None = None) -> Any:
    """Rows as CatBoost wants them: levels are strings."""
    from catboost import Pool

    columns: Array = inputs.coded.astype(object)
    for place in np.flatnonzero(inputs.categorical):
        column = inputs.coded[:, place]
        columns[:, place] = np.where(np.isnan(column), "missing", column.astype(str))
    return Pool(columns, t, cat_features=list(np.flatnonzero(inputs.categorical)))


def _some(inputs: Inputs, rows: Array) -> Inputs:
    return Inputs(inputs.X[rows], inputs.coded[rows], inputs.categorical)


CATBOOST = Method("CatBoost", _with_variance, "catboost")
CATBOOST_RESIDUALS = Method("CatBoost, residuals", _with_residuals, "catboost", kinds=("gaussian", "amounts"))
