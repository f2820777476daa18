"""Documents as counts of their terms, perhaps linked by citations: the record, and the checks that it must pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from torchnpn.datasets import Arrays, Source, Split

Vector = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Documents:
    """A bag of words for each document, and the links between documents.

    Attributes:
        name: The name it was loaded by.
        counts: How often each term occurs in each document, a CSR matrix (documents, terms) of float32. A document
            may be empty.
        vocabulary: The terms in the order of the columns; None where they are not published.
        links: Pairs of row numbers (links, 2), int64: undirected, i < j, each once, sorted. Not every document has one.
        labels: The class of each document, int64, -1 where it has none; None where there are no classes.
        identifiers: What each document is called at its source; None where that is not known.
        splits: Published splits into documents to train on and to test on; empty where there are none.
        description: What the documents are, where they come from, and what to know before using them.
    """

    name: str
    counts: scipy.sparse.csr_matrix
    vocabulary: tuple[str, ...] | None
    links: NDArray[np.int64]
    labels: NDArray[np.int64] | None = None
    identifiers: tuple[str, ...] | None = None
    splits: tuple[Split, ...] = ()
    description: str = ""

    def check_size(self, documents: int, terms: int) -> None:
        """Refuse counts that are not as large as their source says."""
        if self.counts.shape != (documents, terms):
            raise ValueError(
                f"should hold {documents} documents and {terms} terms, got counts of shape {self.counts.shape}"
            )


@dataclass(frozen=True)
class DocumentSource(Source):
    """A `Source` of documents: rows are documents, columns are terms.

    An empty `digest` says that none was recorded, because the values were never seen; `convert` then checks the
    originals itself.
    """

    read: Callable[[Arrays], Documents]  # type: ignore[assignment]  # documents where others have a table


def read_counts(arrays: Arrays, prefix: str = "") -> scipy.sparse.csr_matrix:
    """The matrix of the CSR parts `data`, `indices`, `indptr` and `shape`, whatever integers they are stored as.

    Raises:
        ValueError: If the parts do not fit each other, or a count is negative or not whole.
    """
    data, indices, starts = (arrays[prefix + part] for part in ("data", "indices", "indptr"))
    documents, terms = (int(size) for size in arrays[prefix + "shape"])
    starts = starts.astype(np.int64)
    if starts.shape != (documents + 1,) or starts[0] != 0 or (np.diff(starts) < 0).any():
        raise ValueError(f"indptr should have {documents + 1} numbers that rise from 0, got shape {starts.shape}")
    if not data.shape == indices.shape == (int(starts[-1]),):
        raise ValueError(f"{starts[-1]} counts should be there, got data {data.shape} and indices {indices.shape}")
    if (wrong := _outside(indices, terms)) is not None:
        raise ValueError(f"terms should have numbers from 0 to {terms - 1}, got {wrong}")
    if (bad := data[~((data >= 0) & (data == np.floor(data)))]).size:
        raise ValueError(f"counts should be whole numbers ≥ 0, got {bad[0]}")
    counts = scipy.sparse.csr_matrix(
        (data.astype(np.float32), indices.astype(np.int32), starts.astype(np.int32)), shape=(documents, terms)
    )
    counts.sum_duplicates()
    return counts


def read_vocabulary(arrays: Arrays, terms: int) -> tuple[str, ...]:
    """The terms of the array `vocab`, bytes of UTF-8."""
    words = tuple(word.decode() for word in arrays["vocab"].tolist())
    if len(words) != terms:
        raise ValueError(f"the vocabulary should have {terms} terms, got {len(words)}")
    return words


def undirected(pairs: Vector, documents: int) -> NDArray[np.int64]:
    """Links (i, j) with i < j, each once and sorted, of pairs in any direction; self-links are left out.

    Raises:
        ValueError: If a pair names a document that is not there.
    """
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"links should be pairs, got shape {pairs.shape}")
    if (wrong := _outside(pairs, documents)) is not None:
        raise ValueError(f"links should join documents from 0 to {documents - 1}, got {wrong}")
    ends = np.sort(pairs.astype(np.int64), axis=1)
    links: NDArray[np.int64] = np.unique(ends[ends[:, 0] < ends[:, 1]], axis=0)
    return links


def _outside(numbers: Vector, count: int) -> Any:
    """The first of `numbers` that is not among 0, …, count - 1, or None."""
    wrong = numbers[(numbers < 0) | (numbers >= count)]
    return wrong.flat[0] if wrong.size else None
