"""A model of a folder that is larger than memory: one reading says what it holds, the others are epochs of training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from torchnpn.columns import Encoded
from torchnpn.estimators import NPNClassifier, NPNRegressor
from torchnpn.progress import Callback
from torchnpn.table_files import FolderTable, Progress, cells, no_progress, pieces, read_piece
from torchnpn.tables.learning import Data, Question, new_estimator
from torchnpn.tables.rows import Rows, encoded_rows, target_reader
from torchnpn.tables.schema import find_schema
from torchnpn.tables.stream import PieceRows, TableStream, lots
from torchnpn.tables.target import Target, find_column, make_target
from torchnpn.training import join

_ROWS = 100_000  # that scales are learnt from, and as many that are held out, at most


class Large(NamedTuple):
    """A folder, understood, and its rows."""

    data: Data
    some: Rows  # of those to learn from, for scales
    held_out: Rows
    stream: TableStream  # all rows to learn from


def read_large(
    table: FolderTable, question: Question, validation: float = 0.1, progress: Progress = no_progress
) -> Large:
    """Read all of it once; by the first of several processes, which tells the others.

    Args:
        table: The folder.
        question: What is to be learnt from it.
        validation: Share of the rows to hold out; of many rows it is less.
        progress: Called with the share of the reading that is done.
    """
    name, family, exposure, seed = question.target, question.family, question.exposure, question.seed
    rows = table.about_rows
    held_out, some = min(validation, _ROWS / rows), min(0.5, _ROWS / rows)

    def read() -> tuple[Any, _Sample]:
        sample = _Sample(name, held_out, held_out + some, seed)
        return question.survey(_Watched(**vars(table), sample=sample), progress), sample

    found, sample = join().from_first(read)
    column = find_column(found, name, family)
    schema, left_out = find_schema(found, name, question.use, exposure)
    reader = target_reader(column)
    parts = [encoded_rows(batch, schema, reader) for batch in sample.batches]
    lot = np.concatenate([one[part.rows] for one, part in zip(sample.lots, parts, strict=True)])
    X, y = (np.concatenate([getattr(part, which) for part in parts]) for which in ("X", "y"))
    every = y if column.is_number else np.append(y, np.arange(len(column.counts)))  # a sample may lack a rare class
    target, codes, kind = make_target(column, every, family, exposure)
    codes = codes[: len(y)]
    names = tuple(dict.fromkeys([*schema.names, name]))

    def encode(batch: pa.RecordBatch) -> tuple[NDArray[Any], NDArray[Any]]:
        part = encoded_rows(batch, schema, target)
        return part.X, part.y

    stream = TableStream(table, tuple(sample.pieces), names, encode, held_out, seed)
    apart = lot < held_out
    data = Data(table, found, schema, left_out, target, kind)
    return Large(data, Rows(X[~apart], codes[~apart]), Rows(X[apart], codes[apart]), stream)


def fit_large(
    large: Large,
    settings: dict[str, Any],
    callbacks: Sequence[Callback] = (),
    checkpoint: Path | None = None,
) -> tuple[NPNRegressor | NPNClassifier, Target]:
    """An estimator, fitted by one network on all rows, and the target with its own distribution."""
    schema, some = large.data.schema, large.some
    estimator, about = new_estimator(large.data.target, some, settings)
    exposure = schema.width - 1 if about.exposure else None
    scales = Encoded(some.X, schema.least_scale)
    return estimator.fit_stream(scales, some.y, large.stream, exposure, callbacks, checkpoint), about


@dataclass
class _Sample:
    """Rows that are kept of those that pass by, because their lot is low; those with the lowest are held out."""

    target: str
    held_out: float
    kept: float
    seed: int
    batches: list[pa.RecordBatch] = field(default_factory=list)
    lots: list[NDArray[np.float64]] = field(default_factory=list)
    pieces: list[PieceRows] = field(default_factory=list)


@dataclass(frozen=True)
class _Watched(FolderTable):
    """A folder of which a sample is kept as it is read."""

    sample: _Sample = field(default_factory=lambda: _Sample("", 0.0, 0.0, 0))

    def batches(self, progress: Progress = no_progress) -> Iterator[pa.RecordBatch]:
        """All rows, piece after piece."""
        sample, every = self.sample, pieces(self)
        for done, piece in enumerate(every):
            drawn, learnt = lots(piece, sample.seed), 0
            for batch in read_piece(self, piece, self.names):
                lot = drawn.random(batch.num_rows)
                keep = lot < sample.kept
                sample.batches.append(batch.filter(pa.array(keep)))
                sample.lots.append(lot[keep])
                there = cells(batch[sample.target])
                known = np.ones(len(lot), bool) if there is None else there.is_valid().to_numpy(zero_copy_only=False)
                learnt += int((known & (lot >= sample.held_out)).sum())
                yield batch
            sample.pieces.append(PieceRows(piece, learnt))
            progress((done + 1) / len(every))
