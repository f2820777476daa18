"""Whether a model from a file answers at all: it is asked for ordinary rows before anybody else may."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def check_answers(model: Any) -> None:
    """Raise a ValueError where an estimator or a table model gives no finite numbers for an ordinary row."""
    estimator = copy.copy(getattr(model, "estimator", model))  # a table model's
    vars(estimator).pop("feature_names_in_", None)  # scikit-learn would miss them in an array
    if getattr(estimator, "columns_", None) is not None:  # it is given rows that are encoded already
        estimator.columns_, estimator.n_features_in_ = None, estimator.columns_.width
    with np.errstate(all="ignore"):  # what overflows is seen below
        answers = _ANSWERS[type(estimator).__name__](estimator)
    if not all(np.isfinite(part).all() for part in answers):
        raise ValueError("it predicts numbers that are not finite")


def _rows(inputs: Any) -> Array:  # (3, features)
    """The mean of the training rows, and a standard deviation to either side."""
    rows: Array = inputs.center + np.array([[0.0], [-1.0], [1.0]]) * inputs.scale
    return rows


def _of_links(model: Any) -> list[Array]:
    last = len(model.features_.mean.left) - 1
    return [model.predict_proba([(0, last), (last, last // 2)])]


def _of_regressor(model: Any) -> list[Array]:
    known = {} if model.exposure_ is None else {"exposure": model.exposure_.unit}
    predictive = model.predict_dist(_rows(model.inputs_), **known)
    return [predictive.mean, predictive.std]


_ANSWERS: dict[str, Callable[[Any], Iterable[Array]]] = {
    "NPNRegressor": _of_regressor,
    "NPNClassifier": lambda model: [model.predict_proba(_rows(model.inputs_))],
    "NPNAutoencoder": lambda model: model.transform_dist(_rows(model.inputs_)),
    "DocumentAutoencoder": lambda model: model.transform_dist(np.eye(2, model.n_features_in_)),
    "BayesianLogisticRegression": lambda model: [model.predict_proba(np.zeros((1, model.n_features_in_)))],
    "LinkPredictor": _of_links,
}
