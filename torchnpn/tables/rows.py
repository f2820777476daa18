"""The rows to learn from, at most so many as fit, drawn evenly from the whole file; and those to test on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from torchnpn.table_files import Progress, SurveyedColumn, Table, TableError, cells, no_progress
from torchnpn.tables.schema import Schema
from torchnpn.tables.target import CLASS, Target

Indices = NDArray[np.intp]
_MOST_CELLS = 250_000_000  # of all inputs together: 1 GB in float32


class Rows(NamedTuple):
    """Inputs and targets of the chosen rows, in the order of the file."""

    X: NDArray[np.float32]  # (rows, inputs), NaN where missing
    y: NDArray[np.float64]  # (rows,) numbers, or codes of the sorted texts


def rows_to_keep(available: int, width: int, max_rows: int) -> int:
    """How many rows to learn from: all, or what the user allows, or what fits into memory."""
    return min(available, max_rows, max(_MOST_CELLS // width, 1))


def load_rows(
    table: Table, schema: Schema, column: SurveyedColumn, keep: int, seed: int = 0, progress: Progress = no_progress
) -> Rows:
    """Read a file once more, and keep a uniform sample of the rows that have a target.

    Args:
        table: The file.
        schema: The columns to read.
        column: The target's, from `find_column`; says how many rows have one.
        keep: How many rows to keep.
        seed: Decides which.
        progress: Called with the share of the file that is read.
    """
    reader = target_reader(column)
    chosen = np.zeros(column.filled, bool)
    chosen[np.random.default_rng(seed).permutation(column.filled)[:keep]] = True
    X, y = np.empty((keep, schema.width), np.float32), np.empty(keep, np.float64)
    row, with_target, kept = 1, 0, 0
    for batch in table.batches(progress):
        values = reader.encode(cells(batch[column.name], schema.missing), row)
        there = np.flatnonzero(~np.isnan(values))
        if with_target + len(there) > column.filled:
            raise TableError(f"{table.label} grew while it was read. Start again.")
        take = there[chosen[with_target : with_target + len(there)]]
        X[kept : kept + len(take)] = schema.encode(batch, row)[take]
        y[kept : kept + len(take)] = values[take]
        row, with_target, kept = row + batch.num_rows, with_target + len(there), kept + len(take)
    if kept < keep:
        raise TableError(f"{table.label} shrank while it was read. Start again.")
    return Rows(X, y)


class EncodedRows(NamedTuple):
    """Those rows of a batch that have a target."""

    X: NDArray[np.float32]
    y: NDArray[np.float64]
    rows: Indices  # their numbers in the batch


def encoded_rows(batch: pa.RecordBatch, schema: Schema, target: Target) -> EncodedRows:
    """Inputs and targets of a batch."""
    y = target.encode(cells(batch[target.name], schema.missing), 1)
    there = np.flatnonzero(~np.isnan(y))
    return EncodedRows(schema.encode(batch)[there], y[there], there)


def split_rows(y: NDArray[np.float64], share: float, seed: int = 0, by_class: bool = False) -> tuple[Indices, Indices]:
    """Numbers of the training rows and of the validation rows.

    A share of the rows is held out, but at least 20 of them, or a fifth where there are fewer than 100.

    Args:
        y: Targets.
        share: Of the rows, to hold out.
        seed: Decides which.
        by_class: Hold out the same share of each class, and never a class's only row.
    """
    count = max(round(share * len(y)), min(20, len(y) // 5))
    order = np.random.default_rng(seed).permutation(len(y))
    if by_class:
        first = np.unique(y[order], return_index=True)[1]  # a row of each class stays to learn from
        rest = np.delete(order, first)
        by_label = rest[np.argsort(y[rest], kind="stable")]
        count = min(count, len(rest))
        held_out = by_label[np.linspace(0, len(rest), count, endpoint=False).astype(np.intp)]
    else:
        held_out = order[:count]
    training = np.ones(len(y), bool)
    training[held_out] = False
    return np.flatnonzero(training), np.sort(held_out)


def target_reader(column: SurveyedColumn) -> Target:
    """The target as it stands in the file: numbers, or codes of the sorted texts."""
    if column.notation is not None:
        return Target(column.name, "gaussian", notation=column.notation)
    return Target(column.name, CLASS, tuple(sorted(column.counts)), of_numbers=False)
