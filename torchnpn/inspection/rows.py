"""Rows of an array or a frame of pandas: some of them, their columns by name or number, and columns replaced."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from torchnpn._text import did_you_mean

Array = NDArray[Any]


def checked(X: Any) -> Any:
    """A frame as it is, anything else as an array of two dimensions."""
    if hasattr(X, "iloc") and hasattr(X, "isetitem"):
        return X
    if scipy.sparse.issparse(X) or hasattr(X, "columns"):
        raise ValueError(
            f"X expects an array or a frame of pandas, got {type(X).__name__}. Take X.toarray() or X.to_pandas()."
        )
    array = np.asarray(X)
    if array.ndim != 2 or not array.size:
        raise ValueError(f"X expects rows and columns, got an array of shape {array.shape}.")
    return array


def taken(X: Any, rows: Array) -> Any:
    """Some rows."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def names(estimator: Any, X: Any) -> list[str]:
    """Of the columns: those of the frame, or those that the estimator knows, or x0, x1, …"""
    known = X.columns if hasattr(X, "columns") else getattr(estimator, "feature_names_in_", None)
    return [str(name) for name in known] if known is not None else [f"x{j}" for j in range(X.shape[1])]


def place(estimator: Any, X: Any, feature: Any) -> int:
    """The number of a column that is given by its name or number."""
    listed = names(estimator, X)
    if isinstance(feature, str):
        if feature not in listed:
            raise ValueError(f"feature expects the name of a column, got {feature!r}.{did_you_mean(feature, listed)}")
        return listed.index(feature)
    if not isinstance(feature, (int, np.integer)) or isinstance(feature, bool) or not 0 <= feature < len(listed):
        raise ValueError(f"feature expects a name or a number from 0 to {len(listed) - 1}, got {feature!r}.")
    return int(feature)


def column(X: Any, j: int) -> Array:
    """Values of a column as float64.

    Raises:
        ValueError: If they are no numbers.
    """
    values = X.iloc[:, j].to_numpy() if hasattr(X, "iloc") else X[:, j]
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"feature expects a column of numbers, got column {j} of type {values.dtype}.") from None


def shuffled(X: Any, columns: Array, order: Array) -> Any:
    """The same rows with some columns in another order."""
    changed = X.copy()
    for j in columns.tolist():
        if hasattr(X, "iloc"):
            changed.isetitem(j, X.iloc[order, j].array)
        else:
            changed[:, j] = X[order, j]
    return changed


def filled(X: Any, j: int, value: float) -> Any:
    """The same rows with one value in a column."""
    if hasattr(X, "iloc"):
        changed = X.copy()
        changed.isetitem(j, np.full(len(X), value))
        return changed
    changed = X.astype(np.float64)
    changed[:, j] = value
    return changed
