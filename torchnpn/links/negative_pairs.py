"""Pairs of nodes without a link, drawn at random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Pairs = NDArray[np.int64]


def negative_pairs(count: int, links: Pairs, wanted: float, rng: np.random.Generator) -> Pairs:
    """A uniform sample without repetition of the pairs {i, j} of `count` nodes that are not in `links`.

    Args:
        count: How many nodes; they have numbers from 0.
        links: (links, 2), i < j, each once.
        wanted: A share below 1 of all pairs without a link, rounded up, or a whole number; at most all of them.
        rng: Where chance comes from.
    """
    every = count * (count - 1) // 2
    without = every - len(links)
    number = min(without, int(np.ceil(wanted * without) if wanted < 1 else wanted))
    drawn = rng.choice(every, min(every, number + len(links)), replace=False)  # enough, whatever links are among them
    first, step = drawn % count, 1 + drawn // count
    pairs = np.sort(np.stack([first, (first + step) % count], axis=1), axis=1)  # on a circle: every pair exactly once
    is_link = np.isin(pairs @ (count, 1), links @ (count, 1))
    chosen: Pairs = pairs[~is_link][:number]
    return chosen
