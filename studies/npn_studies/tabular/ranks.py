"""Average ranks of methods over tables, and how far two of them must lie apart (Demšar 2006)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Losses = Mapping[str, Mapping[str, Sequence[float]]]  # by table and method, one for each split


class Ranks(NamedTuple):
    """Ranks of some methods on the tables that all of them have.

    Attributes:
        methods: Their names.
        tables: The tables.
        mean: The average rank of each; 1 is best.
        first: The share of tables on which each has the least loss.
        distance: Nemenyi's critical difference at 5 %: two average ranks that lie closer may do so by chance.
    """

    methods: tuple[str, ...]
    tables: tuple[str, ...]
    mean: NDArray[Any]
    first: NDArray[Any]
    distance: float

    def apart(self, method: str) -> tuple[list[str], list[str]]:
        """The methods that are better, and those that are worse, by more than the critical difference."""
        gap = self.mean - self.mean[self.methods.index(method)]
        better = [name for name, by in zip(self.methods, gap, strict=True) if by < -self.distance]
        return better, [name for name, by in zip(self.methods, gap, strict=True) if by > self.distance]


def ranks(losses: Losses, methods: Sequence[str]) -> Ranks | None:
    """Of mean losses over the splits that all these methods have; `None` where no table has all of them."""
    means = {}
    for table, of in losses.items():
        if all(of.get(method) for method in methods):
            splits = min(len(of[method]) for method in methods)
            means[table] = [float(np.mean(of[method][:splits])) for method in methods]
    if not means:
        return None
    found = np.array([stats.rankdata(row) for row in means.values()])
    first = (found == found.min(1, keepdims=True)).mean(0)
    return Ranks(tuple(methods), tuple(means), found.mean(0), first, critical_difference(len(methods), len(means)))


def critical_difference(methods: int, tables: int) -> float:
    """q √(k (k + 1) / 6N), q the 95 % point of the studentized range over √2."""
    if methods < 2:
        return 0.0
    q = stats.studentized_range.ppf(0.95, methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(methods * (methods + 1) / (6 * tables)))
