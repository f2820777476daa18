"""How high the true neighbours of a node are ranked among all candidates: link rank and AUC.

Scores come as one matrix (nodes, candidates) or as blocks of its rows, arrays or tensors on any device, so that the
whole matrix need never be in memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

Array = NDArray[Any]
Pairs = NDArray[np.int64]  # (pairs, 2)
_ELEMENTS = 1 << 25  # scores that are compared at a time


class LinkQuality(NamedTuple):
    """Figures of the nodes that have a true neighbour among the candidates.

    Attributes:
        nodes: (n,) which rows of the scores.
        ranks: (n,) mean rank of the node's true neighbours.
        counts: (n,) how many these are.
        aucs: (n,) probability that a true neighbour scores above another candidate, ties counted half; NaN for a node
            all of whose candidates are neighbours.
    """

    nodes: NDArray[np.int64]
    ranks: Array
    counts: NDArray[np.int64]
    aucs: Array

    @property
    def rank(self) -> float:
        """Mean of `ranks`: over the neighbours of a node, then over nodes."""
        return float(self.ranks.mean())

    @property
    def rank_of_links(self) -> float:
        """The mean over all links, as the paper's words have it: a node counts as often as it has neighbours."""
        return float(np.average(self.ranks, weights=self.counts))

    @property
    def auc(self) -> float:
        """Mean of `aucs`, over the nodes that have one."""
        return float(np.nanmean(self.aucs)) if not np.isnan(self.aucs).all() else float("nan")


def link_quality(scores: Any, links: ArrayLike, left_out: ArrayLike | None = None) -> LinkQuality:
    """Rank and AUC of each node (paper, Section 4.3).

    For a node with c candidates, of which p are its true neighbours, candidates are ranked by falling score, the best
    is 1, and equal scores share the mean of their ranks. With r the mean rank of the neighbours,
        AUC = 1 - (r - (p + 1)/2) / (c - p).

    Args:
        scores: (nodes, candidates), larger is likelier; or blocks of its rows, in order.
        links: (links, 2) the row and the column of each true link, each once.
        left_out: (pairs, 2) rows and columns that are no candidates, e.g. a node itself and its known neighbours.

    Raises:
        ValueError: If there is no link, a pair is not in the matrix, given twice or both a link and left out, or a
            score is not finite.
    """
    blocks = [scores] if hasattr(scores, "shape") else scores
    true, none = _sorted(links, "links"), _sorted(np.empty((0, 2)) if left_out is None else left_out, "left_out")
    if not len(true):
        raise ValueError("link_quality expects at least one link, got none. Nodes without links have no rank.")
    both = np.concatenate([true, none])
    first, columns, ranks = 0, 0, []
    for given in blocks:
        block = torch.as_tensor(given)
        rows, columns = block.shape
        if both.min() < 0 or both[:, 1].max() >= columns:
            raise ValueError(f"link_quality expects columns from 0 to {columns - 1}, got pairs {_ends(both)}.")
        ranks.append(_ranks(block, *(_within(pairs, first, first + rows) for pairs in (true, none))))
        first += rows
    if both[:, 0].max() >= first:
        raise ValueError(f"link_quality expects rows from 0 to {first - 1}, got pairs {_ends(both)}.")
    keys = np.sort(both @ np.array([columns, 1]))  # a number for each pair: ten times as fast as unique rows
    if (keys[1:] == keys[:-1]).any():
        raise ValueError("link_quality expects each pair once, in links or in left_out, got some twice.")
    return _by_node(true[:, 0], np.concatenate(ranks), none[:, 0], columns, first)


def link_rank(scores: Any, links: ArrayLike, left_out: ArrayLike | None = None) -> float:
    """The rank of a node's true neighbours, averaged over them and then over all nodes that have one; 1 is the best.

    See `link_quality` for the arguments.
    """
    return link_quality(scores, links, left_out).rank


def link_auc(scores: Any, links: ArrayLike, left_out: ArrayLike | None = None) -> float:
    """The area under the ROC curve of each node's candidates, averaged over the nodes with a true neighbour.

    See `link_quality` for the arguments.
    """
    return link_quality(scores, links, left_out).auc


