"""Minibatches from arrays, tensors, moments, CSR matrices or a DataLoader."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset

from torchnpn.moments import Moments
from torchnpn.sparse import SparseBatch, SparseRows
from torchnpn.training.distributed import ALONE, Processes

_BLOCK = 4_096, 2**18  # rows, and numbers, that are gathered at once: a call for each small batch would cost more


class Batch(NamedTuple):
    x: Any  # Tensor, Moments, SparseBatch or a scipy CSR matrix
    y: Any  # Tensor or SparseBatch
    weight: Tensor | None

    @property
    def rows(self) -> int:
        return _length(self.x)


class Rows:
    """Inputs, targets and perhaps weights that lie in memory, row by row; moved to the device once.

    Args:
        x: (rows, …) array or tensor, `Moments` of such, or a scipy CSR matrix, which stays sparse: as it is on a CPU,
            as `SparseRows` elsewhere.
        y: (rows, …) targets; a scipy CSR matrix stays sparse, as `SparseRows`.
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
        on_cpu = device is None or device.type == "cpu"
        self.x = _to(x, device, dtype) if on_cpu else _sparse_rows(x, device, dtype)
        self.y = _sparse_rows(y, device, dtype)
        self.weight = _to(weight, device, dtype)
        self.count, rows = int(self.y.shape[0]), _length(self.x)
        if rows != self.count:
            raise ValueError(f"train expects one target for each row, got {rows} rows and {self.count} targets.")
        if rows == 0:
            raise ValueError("train expects at least one row, got none.")
        _check_inputs(self.x)
        _check_weight(self.weight, rows)
        self.subsets: Tensor | None = None

    def restricted(self, subsets: Any) -> Rows:
        """The same rows, of which replica r is to see subsets[r] only.

        Args:
            subsets: (replicas, n) row numbers.
        """
        chosen = torch.as_tensor(subsets)
        if chosen.dim() != 2 or chosen.numel() == 0 or chosen.dtype not in (torch.int32, torch.int64):
            raise ValueError(
                f"subsets expects row numbers (replicas, n), got {chosen.dtype} of shape {tuple(chosen.shape)}."
            )
        least, most = int(chosen.min()), int(chosen.max())
        if not 0 <= least <= most < self.count:
            raise ValueError(f"subsets expects row numbers from 0 to {self.count - 1}, got {least} to {most}.")
        same = copy.copy(self)
        same.subsets, same.count = chosen.to(self.y.device, torch.int64), chosen.shape[1]
        return same

    @property
    def total_weight(self) -> float:
        """Of the rows that are seen: by one network, or on average by each replica."""
        if self.weight is None:
            return float(self.count)
        seen = self.weight if self.subsets is None else self.weight[self.subsets].sum(-1).mean()
        return float(seen.sum())

    def steps(self, batch_size: int) -> int:
        return -(-self.count // batch_size)

    def weight_of_all(self, processes: Processes) -> float:
        """That of all processes together, which have the same rows."""
        return self.total_weight

    def steps_of_all(self, batch_size: int, processes: Processes) -> int:
        """Steps of an epoch, the same in all processes."""
        if batch_size < processes.count:
            raise ValueError(f"batch_size expects a row for each of {processes.count} processes, got {batch_size}.")
        return self.steps(batch_size)

    def own_batches(
        self, batch_size: int, seed: int, processes: Processes, epoch: int = 0
    ) -> Iterator[tuple[Batch, float | Tensor]]:
        """This process's part of each batch of an epoch, and the weight of the whole batch."""
        order = torch.randperm(self.count, generator=torch.Generator().manual_seed(seed))
        weight, every = self.weight, order.split(batch_size)
        mine = order if processes.count == 1 else torch.cat([rows[processes.part(len(rows))] for rows in every])
        size = len(range(batch_size)[processes.part(batch_size)])  # of all but the last
        batches = self.batches(size, mine)
        for rows in every:
            total = float(len(rows)) if weight is None else weight[rows.to(weight.device)].sum()
            batch = next(batches, None)
            yield (self._uncounted_row() if batch is None else batch), total

    def _uncounted_row(self) -> Batch:
        """A row that does not count, for a process that has no part of a small batch."""
        return self.take(torch.zeros(1, dtype=torch.int64, device=self.y.device))._replace(
            weight=torch.zeros(1, device=self.y.device)
        )

    @property
    def target_values(self) -> Tensor:
        """Targets for a check of their values: all of them, or of sparse ones the entries and a zero."""
        return self.y.distinct_values() if isinstance(self.y, SparseRows) else self.y

    def with_gathering(self) -> Rows:
        """The same, with sparse inputs as `SparseRows`, so that `take` gives (replicas, batch) of them, too."""
        same = copy.copy(self)
        if scipy.sparse.issparse(self.x):
            same.x = SparseRows.from_csr(self.x, self.y.device)
        return same

    def take(self, rows: Tensor) -> Batch:
        """The batch of these rows; for data on a GPU its shapes depend on that of `rows` alone, and nothing waits."""
        return Batch(*(_rows_of(part, rows) for part in (self.x, self.y, self.weight)))

    def batches(self, batch_size: int, order: Tensor | None = None) -> Iterator[Batch]:
        """Batches in the given order of rows, or as they lie."""
        order = torch.arange(self.count) if order is None else order
        padded = any(isinstance(part, SparseRows) for part in (self.x, self.y))  # and wide, perhaps: few at a time
        (longest, numbers), x = _BLOCK, self.x.mean if isinstance(self.x, Moments) else self.x
        most = 1 if padded else min(longest, numbers // max(1, math.prod(x.shape[1:])))
        block = max(1, most // batch_size) * batch_size
        for rows in order.to(self.y.device).split(block):
            taken = self.take(rows)
            for i in range(0, len(rows), batch_size):
                part = slice(i, i + batch_size)
                yield Batch(*(_rows_of(whole, part) for whole in taken))


class Loader:
    """A DataLoader of (x, y) or (x, y, weight); it decides itself about order and size."""

    def __init__(self, loader: DataLoader[Any], device: torch.device | None, dtype: torch.dtype) -> None:
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

    def weight_of_all(self, processes: Processes) -> float:
        """That of all processes together: each has rows of its own, or a sampler deals out the rows of one data set."""
        if isinstance(self.loader.sampler, DistributedSampler):
            return self.total_weight
        return sum(processes.all_of(self.total_weight))

    def steps_of_all(self, batch_size: int, processes: Processes) -> int:
        """Steps of an epoch: as many as the process with the most batches has."""
        return max(processes.all_of(self.steps(batch_size)))

    def own_batches(
        self, batch_size: int, seed: int, processes: Processes, epoch: int = 0
    ) -> Iterator[tuple[Batch, float | Tensor]]:
        """This process's part of each batch of an epoch, and the weight of the whole batch."""
        if isinstance(self.loader.sampler, DistributedSampler):
            self.loader.sampler.set_epoch(seed)
        return _with_total_weight(self.batches(batch_size), self.device, processes)

    def batches(self, batch_size: int, order: Tensor | None = None) -> Iterator[Batch]:
        for x, y, *weight in self.loader:
            x, weight = (_to(part, self.device, self.dtype) for part in (x, weight[0] if weight else None))
            y = _sparse_rows(y, self.device, self.dtype)
            yield Batch(x, y.all() if isinstance(y, SparseRows) else y, weight)


class RowStream(Protocol):
    """Rows that do not lie in memory, and are read anew in each pass over them."""

    @property
    def count(self) -> int:
        """All of them, in all processes."""

    @property
    def identity(self) -> str:
        """A text that is another one for other rows."""

    @property
    def parts(self) -> int:
        """Epochs that a pass is divided into, so that progress and checkpoints need not wait for its end."""

    def sizes(self, batch_size: int, processes: int) -> Sequence[int]:
        """Rows of each batch of a pass, in all processes together."""

    def one_pass(self, batch_size: int, seed: int, processes: Processes) -> Iterator[tuple[Any, Any]]:
        """Inputs and targets of this process's part of each batch, in an order that follows from the seed."""


class Streamed:
    """The batches of a `RowStream`; an epoch goes on where the one before has stopped reading."""

    def __init__(self, stream: RowStream, device: torch.device | None, dtype: torch.dtype) -> None:
        self.stream, self.device, self.dtype, self.count = stream, device, dtype, stream.count
        self._following = -1  # the epoch that goes on with `_under_way`
        self._under_way: Iterator[tuple[Batch, float | Tensor]] = iter(())

    def weight_of_all(self, processes: Processes) -> float:
        """The number of rows of all processes together."""
        return float(self.count)

    def steps_of_all(self, batch_size: int, processes: Processes) -> int:
        """Steps of an epoch, the same in all processes."""
        return -(-len(self.stream.sizes(batch_size, processes.count)) // self.stream.parts)

    def own_batches(
        self, batch_size: int, seed: int, processes: Processes, epoch: int = 0
    ) -> Iterator[tuple[Batch, float | Tensor]]:
        """This process's part of each batch of an epoch, and the rows of the whole batch."""
        steps, part = self.steps_of_all(batch_size, processes), epoch % self.stream.parts
        if part == 0 or epoch != self._following:
            self._under_way = itertools.islice(self._pass(batch_size, seed - part, processes), part * steps, None)
        self._following = epoch + 1
        return itertools.islice(self._under_way, steps)

    def batches(self, batch_size: int, order: Tensor | None = None) -> Iterator[Batch]:
        """All rows."""
        return self._batches(batch_size, 0, ALONE)

    def _pass(self, batch_size: int, seed: int, processes: Processes) -> Iterator[tuple[Batch, float | Tensor]]:
        """Parts of batches, and at the end, without end, what does not count."""
        batches, nothing = self._batches(batch_size, seed, processes), None
        for rows in itertools.chain(self.stream.sizes(batch_size, processes.count), itertools.repeat(0)):
            if (batch := next(batches, nothing)) is None:  # others have more
                some = next(self._batches(batch_size, seed, ALONE))
                batch = nothing = some._replace(weight=torch.zeros(some.rows, device=self.device))
            yield batch, float(rows)

    def _batches(self, batch_size: int, seed: int, processes: Processes) -> Iterator[Batch]:
        for x, y in self.stream.one_pass(batch_size, seed, processes):
            yield Batch(_to(x, self.device, self.dtype), _to(y, self.device, self.dtype), None)


def _with_total_weight(
    batches: Iterator[Batch], device: torch.device | None, processes: Processes
) -> Iterator[tuple[Batch, float | Tensor]]:
    """Batches of this process and, without end, ones that do not count; each with its weight in all processes."""
    place = torch.device("cpu") if device is None else device
    for batch in batches:
        total = float(batch.rows) if batch.weight is None else batch.weight.sum()
        yield batch, processes.total(float(total), place) if processes.connected else total
    nothing = batch._replace(weight=torch.zeros(batch.rows, device=place))
    while True:  # others have more
        yield nothing, processes.total(0.0, place)


def as_batches(data: Any, device: torch.device | None, dtype: torch.dtype = torch.float32) -> Source:
    """(x, y), (x, y, weight), a DataLoader or a stream as a source of batches."""
    if isinstance(data, DataLoader):
        return Loader(data, device, dtype)
    if hasattr(data, "one_pass"):
        return Streamed(data, device, dtype)
    if isinstance(data, (tuple, list)) and len(data) in (2, 3) and not isinstance(data, Moments):
        x, y, *weight = data
        return Rows(x, y, weight[0] if weight else None, device, dtype)
    raise TypeError(f"train expects data as (x, y), (x, y, weight) or a DataLoader, got {type(data).__name__}.")


Source = Rows | Loader | Streamed


def _to(x: Any, device: torch.device | None, dtype: torch.dtype) -> Any:
    """`x` as tensors on the device; numbers take the network's type, labels keep theirs."""
    if x is None:
        return None
    if scipy.sparse.issparse(x):
        return x.tocsr()
    if isinstance(x, Moments):
        return Moments(_to(x.mean, device, dtype), _to(x.variance, device, dtype))
    tensor = as_tensor(x)
    return tensor.to(device, dtype if tensor.is_floating_point() else None)


def as_tensor(x: Any) -> Tensor:
    """A tensor as it is, and an array as one, copied where torch would warn (read-only) or refuse (reversed)."""
    if isinstance(x, Tensor):
        return x
    array = np.asarray(x)
    plain = array.flags.writeable and min(array.strides, default=0) >= 0
    return torch.as_tensor(array if plain else array.copy(order="C"))


def _sparse_rows(x: Any, device: torch.device | None, dtype: torch.dtype) -> Any:
    """The same, with a scipy matrix on the device, too."""
    return SparseRows.from_csr(x, device, dtype) if scipy.sparse.issparse(x) else _to(x, device, dtype)


def _check_inputs(x: Any) -> None:
    numbers = x.values if isinstance(x, SparseRows) else x.data if scipy.sparse.issparse(x) else x
    for part in x if isinstance(x, Moments) else [numbers]:
        bad = 0 if part is None else int((~torch.as_tensor(part).isfinite()).sum())
        if bad:
            raise ValueError(
                f"train expects finite inputs, got {bad} that are NaN or infinite. A missing value can be told as a "
                "distribution: npn.Moments(x, variance) with the mean and the variance of its feature."
            )
    if isinstance(x, Moments) and x.variance is not None and bool((x.variance < 0).any()):
        raise ValueError("train expects input variances ≥ 0, got negative ones.")


def _check_weight(weight: Tensor | None, rows: int) -> None:
    if weight is None:
        return
    if weight.shape != (rows,):
        raise ValueError(f"train expects weights of shape ({rows},), one for each row, got {tuple(weight.shape)}.")
    if not ((weight >= 0) & weight.isfinite()).all() or not weight.any():
        raise ValueError("train expects weights that are finite, ≥ 0 and not all zero.")


def _length(x: Any) -> int:
    return int((x.mean if isinstance(x, Moments) else x).shape[0])


def _rows_of(x: Any, rows: Tensor | slice) -> Any:
    """Those of whatever data there are; a run of rows lies in the same memory where x is dense."""
    if isinstance(x, Moments):
        return Moments(x.mean[rows], None if x.variance is None else x.variance[rows])
    if isinstance(x, SparseBatch):
        return SparseBatch(x.columns[rows], x.values[rows], x.features)
    if isinstance(x, SparseRows):
        return x.take(rows)  # type: ignore[arg-type]  # only batches are cut in runs
    if scipy.sparse.issparse(x) and isinstance(rows, Tensor):
        return x[rows.cpu().numpy()]
    return None if x is None else x[rows]
