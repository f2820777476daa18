"""Rows that training does not learn from, by which it finds out when to stop."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
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
        same: (rows,) a number for each row; rows with the same number stay together (`stacking.copies`).
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
