"""Odd data, made up: copies of rows, wild cells, heavy tails, columns that say nothing, classes that are rare or many.

What a careless table has, each fault alone, with rows to judge by that come from the same law.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npn_studies.tabular.collection import Kind

Array = NDArray[Any]
_WILD = 1e6
_NEW_ROWS = 2_000
_SHOWN = 0.1  # of the rows to judge by that have a wild cell, where any has


class Drawn(NamedTuple):
    """Rows to learn from, and rows to judge by."""

    X: Array
    y: Array
    new_X: Array
    new_y: Array

    @classmethod
    def of(cls, X: Array, y: Array, rows: int) -> Drawn:
        """The first so many rows are those to learn from."""
        return cls(X[:rows], y[:rows], X[rows:], y[rows:])


class Case(NamedTuple):
    """One fault."""

    name: str
    words: str
    kind: Kind
    draw: Callable[[np.random.Generator], Drawn]


def _signal(X: Array) -> Array:
    """Of four columns, with a standard deviation of about 2."""
    return np.asarray(np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2] - 0.5 * X[:, 0] * X[:, 3])


def _numbers(rng: np.random.Generator, rows: int, noise: Array | float = 0.5) -> Drawn:
    X = rng.normal(size=(rows + _NEW_ROWS, 8))
    return Drawn.of(X, _signal(X) + noise * rng.normal(size=len(X)), rows)


def _copies(rng: np.random.Generator) -> Drawn:
    drawn = _numbers(rng, 100)
    return drawn._replace(X=np.tile(drawn.X, (10, 1)), y=np.tile(drawn.y, 10))


def _wild_learnt(rng: np.random.Generator) -> Drawn:
    drawn = _numbers(rng, 500)
    drawn.X[0, 2] = _WILD
    return drawn


def _wild_new(rng: np.random.Generator) -> Drawn:
    drawn = _numbers(rng, 500)
    drawn.new_X[: int(_SHOWN * _NEW_ROWS), 2] = _WILD
    return drawn


def _heavy(rng: np.random.Generator) -> Drawn:
    return _numbers(rng, 1_000, 0.5 * rng.standard_t(2, 1_000 + _NEW_ROWS) / rng.normal(size=1_000 + _NEW_ROWS))


def _useless(rng: np.random.Generator, rows: int, columns: int) -> Drawn:
    X = rng.normal(size=(rows + _NEW_ROWS, columns))
    return Drawn.of(X, X[:, :5] @ [1.0, -1.0, 0.5, 0.5, 0.25] + 0.7 * rng.normal(size=len(X)), rows)


def _rare(rng: np.random.Generator) -> Drawn:
    """One row in a hundred."""
    X = rng.normal(size=(4_000 + 4 * _NEW_ROWS, 10))
    logit = -6.3 + X[:, :4] @ [1.2, -1.0, 0.8, 0.6]
    return Drawn.of(X, (rng.random(len(X)) < 1 / (1 + np.exp(-logit))).astype(np.int64), 4_000)


def _many(rng: np.random.Generator) -> Drawn:
    """A hundred classes, each around a point of its own."""
    y = rng.integers(100, size=4_000 + _NEW_ROWS)
    return Drawn.of(rng.normal(size=(100, 10))[y] + 0.5 * rng.normal(size=(len(y), 10)), y, 4_000)


def _counts(rng: np.random.Generator) -> Drawn:
    X = rng.normal(size=(1_000 + _NEW_ROWS, 6))
    return Drawn.of(X, rng.poisson(np.exp(0.7 + X[:, :3] @ [0.6, -0.4, 0.3])).astype(np.float64), 1_000)


def _wild_count(rng: np.random.Generator) -> Drawn:
    drawn = _counts(rng)
    drawn.y[0] = _WILD
    return drawn


def _trips(rng: np.random.Generator) -> Drawn:
    """Mostly zeros: who does not know the lake makes no trips, few who know it make dozens."""
    rows = 600 + _NEW_ROWS
    quality = rng.integers(1, 6, rows) * (rng.random(rows) < 0.4)
    income, cost = rng.integers(1, 10, rows), rng.gamma(2, 20, rows)
    rate = np.where(quality > 0, np.exp(0.4 + 0.35 * quality - 0.02 * cost) * rng.gamma(1.0, 1.0, rows), 0.005)
    return Drawn.of(np.column_stack([quality, income, cost]).astype(np.float64), rng.poisson(rate).astype(float), 600)


CASES = (
    Case("copies", "100 rows, ten times over", "gaussian", _copies),
    Case("wild_learnt", "one cell of 1e6 among the rows to learn from", "gaussian", _wild_learnt),
    Case("wild_new", "a cell of 1e6 in a tenth of the new rows", "gaussian", _wild_new),
    Case("heavy", "Student-t noise with 2 degrees of freedom", "gaussian", _heavy),
    Case("useless", "160 rows, 100 of 105 columns say nothing", "gaussian", lambda rng: _useless(rng, 160, 105)),
    Case("wide", "300 rows of 5,000 columns", "gaussian", lambda rng: _useless(rng, 300, 5_000)),
    Case("rare", "4,000 rows, of which 1 % are of the second class", "classes", _rare),
    Case("many", "4,000 rows of 100 classes", "classes", _many),
    Case("wild_count", "one count of 1e6 among the rows to learn from", "counts", _wild_count),
    Case("trips", "counts that are mostly 0, and some large", "counts", _trips),
)
