"""Rows to learn from, and rows to judge by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]


def split_rows(y: NDArray[np.float64], share: float, seed: int = 0, by_class: bool = False) -> tuple[Rows, Rows]:
    """Numbers of the training rows and of the validation rows.

    A share of the rows is held out, but at least 20 of them, or a fifth where there are fewer than 100.

    Args:
        y: Targets.
        share: Of the rows, to hold out.
        seed: Decides which.
        by_class: Hold out the same share of each class, and never a class's only row.
    """
    count = max(round(share * len(y)), min(20, len(y) // 5))
    order = np.random.default_rng(seed).permutation(len(y))
    if by_class:
        first = np.unique(y[order], return_index=True)[1]  # a row of each class stays to learn from
        rest = np.delete(order, first)
        by_label = rest[np.argsort(y[rest], kind="stable")]
        count = min(count, len(rest))
        held_out = by_label[np.linspace(0, len(rest), count, endpoint=False).astype(np.intp)]
    else:
        held_out = order[:count]
    training = np.ones(len(y), bool)
    training[held_out] = False
    return np.flatnonzero(training), np.sort(held_out)
