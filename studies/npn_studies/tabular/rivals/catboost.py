"""CatBoost at its defaults, with categories as such.

Numbers and the logs of amounts are learnt by squared error, with residuals of rows that it has not seen. Its own loss
for mean and variance is the method of `CATBOOST_VARIANCE`.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npn_studies.tabular.predictions import LogNormalMixture, LogResiduals, NormalMixture, Residuals
from npn_studies.tabular.rivals.interface import Answer, Inputs, Method, Predict, Task, folds
from npn_studies.tabular.rivals.points import counts, overdispersion

Array = NDArray[Any]
_ENOUGH = 1_000  # rows; from here on the residuals of one fifth of them will do, and four more fits would take long


def _fit(task: Task) -> Predict:
    return {"counts": _counts, "classes": _classes}.get(task.kind, _with_residuals)(task)


def _with_variance(task: Task) -> Predict:
    model = _learnt(task, "RMSEWithUncertainty", task.inputs, _target(task))

    def predict(inputs: Inputs) -> Answer:
        mean, variance = model.predict(_pool(inputs), prediction_type="RMSEWithUncertainty").T
        found = NormalMixture(mean[None], np.sqrt(np.maximum(variance, 1e-18))[None])
        return LogNormalMixture(found) if task.kind == "amounts" else found

    return predict


def _with_residuals(task: Task) -> Predict:
    t, model = _target(task), _learnt(task, "RMSE", task.inputs, _target(task))
    residuals = []
    for train, rest in itertools.islice(folds(task), None if len(t) < _ENOUGH else 1):
        part = _learnt(task, "RMSE", _some(task.inputs, train), t[train])
        residuals.append(t[rest] - part.predict(_pool(_some(task.inputs, rest))))

    def predict(inputs: Inputs) -> Answer:
        found = Residuals(model.predict(_pool(inputs)), np.concatenate(residuals))
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


CATBOOST = Method("CatBoost", _fit, "catboost")
CATBOOST_VARIANCE = Method("CatBoost, own variance", _with_variance, "catboost", kinds=("gaussian", "amounts"))
