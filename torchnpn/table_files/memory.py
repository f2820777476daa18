"""Tables in memory, read in the way of files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from torchnpn._text import did_you_mean
from torchnpn.table_files.formats import TableError
from torchnpn.table_files.layout import check_names
from torchnpn.table_files.read import BATCH_ROWS, Progress, Table, no_progress


@dataclass(frozen=True)
class MemoryTable(Table):
    """An Arrow table as a table with named columns."""

    content: pa.Table | None = None

    def batches(self, progress: Progress = no_progress) -> Iterator[pa.RecordBatch]:
        """All rows, in order."""
        assert self.content is not None
        whole = self.content if self.rows is None else self.content.slice(0, self.rows)
        if not whole.num_rows:
            raise TableError(f"{self.label} has no rows.")
        yield from whole.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
        progress(1.0)


def arrow_table(frame: object) -> pa.Table:
    """A frame of any library as an Arrow table.

    Raises:
        TableError: It is no frame, or has a column that Arrow cannot hold.
    """
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if not hasattr(frame, "__arrow_c_stream__"):
        raise TableError(
            f"A table should be a frame (pandas, polars, Arrow) or the path of a file, got {type(frame).__name__}."
        )
    try:
        table = pa.table(frame)
    except (ValueError, TypeError, OverflowError, NotImplementedError, pa.ArrowException) as error:
        raise TableError(_not_arrow(frame, error)) from None
    return table.drop_columns([name for name in table.column_names if name.startswith("__index_level_")])


def _not_arrow(frame: Any, error: Exception) -> str:
    """Which column of a frame Arrow cannot hold, and what to do."""
    for name in list(getattr(frame, "columns", ())):
        try:
            pa.table(frame[[name]])
        except (ValueError, TypeError, OverflowError, NotImplementedError, pa.ArrowException) as error_of_one:
            why = str(error_of_one.args[0]).splitlines()[0].rstrip(".")
            return (
                f"Column {name!r} of the frame holds values of several types, or of one that Arrow has not: {why}. "
                "Make them numbers, dates or text, with .astype(float) or .astype(str), or leave the column out."
            )
    return (
        f"The frame cannot be read as a table: {str(error).splitlines()[0].rstrip('.')}. Rename or change its columns."
    )


def memory_table(frame: object) -> MemoryTable:
    """A frame, to be read like a file."""
    table = arrow_table(frame)
    check_names(tuple(table.column_names), "the frame")
    return MemoryTable(Path("frame"), tuple(table.column_names), tuple(table.schema.types), "the frame", content=table)


def frame_beside(frame: Any, keep: Sequence[str], columns: Mapping[str, NDArray[Any]]) -> Any:
    """A frame of the same library with some of its columns, and new ones beside them.

    Args:
        frame: Of pandas, with its index, polars or Arrow; any other comes back as an Arrow table.
        keep: Names of its columns.
        columns: The new ones, each (rows,).

    Raises:
        TableError: A column is not there, or would be there twice.
    """
    table = arrow_table(frame)
    for name in keep:
        if name not in table.column_names:
            raise TableError(f"The frame has no column {name!r} to keep.{did_you_mean(name, table.column_names)}")
    if taken := columns.keys() & set(keep):
        raise TableError(f"The frame already has a column {min(taken)!r}. Leave it out: keep=[...].")
    if hasattr(frame, "iloc"):
        return frame[list(keep)].assign(**columns)
    table = table.select(list(keep))
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values, pa.string() if values.dtype == object else None))
    if isinstance(frame, pa.RecordBatch):
        return pa.RecordBatch.from_arrays([one.combine_chunks() for one in table.columns], schema=table.schema)
    return type(frame)(table) if type(frame).__module__.startswith("polars.") else table
