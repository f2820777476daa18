"""A last row that sums up the others, as spreadsheets have it: nothing to learn from."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from torchnpn.table_files.numerals import TOTALS
from torchnpn.table_files.read import Progress, Table, cells


def batches_without_total(
    table: Table, progress: Progress, on_total: Callable[[str], object]
) -> Iterator[pa.RecordBatch]:
    """The batches of a table without a last row that is a total; `on_total` takes the word that shows it to be one."""
    before = None
    for batch in table.batches(progress):
        if before is not None:
            yield before
        before = batch
    if before is not None:
        if word := _total_in_last_row(table, before):
            on_total(word)
            before = before.slice(0, before.num_rows - 1)
        yield before


def _total_in_last_row(table: Table, batch: pa.RecordBatch) -> str | None:
    """The word for a total in the last row of these, such as Summe, where no other row of the table has it."""
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
