"""A table as methods see it, its splits, and its file; needs only numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npn_studies.tabular.collection import TABLES, Table

Array = NDArray[Any]
TEST_SHARE = 0.2


class NotInstalled(Exception):
    """What a table comes from is not on this machine; the message says how to get it."""


class Rows(NamedTuple):
    """One table.

    Attributes:
        table: Where it comes from.
        X: Numbers, NaN where one is missing, and a column of zeros and ones for each level of a category.
        coded: The columns as they were, a number or the number of a level, where some are levels; else the same as `X`.
        categorical: Which columns of `coded` are levels.
        y: The target; classes are numbers from 0 on.
    """

    table: Table
    X: Array
    coded: Array
    categorical: Array
    y: Array


def write(found: Rows, folder: Path) -> None:
    """NAME.npz, for machines that have no packages with tables."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {"X": found.X.astype(np.float32), "y": found.y}
    if found.categorical.any():
        arrays |= {"coded": found.coded, "categorical": found.categorical}
    np.savez_compressed(folder / f"{found.table.name}.npz", **arrays)


def read(name: str, folder: Path) -> Rows:
    """The table of this name, as written to the folder."""
    path = folder / f"{name}.npz"
    if not path.is_file():
        raise NotInstalled(f"{path} is not there: `python -m npn_studies.tabular build {folder}` writes it")
    with np.load(path) as file:
        arrays = dict(file)
    X = arrays["X"].astype(np.float64)
    codes = arrays.get("coded", X), arrays.get("categorical", np.zeros(X.shape[1], bool))
    return Rows(TABLES[name], X, *codes, arrays["y"])


def split(found: Rows, seed: int) -> tuple[Array, Array]:
    """Rows to learn from and rows to judge by, a fifth of the table; of classes, a fifth of each."""
    y, rng = found.y, np.random.default_rng([7, seed])
    groups = [np.flatnonzero(y == c) for c in np.unique(y)] if found.table.kind == "classes" else [np.arange(len(y))]
    test = np.zeros(len(y), bool)
    for members in groups:
        test[rng.permutation(members)[: max(1, round(TEST_SHARE * len(members)))]] = True
    return np.flatnonzero(~test), np.flatnonzero(test)
