"""Pairs of nodes: given ones, checked, those with a link, and a sample of those without."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchnpn import settings
from torchnpn.rows import validation

Pairs = NDArray[np.int64]  # (pairs, 2)


def checked_nodes(given: Any, count: int, name: str) -> NDArray[np.int64]:
    """Numbers of nodes, one after the other."""
    array = _node_numbers(given, count, name)
    if array.ndim != 1:
        raise ValueError(f"{name} expects a list of nodes, got shape {array.shape}.")
    return array


def _node_numbers(given: Any, count: int, name: str) -> NDArray[np.int64]:
    """Numbers of nodes, in whatever shape."""
    try:
        array = np.asarray(validation.plain_values(given) if hasattr(given, "shape") else list(given))
    except (TypeError, ValueError):  # of what is no list, or one of lists of different lengths
        raise ValueError(f"{name} expects numbers of nodes, got {settings.short(given)}.") from None
    if not array.size:
        raise ValueError(f"{name} expects at least one node, got none.")
    if array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= count:
        wrong = array[(array < 0) | (array >= count)] if array.dtype.kind in "iu" else array
        raise ValueError(
            f"{name} expects whole numbers from 0 to {count - 1}, got {settings.short(wrong.reshape(-1)[0])}."
        )
    return array.astype(np.int64)


def checked_pairs(given: Any, count: int, name: str) -> Pairs:
    """Pairs of numbers of nodes."""
    pairs = _node_numbers(given, count, name)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"{name} expects pairs of nodes (pairs, 2), got shape {pairs.shape}.")
    return pairs


def links_among(links: Pairs, nodes: NDArray[np.int64]) -> Pairs:
    """Links between `nodes`, by their places there: i < j, each once; self-links are left out."""
    place = np.full(max(int(links.max()), int(nodes.max())) + 1, -1)
    place[nodes] = np.arange(len(nodes))
    ends = np.sort(place[links], axis=1)
    ends = ends[(ends[:, 0] >= 0) & (ends[:, 0] < ends[:, 1])]
    keys = np.sort(ends @ np.array([len(nodes), 1]))  # a number for each pair: ten times as fast as unique rows
    first = np.diff(keys, prepend=-1) > 0
    return np.stack(np.divmod(keys[first], len(nodes)), axis=1)


def negative_pairs(count: int, links: Pairs, wanted: float, rng: np.random.Generator) -> Pairs:
    """A uniform sample without repetition of the pairs {i, j} of `count` nodes not in `links` (i < j, each once).

    `wanted` is a share below 1 of all such pairs, rounded up, or a whole number, at most all of them.
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
