"""One row looked at closely: its predictive distribution, the parts of its uncertainty, and what each cell does.

What a cell does is seen by taking it away. A missing value is nothing special to these networks: it enters with the
mean and the variance that its column has. So the same row is predicted once for each column with that cell missing, and
the differences say what it is worth to know: how far the mean moves, and how much narrower the prediction becomes.
Columns with the same information share it: where both are known, each one alone can be missed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchnpn.estimators import NPNClassifier, NPNRegressor
from torchnpn.serve.shape import shape
from torchnpn.tables import TableModel, Target, people_read, uncertainty

Array = NDArray[Any]


def explain(model: TableModel, x: Array, level: float) -> dict[str, Any]:
    """What the page shows of a row.

    Args:
        model: Fitted.
        x: (1, inputs) the row.
        level: Of the interval.
    """
    names = [name for name, place in model.schema.groups.items() if name != model.target.exposure]
    there = [name for name in names if not np.isnan(x[0, model.schema.groups[name]]).all()]
    rows = np.repeat(x, 1 + len(there), axis=0)
    for i, name in enumerate(there, 1):
        rows[i, model.schema.groups[name]] = np.nan
    estimator = model.estimator
    if isinstance(estimator, NPNClassifier):
        answer = _of_classes(estimator, model.target, rows)
    else:
        answer = _of_numbers(estimator, model.target, rows, level)
    means, spreads = answer.pop("means"), answer.pop("spreads")
    answer["cells"] = [
        {"column": name, "mean": means[0] - mean, "spread": spreads[0] - spread}
        for name, mean, spread in zip(there, means[1:], spreads[1:], strict=True)
    ]
    far = next(model.schema.far_outside(x), None)
    if far is not None and far.column.range is not None:
        value, low, high = map(people_read, (far.value, *far.column.range))
        answer["far"] = f"{far.column.name} is {value}, far outside the training values ({low} to {high})."
    return answer


def _of_numbers(estimator: NPNRegressor, target: Target, rows: Array, level: float) -> dict[str, Any]:
    predicted, parts = estimator.predict_dist(rows), estimator.predict_variance(rows[:1])
    first = predicted[[0]]
    (low,), (high,) = first.interval(level)
    return {
        "mean": float(first.mean[0]),
        "std": float(first.std[0]),
        "low": float(low),
        "high": float(high),
        "noise": float(np.sqrt(parts.aleatoric[0])),
        "model": float(np.sqrt(parts.epistemic[0])),
        "shape": shape(first, target.is_count),
        "means": predicted.mean.tolist(),
        "spreads": predicted.std.tolist(),
    }


def _of_classes(estimator: NPNClassifier, target: Target, rows: Array) -> dict[str, Any]:
    """The predicted class takes the place of the mean, and the entropy that of the standard deviation."""
    probs, parts = estimator.predict_proba(rows), estimator.predict_variance(rows[:1])
    best = int(probs[0].argmax())
    total = float(parts.total.sum())
    return {
        "best": target.classes[best],
        "probabilities": dict(zip(target.classes, probs[0].tolist(), strict=True)),
        "uncertainty": float(uncertainty(probs[:1])[0]),
        "model_share": float(parts.epistemic.sum()) / total if total > 0 else 0.0,
        "means": probs[:, best].tolist(),
        "spreads": uncertainty(probs).tolist(),
    }
