"""Text files of word counts, as topic models have them: a line for each document, `number:count` for each term."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import DTypeLike, NDArray

from npn_studies.datasets.documents import read_counts


def parse_counts(text: bytes, name: str, terms: int, first: int = 0, sized: bool = True) -> scipy.sparse.csr_matrix:
    """The matrix (documents, terms) of lines `n id:count id:count …`.

    Args:
        text: The file.
        name: Its name, for errors.
        terms: Size of the vocabulary, which may be larger than 2¹⁶.
        first: The number of the first term, 0 or 1.
        sized: Whether n is the number of pairs; else it is some label, and is left out.

    Raises:
        ValueError: If a line is cut short, or holds something else; with the number of the line.
    """
    ids: list[int] = []
    counts: list[int] = []
    starts = [0]
    for number, line in enumerate(text.splitlines(), start=1):
        head, *pairs = line.split() or [b"0"]
        try:
            size = int(head)
            for pair in pairs:
                term, _, count = pair.partition(b":")
                ids.append(int(term) - first)
                counts.append(int(count))
        except ValueError as error:
            raise ValueError(f"line {number} of {name} should be `n id:count id:count …`: {error}") from None
        if sized and size != len(pairs):
            raise ValueError(f"line {number} of {name} should have {size} terms, got {len(pairs)}: cut short?")
        starts.append(len(ids))
    parts = {"data": counts, "indices": ids, "indptr": starts, "shape": [len(starts) - 1, terms]}
    try:
        return read_counts({part: np.array(numbers, dtype=np.int64) for part, numbers in parts.items()})
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{name}: {error}") from None


def parse_neighbours(text: bytes, name: str, documents: int) -> NDArray[np.int64]:
    """Pairs (document, neighbour), in the order of lines `n id id …`, one line for each document.

    Raises:
        ValueError: If a line is cut short, names a document that is not there, or there is not one for each document.
    """
    lines = text.splitlines()
    if len(lines) != documents:
        raise ValueError(f"{name} should have a line for each of {documents} documents, got {len(lines)}: cut short?")
    pairs: list[tuple[int, int]] = []
    for document, line in enumerate(lines):
        try:
            size, *neighbours = map(int, line.split())
        except ValueError as error:
            raise ValueError(f"line {document + 1} of {name} should be `n id id …`: {error}") from None
        if size != len(neighbours):
            raise ValueError(
                f"line {document + 1} of {name} should have {size} links, got {len(neighbours)}: cut short?"
            )
        if not all(0 <= neighbour < documents for neighbour in neighbours):
            raise ValueError(
                f"line {document + 1} of {name} should name documents from 0 to {documents - 1}, got others"
            )
        pairs.extend((document, neighbour) for neighbour in neighbours)
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def stored_counts(counts: scipy.sparse.csr_matrix, least: DTypeLike, prefix: str = "") -> dict[str, NDArray[Any]]:
    """The CSR parts of a matrix, in small integers: counts at least of type `least`, terms of 16 bits or more."""
    return {
        f"{prefix}data": smallest(counts.data.astype(np.int64), least),
        f"{prefix}indices": smallest(counts.indices),
        f"{prefix}indptr": counts.indptr.astype(np.int32),
        f"{prefix}shape": np.array(counts.shape),
    }


def smallest(numbers: NDArray[Any], least: DTypeLike = np.uint16) -> NDArray[Any]:
    """Numbers ≥ 0 in the smallest unsigned type that holds them, but no smaller than `least`."""
    largest = np.min_scalar_type(int(numbers.max())) if numbers.size else np.dtype(least)
    return numbers.astype(np.promote_types(largest, least))
