"""`npn predict`: a table in, the same table with predictions out, batch after batch."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from torchnpn import tables
from torchnpn.cli.console import bars, say
from torchnpn.cli.errors import fail, in_one_line, writing
from torchnpn.cli.models import Level, ModelPath, load_model

_STDOUT = Path("-")


@in_one_line
def predict(
    model: ModelPath,
    data: Annotated[Path, typer.Argument(help="Table with the columns that the model learnt from.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Table to write, .csv or .parquet; - prints it.")] = _STDOUT,
    level: Level = 0.9,
    keep: Annotated[
        list[str] | None, typer.Option(help="Input column to keep; may be given again. By default all are kept.")
    ] = None,
    bare: Annotated[bool, typer.Option("--bare", help="Write the predictions alone.")] = False,
) -> None:
    """Predict each row of a table, with its uncertainty.

    Numbers get a mean, a standard deviation and the ends of an interval; classes get the most likely class, the
    probability of each, and an uncertainty from 0 to 1. Missing cells are allowed. Any number of rows is read and
    written in little memory.

    \b
    Examples:
      npn predict model.npn new.csv -o predicted.csv
      npn predict model.npn new.parquet -o predicted.parquet --level 0.5 --keep id
      npn predict model.npn new.csv --bare | head
    """
    fitted, table = load_model(model), tables.open_table(data)
    kept = _kept_columns(table, keep, bare)
    fitted.schema.check(table.names)
    to_csv = out == _STDOUT or tables.table_format(out) == "csv"
    if to_csv and (nested := [n for n, t in zip(table.names, table.types, strict=True) if n in kept and _nested(t)]):
        fail(f"column {nested[0]!r} cannot be written as CSV. Choose columns with --keep, or write Parquet.")
    numbers = set() if to_csv else {one.name for one in fitted.schema.columns if isinstance(one, tables.Number)}
    with ExitStack() as stack:
        progress = stack.enter_context(bars())("Predicting")
        writer, row = None, 1
        for batch in table.batches(progress):
            predicted = fitted.predict(batch, level, row)
            if taken := predicted.keys() & kept:
                fail(f"the input already has a column {min(taken)!r}. Leave it out with --keep or --bare.")
            columns = {name: _as_number(batch[name]) if name in numbers else batch[name] for name in kept}
            rows = pa.RecordBatch.from_pydict({**columns, **{name: pa.array(x) for name, x in predicted.items()}})
            if writer is None:  # an error in the first rows leaves an earlier file alone
                writer = stack.enter_context(_writer(out, rows.schema))
            with writing(out):
                writer.write(rows)
            row += batch.num_rows
    if out != _STDOUT:
        say(f"{row - 1:,} rows: {out}")


@contextmanager
def _writer(out: Path, schema: pa.Schema) -> Iterator[tables.Writer]:
    if out == _STDOUT:
        yield tables.CsvWriter(sys.stdout.buffer, schema)
        sys.stdout.buffer.flush()
        return
    with writing(out), tables.table_writer(out, schema) as writer:
        yield writer


def _kept_columns(table: tables.Table, keep: Sequence[str] | None, bare: bool) -> list[str]:
    if bare and keep:
        fail("--bare keeps no column, and --keep names one. Choose one of the two.")
    for name in keep or []:
        if name not in table.names:
            fail(f"{table.path} has no column {name!r} to keep.{tables.did_you_mean(name, table.names)}")
    return [] if bare else list(dict.fromkeys(keep)) if keep else list(table.names)


def _as_number(column: pa.Array) -> pa.Array:
    """Parquet has types: what a CSV file wrote as text, and the model read as a number, becomes one."""
    if not pa.types.is_string(column.type):
        return column
    found = tables.cells(column)
    assert found is not None  # text has cells
    return found.cast(pa.float64())


def _nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind))
