"""One row looked at closely: its predictive distribution, the parts of its uncertainty, and what each cell does."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchnpn.estimators import NPNClassifier, NPNRegressor
from torchnpn.serve.shape import shape
from torchnpn.tables import TableModel, Target, cell_effects, people_read, uncertainty

Array = NDArray[Any]


def explain(model: TableModel, x: Array, level: float) -> dict[str, Any]:
    """What the page shows of a row.

    Args:
        model: Fitted.
        x: (1, inputs) the row.
        level: Of the interval.
    """
    estimator = model.estimator
    if isinstance(estimator, NPNClassifier):
        answer = _of_classes(estimator, model.target, x)
    else:
        answer = _of_numbers(estimator, model.target, x, level)
    effects = cell_effects(model, x)
    answer["cells"] = [
        {"column": name, "mean": mean, "spread": spread}
        for name, mean, spread in zip(effects.names, effects.mean.tolist(), effects.spread.tolist(), strict=True)
    ]
    far = next(model.schema.far_outside(x), None)
    if far is not None and far.column.range is not None:
        value, low, high = map(people_read, (far.value, *far.column.range))
        answer["far"] = f"{far.column.name} is {value}, far outside the training values ({low} to {high})."
    return answer


def _of_numbers(estimator: NPNRegressor, target: Target, x: Array, level: float) -> dict[str, Any]:
    predicted, parts = estimator.predict_dist(x), estimator.predict_variance(x)
    (low,), (high,) = predicted.interval(level)
    return {
        "mean": float(predicted.mean[0]),
        "std": float(predicted.std[0]),
        "low": float(low),
        "high": float(high),
        "noise": float(np.sqrt(parts.aleatoric[0])),
        "model": float(np.sqrt(parts.epistemic[0])),
        "shape": shape(predicted, target.is_count),
    }


def _of_classes(estimator: NPNClassifier, target: Target, x: Array) -> dict[str, Any]:
    """The predicted class takes the place of the mean, and the entropy that of the standard deviation."""
    probs, parts = estimator.predict_proba(x), estimator.predict_variance(x)
    best = int(probs[0].argmax())
    total = float(parts.total.sum())
    return {
        "best": target.classes[best],
        "probabilities": dict(zip(target.classes, probs[0].tolist(), strict=True)),
        "uncertainty": float(uncertainty(probs)[0]),
        "model_share": float(parts.epistemic.sum()) / total if total > 0 else 0.0,
    }
