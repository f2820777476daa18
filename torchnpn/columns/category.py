"""A column of categories: text, codes, or whatever is one of a few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchnpn._text import shown
from torchnpn.columns.cells import NONE, Cells, Texts, as_texts, taken

Array = NDArray[Any]
MOST_LEVELS = 255  # of a column; the rest share one input, "other"
LEAST_SCALE = 0.07  # of an input, its std at one row in 200: one that is 1 more seldom is not blown up


@dataclass(frozen=True)
class Category:
    """A column of categories: an input of 0 or 1 for each level, one input alone where there are two levels.

    The first layer's weights of an input are what is learnt of a level: an embedding with variances. A missing cell is
    NaN in all inputs, which the network reads as the distribution of the levels: each input has mean p and variance
    p (1 - p). So is a level that was never seen; but where rare levels were put together as "other", it is one of
    these.
    """

    name: str
    values: tuple[str, ...]  # the levels, the most frequent first
    has_other: bool = False

    @classmethod
    def learn(cls, name: str, counts: Mapping[str, int]) -> Category:
        """The levels of a column.

        Args:
            name: Of the column.
            counts: In how many rows each level stands.
        """
        levels = sorted((level for level, count in counts.items() if count), key=lambda level: (-counts[level], level))
        return cls(name, tuple(levels[:MOST_LEVELS]), len(levels) > MOST_LEVELS)

    @property
    def inputs(self) -> tuple[str, ...]:
        names = [f"{self.name}={value}" for value in self.values]
        return tuple([*names, f"{self.name}=other"] if self.has_other else names[:1] if len(names) == 2 else names)

    @property
    def least_scales(self) -> tuple[float, ...]:
        return (LEAST_SCALE,) * len(self.inputs)

    def encode(self, cells: Cells, first_row: int = 0) -> Array:  # (rows,) -> (rows, inputs)
        """0 or 1 in each input; NaN in all where a level is missing or unknown."""
        texts = as_texts(cells)
        place = {value: i for i, value in enumerate(self.values)}
        other = len(self.values) if self.has_other else NONE
        known = np.array([place.get(text, other) for text in texts.different], np.int64)
        code = taken(known, texts.codes, NONE)
        encoded: Array = (code[:, None] == np.arange(len(self.inputs))).astype(np.float64)
        encoded[code == NONE] = np.nan
        return encoded

    def state(self) -> dict[str, Any]:
        """Plain values, for a model file."""
        return {"category": self.name, "values": list(self.values), "has_other": self.has_other}

    @classmethod
    def from_state(cls, state: object) -> Category:
        """The inverse of `state`; a ValueError where it is something else."""
        match state:
            case {"category": str(name), "values": list(values), "has_other": bool(has_other), **rest} if not rest:
                texts = all(isinstance(value, str) for value in values) and len(set(values)) == len(values)
                if texts and len(values) <= MOST_LEVELS:
                    return cls(name, tuple(values), has_other)
        raise ValueError(f"A column of categories should have a name and different levels, got {shown(state)}.")


def counted(texts: Texts) -> dict[str, int]:
    """In how many rows each text stands."""
    counts: Counter[str] = Counter()
    found = np.bincount(texts.codes[texts.codes != NONE], minlength=len(texts.different))
    for text, count in zip(texts.different, found.tolist(), strict=True):
        counts[text] += count  # a text may stand there twice, such as the category 1 and the category "1"
    return counts
