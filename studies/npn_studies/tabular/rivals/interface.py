"""What a method is: a function that learns from a task, and gives a function that predicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npn_studies.tabular.collection import Kind
from npn_studies.tabular.predictions import Prediction

Array = NDArray[Any]


class Inputs(NamedTuple):
    """Some rows of a table, in the two forms of `form.Rows`."""

    X: Array
    coded: Array
    categorical: Array


class Task(NamedTuple):
    """What there is to learn from.

    Attributes:
        kind: Of the target, which every method knows.
        inputs: The rows.
        y: Their targets.
        classes: How many there are, of classes.
        seed: Of the split, and for the method.
    """

    kind: Kind
    inputs: Inputs
    y: Array
    classes: int
    seed: int


Answer = Prediction | Array  # a distribution; of classes, probabilities (rows, classes)
Predict = Callable[[Inputs], Answer]
Fit = Callable[[Task], Predict]


class Method(NamedTuple):
    """One method of the comparison.

    Attributes:
        label: On the page.
        fit: What it does.
        package: That must be installed, beside what torchnpn needs.
        most_rows: Of a table that it is tried on; more would take too long.
        kinds: Of targets that it has.
    """

    label: str
    fit: Fit
    package: str = "sklearn"
    most_rows: int = 20_000
    kinds: tuple[Kind, ...] = ("gaussian", "amounts", "counts", "classes")


def folds(task: Task, count: int = 5) -> Iterator[tuple[Array, Array]]:
    """Rows to learn from and rows held out, each row held out once."""
    order = np.random.default_rng([11, task.seed]).permutation(len(task.y))
    for part in np.array_split(order, count):
        yield np.setdiff1d(order, part), part


class Standard(NamedTuple):
    """Columns in standard units, the mean where a value is missing, and a column that says where one is."""

    mean: Array
    scale: Array
    varies: Array
    gaps: Array

    @classmethod
    def of(cls, X: Array) -> Standard:
        seen = np.where(np.isnan(X).all(0), 0.0, X)
        mean, std = np.nanmean(seen, 0), np.nanstd(seen, 0)
        varies = np.asarray(std > 1e-12 * np.abs(mean))
        return cls(mean, np.where(varies, std, 1.0), varies, np.asarray(np.isnan(X).any(0)))

    def __call__(self, X: Array) -> Array:
        units = np.where(np.isnan(X), 0.0, (X - self.mean) / self.scale)[:, self.varies]
        return np.asarray(np.clip(np.hstack([units, np.isnan(X[:, self.gaps])]), -20, 20))