def link_positions(links: ArrayLike, rows: ArrayLike, columns: ArrayLike) -> Pairs:
    """Where the links of a graph stand in a matrix of scores: (row, column) of each link in either direction.

    Args:
        links: (links, 2) numbers of nodes, undirected.
        rows: Numbers of the nodes in the rows, each once.
        columns: Numbers of the nodes in the columns, each once. Links to other nodes are left out.
    """
    pairs = _sorted(links, "links")
    rows, columns = (np.asarray(numbers, dtype=np.int64) for numbers in (rows, columns))
    both = np.concatenate([pairs, pairs[:, ::-1]])
    row, column = _places(both[:, 0], rows), _places(both[:, 1], columns)
    inside = (row >= 0) & (column >= 0)
    keys = np.unique(row[inside] * len(columns) + column[inside])  # ten times as fast as unique rows
    return np.stack(np.divmod(keys, max(len(columns), 1)), axis=1)


def _places(nodes: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each node stands among the numbers, -1 for those not there; no table as long as the largest number."""
    if not len(numbers):
        return np.full(len(nodes), -1)
    order = np.argsort(numbers, kind="stable")
    place = order[np.searchsorted(numbers, nodes, sorter=order).clip(max=len(numbers) - 1)]
    return np.where(numbers[place] == nodes, place, -1)


def _ranks(block: Tensor, links: Pairs, left_out: Pairs) -> Array:
    """The rank of each link among the candidates of its row."""
    if not len(links):
        return np.empty(0)
    if not bool(block.sum(dtype=torch.float64).isfinite()) and not bool(block.isfinite().all()):
        raise ValueError("link_quality expects finite scores, got others. Look for NaN in the codes.")
    if len(left_out):
        block = block.clone()
        block[_index(left_out, block)] = -torch.inf
    own = block[_index(links, block)]
    ranks, step = torch.empty(len(links), dtype=torch.float64, device=block.device), max(1, _ELEMENTS // block.shape[1])
    for start in range(0, len(links), step):
        part = slice(start, start + step)
        rivals, score = block[torch.from_numpy(links[part, 0]).to(block.device)], own[part, None]
        ranks[part] = _count(rivals > score) + 0.5 * (_count(rivals == score) + 1)
    return ranks.cpu().numpy()


def _count(true: Tensor) -> Tensor:  # (links, columns) -> (links,)
    return true.sum(1, dtype=torch.int32)  # twice as fast as int64


def _by_node(row: NDArray[np.int64], ranks: Array, without: NDArray[np.int64], columns: int, rows: int) -> LinkQuality:
    nodes, number, true = np.unique(row, return_inverse=True, return_counts=True)
    mean = np.bincount(number, ranks) / true
    others = columns - np.bincount(without, minlength=rows)[nodes] - true
    aucs = 1 - np.divide(mean - (true + 1) / 2, others, out=np.full(len(nodes), np.nan), where=others > 0)
    return LinkQuality(nodes, mean, true, aucs)


def _index(pairs: Pairs, block: Tensor) -> tuple[Tensor, Tensor]:
    row, column = torch.from_numpy(pairs.T.copy()).to(block.device)
    return row, column


def _within(pairs: Pairs, first: int, end: int) -> Pairs:
    """The pairs in rows first to end, counted from the first."""
    part = slice(*np.searchsorted(pairs[:, 0], [first, end]))
    return pairs[part] - (first, 0)


def _sorted(pairs: ArrayLike, name: str) -> Pairs:
    """Whole numbers (pairs, 2), by row."""
    given = np.asarray(pairs)
    if given.ndim != 2 or given.shape[1] != 2 or (given.size and not _are_whole(given)):
        raise ValueError(f"{name} expects pairs of whole numbers (pairs, 2), got {given.dtype} {given.shape}.")
    whole = given.astype(np.int64)
    by_row: Pairs = whole[np.argsort(whole[:, 0], kind="stable")]
    return by_row


def _are_whole(numbers: Array) -> bool:
    return bool((np.isfinite(numbers) & (numbers == np.floor(numbers)) & (np.abs(numbers) < 2**62)).all())


def _ends(pairs: Pairs) -> str:
    return f"from {pairs.min(axis=0).tolist()} to {pairs.max(axis=0).tolist()}"
