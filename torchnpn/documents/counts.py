"""Counts of words as they enter a network: checked, and scaled document by document, so that length says nothing."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse

Counts: TypeAlias = scipy.sparse.csr_matrix
LARGEST = 1e30  # of a count: sums over a document are float32 numbers yet


def checked_counts(counts: Any, features: int | None = None, *, whole: bool = False) -> Counts:
    """Counts as a CSR matrix of float32, entries named twice summed and stored zeros dropped.

    Args:
        counts: (documents, terms), a scipy matrix or an array.
        features: How many terms there must be; None for any number.
        whole: Whether every count must be a whole number, as for a Poisson likelihood.

    Raises:
        ValueError: If the shape is wrong, or a count is not finite, negative, or not whole where that is asked for.
    """
    if not scipy.sparse.issparse(counts) and np.ndim(counts) != 2:
        raise ValueError(f"counts expects a matrix (documents, terms), got {np.ndim(counts)} dimensions.")
    matrix = scipy.sparse.csr_matrix(counts, dtype=np.float64, copy=True)
    if 0 in matrix.shape:
        raise ValueError(f"counts expects at least one document and one term, got shape {matrix.shape}.")
    if features is not None and matrix.shape[1] != features:
        raise ValueError(
            f"counts expects {features} terms, those it was fitted on, got {matrix.shape[1]}. Count the same words."
        )
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    for valid, words in (
        (np.isfinite(matrix.data), "that are finite"),
        (matrix.data <= LARGEST, f"up to {LARGEST:g}"),
        (matrix.data > 0, "≥ 0"),
        (not whole or matrix.data == np.floor(matrix.data), "that are whole numbers, for this loss"),
    ):
        wrong = matrix.data[~np.broadcast_to(valid, matrix.data.shape)]
        if wrong.size:
            raise ValueError(f"counts expects numbers {words}, got {wrong[0]}. {_HINTS[words]}")
    return matrix.astype(np.float32)


_HINTS = {
    f"up to {LARGEST:g}": "Divide each document by its largest count.",
    "that are finite": "A word that was not counted is 0.",
    "≥ 0": "Pass the counts themselves, not centred ones.",
    "that are whole numbers, for this loss": 'Pass counts before tf-idf or scaling, or take loss="bce" or "l2".',
}


def present(counts: Counts) -> Counts:
    """1 for each word that is there."""
    return counts.sign()


def row_max(counts: Counts) -> Counts:
    """Each document divided by its largest count: numbers from 0 to 1. An empty one stays empty."""
    return _divided(counts, counts.max(axis=1).toarray().ravel())


def row_sum(counts: Counts, total: float = 10.0) -> Counts:
    """Each document scaled so that its counts sum to `total`. An empty one stays empty."""
    return _divided(counts, np.asarray(counts.sum(axis=1, dtype=np.float64)).ravel() / total)


def word_means(targets: Counts) -> np.ndarray[Any, np.dtype[np.float64]]:  # (terms,)
    """The mean of every word over documents, as if half a document more had it: above 0 and below the largest."""
    total = np.asarray(targets.sum(axis=0, dtype=np.float64)).ravel()
    highest = (float(targets.max()) if targets.nnz else 0.0) or 1.0  # entries may be zero, too
    means: np.ndarray[Any, np.dtype[np.float64]] = (total + 0.5 * highest) / (targets.shape[0] + 1)
    return means


def _divided(counts: Counts, by: Any) -> Counts:
    scale = 1 / np.where(by > 0, by, 1.0)
    scaled = counts.astype(np.float64)
    scaled.data *= np.repeat(scale, np.diff(counts.indptr))
    return scaled.astype(np.float32)
