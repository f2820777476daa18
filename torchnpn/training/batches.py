"""Minibatches from arrays, tensors, moments, CSR matrices or a DataLoader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from torchnpn.moments import Moments

_BLOCK = 4_096  # rows that are gathered at once: a call for each small batch would cost more than its work


class Batch(NamedTuple):
    x: Any  # Tensor, Moments or a scipy CSR matrix
    y: Tensor
    weight: Tensor | None


class Rows:
    """Inputs, targets and perhaps weights that lie in memory, row by row; moved to the device once.

    Args:
        x: (rows, …) array or tensor, `Moments` of such, or a scipy CSR matrix, which stays sparse.
        y: (rows, …) targets.
        weight: (rows,) weights ≥ 0, or None.
        device: Where batches are to be.
        dtype: Of the floating-point numbers in batches.
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        weight: Any = None,
        device: torch.device | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.x = _to(x, device, dtype)
        self.y = _to(y, device, dtype)
        self.weight = _to(weight, device, dtype)
        self.count = int(self.y.shape[0])
        rows = _length(self.x)
        if rows != self.count:
            raise ValueError(f"train expects one target for each row, got {rows} rows and {self.count} targets.")
        if self.count == 0:
            raise ValueError("train expects at least one row, got none.")
        _check_inputs(self.x)
        if self.weight is not None:
            _check_weight(self.weight, self.count)

    @property
    def total_weight(self) -> float:
        return float(self.count if self.weight is None else self.weight.sum())

    def steps(self, batch_size: int) -> int:
        return -(-self.count // batch_size)

    def batches(self, batch_size: int, order: Tensor | None = None) -> Iterator[Batch]:
        """Batches in the given order of rows, or as they lie."""
        order = torch.arange(self.count) if order is None else order
        block = max(1, _BLOCK // batch_size) * batch_size
        for rows in order.to(self.y.device).split(block):
            x, y = _take(self.x, rows), self.y[rows]
            weight = None if self.weight is None else self.weight[rows]
            for i in range(0, len(rows), batch_size):
                part = slice(i, i + batch_size)
                yield Batch(_part(x, part), y[part], None if weight is None else weight[part])


class Loader:
    """A DataLoader of (x, y) or (x, y, weight); it decides itself about order and size."""

    def __init__(
        self, loader: DataLoader[Any], device: torch.device | None = None, dtype: torch.dtype = torch.float32
    ) -> None:
        if isinstance(loader.dataset, IterableDataset) or len(loader) == 0:
            raise ValueError(
                "train expects a DataLoader that knows its rows and gives at least one batch; an IterableDataset, or "
                "drop_last with fewer rows than a batch, does not."
            )
        self.loader, self.device, self.dtype = loader, device, dtype
        self.count = len(loader.dataset)  # type: ignore[arg-type]

    @property
    def total_weight(self) -> float:
        return float(self.count)

    def steps(self, batch_size: int) -> int:
        return len(self.loader)

    def batches(self, batch_size: int, order: Tensor | None = None) -> Iterator[Batch]:
        for x, y, *weight in self.loader:
            yield Batch(*(_to(part, self.device, self.dtype) for part in (x, y, weight[0] if weight else None)))


def as_batches(data: Any, device: torch.device | None, dtype: torch.dtype = torch.float32) -> Rows | Loader:
    """(x, y), (x, y, weight) or a DataLoader as a source of batches."""
    if isinstance(data, DataLoader):
        return Loader(data, device, dtype)
    if isinstance(data, (tuple, list)) and len(data) in (2, 3) and not isinstance(data, Moments):
        x, y, *weight = data
        return Rows(x, y, weight[0] if weight else None, device, dtype)
    raise TypeError(f"train expects data as (x, y), (x, y, weight) or a DataLoader, got {type(data).__name__}.")


def _to(x: Any, device: torch.device | None, dtype: torch.dtype) -> Any:
    """`x` as tensors on the device; numbers take the network's type, labels keep theirs."""
    if x is None:
        return None
    if scipy.sparse.issparse(x):
        return x.tocsr()
    if isinstance(x, Moments):
        return Moments(_to(x.mean, device, dtype), _to(x.variance, device, dtype))
    tensor = x if isinstance(x, Tensor) else torch.as_tensor(np.asarray(x))
    return tensor.to(device, dtype if tensor.is_floating_point() else None)


def _check_inputs(x: Any) -> None:
    parts = [x.data] if scipy.sparse.issparse(x) else x if isinstance(x, Moments) else [x]
    for part in parts:
        bad = 0 if part is None else int((~torch.as_tensor(part).isfinite()).sum())
        if bad:
            raise ValueError(
                f"train expects finite inputs, got {bad} that are NaN or infinite. A missing value can be told as a "
                "distribution: npn.Moments(x, variance) with the mean and the variance of its feature."
            )
    if isinstance(x, Moments) and x.variance is not None and bool((x.variance < 0).any()):
        raise ValueError("train expects input variances ≥ 0, got negative ones.")


def _check_weight(weight: Tensor, rows: int) -> None:
    if weight.shape != (rows,):
        raise ValueError(f"train expects weights of shape ({rows},), one for each row, got {tuple(weight.shape)}.")
    if not ((weight >= 0) & weight.isfinite()).all() or not weight.any():
        raise ValueError("train expects weights that are finite, ≥ 0 and not all zero.")


def _length(x: Any) -> int:
    return int((x.mean if isinstance(x, Moments) else x).shape[0])


def _part(x: Any, rows: slice) -> Any:
    """A run of rows, in the same memory where x is dense."""
    if isinstance(x, Moments):
        return Moments(x.mean[rows], None if x.variance is None else x.variance[rows])
    return x[rows]


def _take(x: Any, rows: Tensor) -> Any:
    if isinstance(x, Moments):
        return Moments(x.mean[rows], None if x.variance is None else x.variance[rows])
    return x[rows.cpu().numpy()] if scipy.sparse.issparse(x) else x[rows]
