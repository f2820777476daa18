"""How predictions and their uncertainty change along one feature, on average over rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from torchnpn.inspection import rows as table
from torchnpn.inspection.rows import Array


class PartialDependence(NamedTuple):
    """Averages over rows in which a feature has each value of a grid; (points,), or (points, targets or classes)."""

    name: str
    grid: Array  # (points,) values of the feature, or (points, columns) where several columns change together
    mean: Array  # of the predicted means, or of the probabilities
    low: Array  # below which a tenth of the rows' means lies
    high: Array  # above which a tenth of the rows' means lies
    epistemic: Array  # root of the mean epistemic variance
    aleatoric: Array  # root of the mean aleatoric variance

    @property
    def std(self) -> Array:
        """Root of the mean variance that is predicted."""
        return np.hypot(self.epistemic, self.aleatoric)


def partial_dependence(
    estimator: Any,
    X: Any,
    feature: Any,
    *,
    grid: ArrayLike | None = None,
    points: int = 25,
    rows: int = 300,
    seed: int = 0,
) -> PartialDependence:
    """Mean prediction, and mean epistemic and aleatoric variance, if a feature had other values in all rows.

    Rows get values of the feature that may not go with their others; where features are strongly correlated, the
    epistemic part says where that leads away from all data.

    Args:
        estimator: Fitted, with `predict_dist` and `predict_variance`.
        X: (rows, columns), an array or a frame of pandas.
        feature: Its name or number, or the slice of the columns that hold it, such as those of one category.
        grid: Values; None: `points` of them from the 1% to the 99% quantile, or all there are if they are fewer. For
            a slice (points, columns), in any order.
        points: How many.
        rows: At most so many of X are averaged over.
        seed: Decides which.
    """
    X = table.checked(X)
    if isinstance(feature, slice):
        return _along_columns(estimator, X, feature, grid, rows, seed)
    j = table.place(estimator, X, feature)
    if points < 2 or rows < 1:
        raise ValueError(f"partial_dependence expects points >= 2 and rows >= 1, got points={points}, rows={rows}.")
    values = _grid(table.column(X, j), points) if grid is None else np.sort(np.asarray(grid, dtype=np.float64))
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise ValueError(f"grid expects finite values of the feature in a list, got {grid!r}.")
    some = table.taken(X, np.random.default_rng(seed).permutation(len(X))[:rows])
    found = [_averages(estimator, table.filled(some, j, value)) for value in values]
    return PartialDependence(table.names(estimator, X)[j], values, *map(np.stack, zip(*found, strict=True)))


def _along_columns(
    estimator: Any, X: Any, columns: slice, grid: ArrayLike | None, rows: int, seed: int
) -> PartialDependence:
    """The same for columns of an array that change together."""
    values = np.asarray(grid, dtype=np.float64)
    width = len(range(*columns.indices(X.shape[1])))
    if not isinstance(X, np.ndarray) or values.ndim != 2 or values.shape[1] != width or not np.isfinite(values).all():
        raise ValueError(
            f"A slice of columns expects an array X and a grid of finite values of shape (points, {width}), got "
            f"{type(X).__name__} and a grid of shape {values.shape}."
        )
    some = X[np.random.default_rng(seed).permutation(len(X))[:rows]].astype(np.float64)
    found = []
    for value in values:
        some[:, columns] = value
        found.append(_averages(estimator, some))
    name = table.names(estimator, X)[columns.indices(X.shape[1])[0]]
    return PartialDependence(name, values, *map(np.stack, zip(*found, strict=True)))


def _grid(values: Array, points: int) -> Array:
    known = values[~np.isnan(values)]
    if not known.size:
        raise ValueError("feature expects a column with values, got one where all are missing.")
    different = np.unique(known)
    low, high = np.quantile(known, [0.01, 0.99])
    return different if len(different) <= points else np.linspace(low, high, points)


def _averages(estimator: Any, X: Any) -> tuple[Array, ...]:
    predicted, parts = estimator.predict_dist(X), estimator.predict_variance(X)
    means = predicted.probs if hasattr(predicted, "probs") else predicted.mean
    low, high = np.quantile(means, [0.1, 0.9], axis=0)
    return means.mean(0), low, high, np.sqrt(parts.epistemic.mean(0)), np.sqrt(parts.aleatoric.mean(0))
