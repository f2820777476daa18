"""Sparse rows: all of a data set on a device, and batches of one shape that are gathered from them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor


class SparseBatch(NamedTuple):
    """Rows that are zero but for a few entries, each row padded to the same width by entries of value 0.

    A row names each of its columns once; a padding entry may name any.
    """

    columns: Tensor  # (*replicas, batch, width), int32
    values: Tensor  # (*replicas, batch, width)
    features: int

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the rows if they were dense: (*replicas, batch, features)."""
        return *self.columns.shape[:-1], self.features

    def part(self, start: int, stop: int) -> Tensor:  # (*replicas, batch, stop - start)
        """The features from `start` to `stop` - 1 as a dense tensor."""
        inside = (self.columns >= start) & (self.columns < stop)
        index = (self.columns - start).remainder(stop - start).long()  # entries outside add 0 somewhere
        dense = self.values.new_zeros((*self.columns.shape[:-1], stop - start))
        return dense.scatter_add_(-1, index, torch.where(inside, self.values, 0))

    def dense(self) -> Tensor:  # (*replicas, batch, features)
        """All of it."""
        return self.part(0, self.features)


class SparseRows(NamedTuple):
    """All rows of a CSR matrix on a device.

    Here the rows take 8 bytes an entry. A batch of them has the width of the longest row, whichever rows it has: its
    shape never changes, so a CUDA graph can hold the gathering. One very long row therefore makes every batch wide:
    batch × longest row × 8 bytes, at most twice the size of a dense batch, most of it padding that the products skip
    and the sort in their backward pass does not. Where that hurts, drop what makes such a row long, or split the row.
    """

    starts: Tensor  # (rows + 1,), int64: where each row's entries begin
    columns: Tensor  # (entries + 1,), int32; the last is padding
    values: Tensor  # (entries + 1,); the last is 0
    width: int  # of a batch
    features: int

    @classmethod
    def from_csr(cls, x: Any, device: torch.device | None = None, dtype: torch.dtype = torch.float32) -> SparseRows:
        """The rows of a scipy matrix; entries named twice are summed, as scipy does."""
        x = x.tocsr(copy=True)
        x.sum_duplicates()
        longest = int(np.diff(x.indptr).max(initial=1))
        return cls(
            torch.as_tensor(x.indptr, dtype=torch.int64).to(device),
            torch.as_tensor(np.append(x.indices, 0), dtype=torch.int32).to(device),
            torch.as_tensor(np.append(x.data, 0), dtype=dtype).to(device),
            -(-longest // 8) * 8,
            int(x.shape[1]),
        )

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.starts) - 1, self.features

    @property
    def device(self) -> torch.device:
        return self.values.device

    def take(self, rows: Tensor) -> SparseBatch:
        """The rows with these numbers, of shape (*replicas, batch)."""
        place = self.starts[rows].unsqueeze(-1) + torch.arange(self.width, device=self.device)
        padding = len(self.values) - 1
        place = torch.where(place < self.starts[rows + 1].unsqueeze(-1), place, padding)
        return SparseBatch(self.columns[place], self.values[place], self.features)

    def all(self) -> SparseBatch:
        """Every row, in order."""
        return self.take(torch.arange(self.shape[0], device=self.device))

    def distinct_values(self) -> Tensor:  # (numbers, 1)
        """Every entry, and a zero if there is one in the rows: all that a check of values need see."""
        rows, features = self.shape
        entries = self.values[:-1] if len(self.values) - 1 == rows * features else self.values
        return entries.unsqueeze(-1)
