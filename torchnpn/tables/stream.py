"""Rows of a folder that is larger than memory, dealt to processes and mixed, in batches of a pass over them.

The pieces of the files (row groups) are dealt to lanes, and lanes to processes. A batch has rows of every lane, so it
has the same rows whatever the number of processes, and only the lanes of a process are read by it. In each pass the
pieces of a lane come in another order; what is read goes through a window, in which rows are mixed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from torchnpn.moments import Moments
from torchnpn.table_files import FolderTable, Piece, TableError, read_piece
from torchnpn.training import Processes

Array = NDArray[Any]
T = TypeVar("T")
LANES = 8  # at least; as many as a multiple of the processes
_WINDOW = 16_000_000  # numbers in the windows of all lanes together
_LEAST_BATCHES = 4  # in the window of a lane
_AHEAD = 8  # batches that are read before they are asked for
_PART = 1_000_000  # rows of an epoch, of the several that a longer pass is divided into


class Rows(NamedTuple):
    """Some rows, as a network learns them."""

    mean: torch.Tensor
    variance: torch.Tensor | None
    y: torch.Tensor


class PieceRows(NamedTuple):
    """A piece, and how many of its rows are to be learnt from."""

    piece: Piece
    rows: int


@dataclass(frozen=True)
class TableStream:
    """All rows to learn from, in each pass in another order (`training.RowStream`).

    Args:
        table: The folder.
        pieces: What to read of it.
        names: Columns to read.
        encode: From rows of the files and the number of the first one to inputs and targets of those that have one.
        held_out: Share of the rows that are not to be learnt from.
        seed: Decides which.
        change: From inputs and targets to what a network learns.
    """

    table: FolderTable
    pieces: tuple[PieceRows, ...]
    names: tuple[str, ...]
    encode: Callable[[pa.RecordBatch], tuple[Array, Array]]
    held_out: float
    seed: int
    change: Callable[[Array, Array], tuple[Moments, Array]] | None = None

    @property
    def count(self) -> int:
        """Rows of a pass."""
        return sum(one.rows for one in self.pieces)

    @property
    def identity(self) -> str:
        """Names and sizes of the files, and what is read of them."""
        files = [(shard.path.name, shard.path.stat().st_size) for shard in self.table.shards]
        return hashlib.sha256(repr((files, self.pieces, self.names, self.held_out, self.seed)).encode()).hexdigest()

    def learnable(self, change: Callable[[Array, Array], tuple[Moments, Array]]) -> TableStream:
        """The same, with inputs and targets as a network learns them."""
        return dataclasses.replace(self, change=change)

    @property
    def parts(self) -> int:
        """Epochs that a pass is divided into."""
        return max(1, round(self.count / _PART))

    def sizes(self, batch_size: int, processes: int) -> list[int]:
        """Rows of each batch of a pass: lanes end together, but for the rounding of their parts of a batch."""
        lanes = self._lanes(batch_size, processes)
        sizes = np.zeros(max(-(-lane.rows // lane.part) for lane in lanes), np.int64)
        for lane in lanes:
            whole, rest = divmod(lane.rows, lane.part)
            sizes[:whole] += lane.part
            sizes[whole : whole + 1] += rest
        return sizes.tolist()

    def one_pass(self, batch_size: int, seed: int, processes: Processes) -> Iterator[tuple[Any, torch.Tensor]]:
        """Inputs and targets of this process's part of each batch."""
        lanes = self._lanes(batch_size, processes.count)[processes.rank :: processes.count]
        return prefetched(self._batches(lanes, seed), _AHEAD)

    def _lanes(self, batch_size: int, processes: int) -> list[Lane]:
        """Pieces dealt to lanes of nearly the same size, each with its part of a batch in proportion."""
        number = -(-LANES // processes) * processes  # LANES, for a number of processes that divides it
        held: list[list[PieceRows]] = [[] for _ in range(min(number, len(self.pieces)))]
        sizes = [0] * len(held)
        for one in sorted(self.pieces, key=lambda one: -one.rows):
            least = sizes.index(min(sizes))
            held[least].append(one)
            sizes[least] += one.rows
        parts = [max(1, round(batch_size * size / max(self.count, 1))) for size in sizes]
        every = zip(range(len(held)), held, sizes, parts, strict=True)
        return [Lane(number, tuple(inside), size, part) for number, inside, size, part in every if size]

    def _batches(self, lanes: Sequence[Lane], seed: int) -> Iterator[tuple[Any, torch.Tensor]]:
        readers = [self._mixed(lane, seed) for lane in lanes]
        while True:
            found = [rows for rows in (next(reader, None) for reader in readers) if rows is not None]
            if not found:
                return
            rows = _together(found)
            yield Moments(rows.mean, rows.variance), rows.y

    def _mixed(self, lane: Lane, seed: int) -> Iterator[Rows]:
        """The lane's parts of batches, one after the other."""
        generator = np.random.default_rng([abs(seed), lane.number])
        window, size, waiting = list[Rows](), 0, _WINDOW * lane.rows // max(self.count, 1)
        expected = lane.rows
        for rows in self._read(lane, generator):
            expected -= len(rows.y)
            window.append(rows)
            size += len(rows.y)
            if size * rows.mean.shape[1] >= waiting and size >= _LEAST_BATCHES * lane.part:
                *parts, last = _in_parts(window, lane.part, generator)
                yield from parts
                window, size = [last], len(last.y)
        if window:
            yield from _in_parts(window, lane.part, generator)
        if expected:
            raise TableError(f"{self.table.label} changed while it was read. Start again.")

    def _read(self, lane: Lane, generator: np.random.Generator) -> Iterator[Rows]:
        """Rows of the lane's pieces, which come in any order."""
        assert self.change is not None  # `learnable` was called
        for place in generator.permutation(len(lane.pieces)):
            piece = lane.pieces[place].piece
            lot = lots(piece, self.seed)
            for batch in read_piece(self.table, piece, self.names):
                X, y = self.encode(batch.filter(pa.array(lot.random(batch.num_rows) >= self.held_out)))
                if len(y):
                    x, t = self.change(X, y)
                    yield Rows(x.mean, x.variance, torch.from_numpy(t))


class Lane(NamedTuple):
    """Pieces that are read by one process, one after the other."""

    number: int
    pieces: tuple[PieceRows, ...]
    rows: int
    part: int  # rows in each batch


def lots(piece: Piece, seed: int) -> np.random.Generator:
    """Draws a number for each row of a piece, the same whenever it is read: whether it is held out."""
    return np.random.default_rng([seed, piece.shard, 0 if piece.group is None else piece.group])


def _in_parts(window: Sequence[Rows], part: int, generator: np.random.Generator) -> Iterator[Rows]:
    """The rows of a window, mixed, in parts of one size; the last may be smaller."""
    mixed = _together(window)
    order = torch.from_numpy(generator.permutation(len(mixed.y)))
    rows = Rows(*(None if one is None else one[order] for one in mixed))  # type: ignore[arg-type]
    for start in range(0, len(rows.y), part):
        yield Rows(*(None if one is None else one[start : start + part] for one in rows))  # type: ignore[arg-type]


def _together(parts: Sequence[Rows]) -> Rows:
    """Several rows as one; variances are there where any part has them."""
    mean, y = torch.cat([one.mean for one in parts]), torch.cat([one.y for one in parts])
    if all(one.variance is None for one in parts):
        return Rows(mean, None, y)
    filled = [torch.zeros_like(one.mean) if one.variance is None else one.variance for one in parts]
    return Rows(mean, torch.cat(filled), y)


def prefetched(items: Iterator[T], ahead: int) -> Iterator[T]:
    """The same items, made by a thread before they are asked for."""
    waiting: queue.Queue[Any] = queue.Queue(ahead)
    stopped, end = threading.Event(), object()

    def make() -> None:
        last: Any = end
        try:
            for item in items:
                if not _put(waiting, item, stopped):
                    return
        except BaseException as error:  # raised where the items are taken
            last = error
        _put(waiting, last, stopped)

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    try:
        while (item := waiting.get()) is not end:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        thread.join()


def _put(waiting: queue.Queue[Any], item: object, stopped: threading.Event) -> bool:
    """Whether there was room before the taker stopped."""
    while not stopped.is_set():
        try:
            waiting.put(item, timeout=0.1)
            return True
        except queue.Full:
            continue
    return False
