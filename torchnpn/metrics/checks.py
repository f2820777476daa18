"""Arguments of the metrics, checked and as float64 arrays; the first argument of each check is the metric's name."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]

_LARGEST = np.finfo(np.float64).max
_MOST = 1_000_000  # bins or levels
_SUM_TOLERANCE = 1e-3  # float32 probabilities of a thousand classes add up well within it


def matching(metric: str, **arguments: ArrayLike) -> list[Array]:
    """The arguments in one common shape.

    Each has the shape of the largest, or of its last axes (a scalar, or one row for all rows). Free broadcasting would
    make a square of (rows, 1) and (rows,), and a wrong number of it.
    """
    arrays = {name: numbers(metric, name, value) for name, value in arguments.items()}
    shape = max((array.shape for array in arrays.values()), key=len)
    for name, array in arrays.items():
        if array.shape != shape[len(shape) - array.ndim :]:
            shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
            raise ValueError(
                f"{metric} expects arguments of one shape, got {shapes}. "
                "A column (rows, 1) becomes (rows,) by array.ravel()."
            )
    return [np.broadcast_to(array, shape) for array in arrays.values()]


def finite(metric: str, **arguments: ArrayLike) -> list[Array]:
    """The arguments in one common shape, all of them finite."""
    arrays = matching(metric, **arguments)
    for name, array in zip(arguments, arrays, strict=True):
        require(metric, np.isfinite(array), name, array, "to be finite")
    return arrays


def at_most(metric: str, name: str, number: int) -> None:
    """Raise for a number of bins or levels that is below one, or so large that it can only be a mistake."""
    if number < 1:
        raise ValueError(f"{metric} expects {name} >= 1, got {number}.")
    if number > _MOST:
        raise ValueError(f"{metric} expects {name} of at most {_MOST}, got {number}.")


def saturated(values: Array) -> Array:
    """Values beyond float64 at its largest number; they come from sums and squares of large numbers."""
    return np.asarray(np.clip(values, -_LARGEST, _LARGEST))


def columns(metric: str, **arguments: ArrayLike) -> list[Array]:
    """The arguments, each of shape (rows,) with one and the same number of rows."""
    arrays = {name: numbers(metric, name, value) for name, value in arguments.items()}
    if {array.ndim for array in arrays.values()} != {1} or len({array.size for array in arrays.values()}) != 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(f"{metric} expects one number for each row, shape (rows,), got {shapes}.")
    return list(arrays.values())


def numbers(metric: str, name: str, value: ArrayLike) -> Array:
    """A float64 array of any shape with something in it and no NaN."""
    array = np.asarray(value, dtype=np.float64)
    if array.size == 0:
        raise ValueError(f"{metric} expects at least one row, got {name} of shape {array.shape}.")
    if np.isnan(array).any():
        raise ValueError(f"{metric} expects numbers, got {int(np.isnan(array).sum())} NaN in {name}. Drop these rows.")
    return array


def require(metric: str, fine: Array, name: str, array: Array, expected: str) -> None:
    """Raise unless all is fine, with the first value that is not."""
    if not fine.all():
        raise ValueError(f"{metric} expects {name} {expected}, got {array[~fine][0]:g}.")


def classified(metric: str, probs: ArrayLike, labels: ArrayLike) -> tuple[Array, Array]:
    """Probabilities (rows, classes) that add up to 1, and labels (rows,) from 0 to classes - 1."""
    p, label = numbers(metric, "probs", probs), numbers(metric, "labels", labels)
    if p.ndim != 2 or label.shape != p.shape[:1]:
        raise ValueError(
            f"{metric} expects probs (rows, classes) and labels (rows,), got {p.shape} and {label.shape}. "
            "For two classes give both columns."
        )
    total = p.sum(axis=1)
    require(metric, (p >= 0) & (p <= 1 + _SUM_TOLERANCE), "probs", p, "from 0 to 1")
    require(metric, np.abs(total - 1) <= _SUM_TOLERANCE, "each row of probs", total, "to add up to 1")
    whole = (label >= 0) & (label < p.shape[1]) & (label == np.floor(label))
    require(metric, whole, "labels", label, f"to be classes from 0 to {p.shape[1] - 1}")
    return p, label.astype(np.int64)
