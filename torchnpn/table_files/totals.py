"""A last row that sums up the others, as spreadsheets have it: nothing to learn from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from torchnpn.table_files.numerals import TOTALS
from torchnpn.table_files.read import Table, cells


def with_last(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """Batches, each with whether it is the last one."""
    before = None
    for batch in batches:
        if before is not None:
            yield before, False
        before = batch
    if before is not None:
        yield before, True


def total_in_last_row(table: Table, batch: pa.RecordBatch) -> str | None:
    """The word for a total in the last row, such as Summe, where no other row has it; None where there is none.

    Args:
        table: The file.
        batch: Its last rows.
    """
    for name in batch.schema.names:
        found = cells(batch[name].slice(batch.num_rows - 1))
        text = found[0].as_py() if found is not None and pa.types.is_string(found.type) else None
        if text and text.lower() in TOTALS and _count(table, name, text) == 1:
            return str(text)
    return None


def _count(table: Table, name: str, text: str) -> int:
    """How many cells of a column hold a text; one more reading of the file, which few files need."""
    found = (cells(batch[name]) for batch in table.batches())
    return sum(int(pc.sum(pc.equal(part, text)).as_py() or 0) for part in found if part is not None)
