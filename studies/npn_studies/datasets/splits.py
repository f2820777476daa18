"""Splits of a graph for link prediction: by documents, some of them never seen; or by links, some of them held out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from torchnpn.datasets import Split


class LinkSplit(NamedTuple):
    """Links to learn from and links held out, each (links, 2), in the order that they had."""

    train: NDArray[Any]
    test: NDArray[Any]


def node_split(count: int, seed: int, share: float = 0.8) -> Split:
    """Numbers of documents to train on, a random `share` of all rounded to the nearest, and the rest; both rising.

    Args:
        count: How many documents there are, at least two.
        seed: Decides which.
        share: Above 0 and below 1.
    """
    return Split(*_parts(count, seed, share, "documents"))


def link_split(links: NDArray[Any], seed: int, share: float = 0.8) -> LinkSplit:
    """A random `share` of the links to learn from, and the rest; all documents are in both.

    Args:
        links: (links, 2), at least two.
        seed: Decides which.
        share: Above 0 and below 1.
    """
    return LinkSplit(*(links[part] for part in _parts(len(links), seed, share, "links")))


def _parts(count: int, seed: int, share: float, what: str) -> tuple[NDArray[Any], NDArray[Any]]:
    if not 0 < share < 1:
        raise ValueError(f"share expects a number above 0 and below 1, got {share!r}.")
    taken = round(share * count)
    if not 0 < taken < count:
        raise ValueError(f"A split expects {what} on both sides, got {taken} of {count} to train on. Change share.")
    order = np.random.default_rng(seed).permutation(count)
    return np.sort(order[:taken]), np.sort(order[taken:])
