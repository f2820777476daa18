"""Rows that are held out: copies of one row together, and those by which training finds out when to stop."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Array = NDArray[Any]


class HeldOutRows(NamedTuple):
    """Rows that have been checked and only say when to stop."""

    X: Any
    y: Array
    weight: Array | None
    X_variance: Any


def split_for_patience(same: Array, share: float, seed: int, learnt: Array) -> tuple[Array, Array]:
    """Numbers of the rows to learn from, and of those to hold out.

    Args:
        same: (rows,) a number for each row; rows with the same number stay together (`copies`).
        share: To hold out.
        seed: Of the draw.
        learnt: Numbers of rows that are not to be held out.
    """
    numbers, which = np.unique(same, return_inverse=True)
    free = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(len(numbers)), which[learnt]))
    out = free[: max(1, round(share * len(numbers)))]
    held_out = np.isin(which, out)
    if not len(out) or (~held_out).sum() < 2:
        raise ValueError(
            f"patience holds out a share {share:g} of the rows, which leaves too few of {len(same)} to learn from. "
            "Take patience=None, or more rows."
        )
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def variance_of_rows(X_variance: Any, rows: Array, shape: tuple[int, ...]) -> Any:
    """Measurement variances of some rows, if each has its own."""
    return np.asarray(X_variance)[rows] if np.shape(X_variance) == shape else X_variance


def copies(X: Any, y: Array) -> Array:  # (rows, features), (rows, …) -> (rows,)
    """A number for each row, the same for rows that are copies of each other: one would tell what its twin is.

    Equal rows are copies where some column, or the target, has nearly as many values as there are different rows. In a
    table of few categories rows are equal by chance, and all count as different. So do sparse rows.
    """
    different = np.arange(X.shape[0])
    if scipy.sparse.issparse(X):
        return different
    values, found = 0, np.zeros(len(X), np.int64)
    for column in (*X.T, *y.reshape(len(y), -1).T):
        numbers = _numbered(column)
        values = max(values, int(numbers.max()) + 1)
        found = _numbered(found * (int(numbers.max()) + 1) + numbers)
        if found.max() + 1 == len(X):
            return different
    return found if 2 * values > found.max() + 1 else different


def _numbered(values: Array) -> Array:
    """The place of each among the sorted different ones; NaN is one of them."""
    return np.unique(values, return_inverse=True)[1].reshape(-1)
