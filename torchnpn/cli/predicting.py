"""The work of `npn predict` and `npn evaluate`, batch after batch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from torchnpn import table_files, tables
from torchnpn._text import did_you_mean, shown
from torchnpn.cli.console import bars, say, show_figures
from torchnpn.cli.errors import fail, line, writing
from torchnpn.cli.models import load_model
from torchnpn.cli.options import STDOUT, PredictOptions

_MANY_CLASSES, _TOP = 20, 5
_MARKS = {".": "point", ",": "comma"}


def predict(model: Path, data: Path, wanted: PredictOptions) -> None:
    """Write the table with predictions."""
    to_csv = wanted.path == STDOUT or table_files.written_format(wanted.path) == "csv"
    fitted = load_model(model)
    table = table_files.open_table(data, fitted.schema.names)
    kept = _kept_columns(table, wanted)
    fitted.schema.check(table.names)
    _say_encoding(table)
    top = wanted.top if wanted.top is not None else _TOP if len(fitted.target.classes) > _MANY_CLASSES else 0
    with ExitStack() as stack:
        progress = stack.enter_context(bars())("Predicting")
        writer, row, far = None, 1, None
        for batch in table.batches(progress):
            if writer is None:
                fitted = _for_file(fitted, table, batch)
                numbers = {one.name: one for one in fitted.schema.columns if isinstance(one, tables.Number)}
            X = fitted.schema.encode(batch, row)
            far = far or next(fitted.schema.far_outside(X, row), None)
            predicted = fitted.predict_inputs(X, wanted.level, top)
            if taken := predicted.keys() & kept:
                fail(f"the input already has a column {min(taken)!r}. Leave it out with --keep or --bare.")
            if to_csv:
                columns = {name: table_files.csv_cells(batch[name], name, wanted.raw) for name in kept}
                new = {name: table_files.csv_cells(_few_digits(x), name, wanted.raw) for name, x in predicted.items()}
            else:
                columns = {name: _as_number(batch[name], numbers.get(name)) for name in kept}
                new = {name: pa.array(x) for name, x in predicted.items()}
            rows = pa.RecordBatch.from_pydict({**columns, **new})
            if writer is None:  # an error in the first rows leaves an earlier file alone
                writer = stack.enter_context(_writer(wanted, rows.schema))
            with writing(wanted.path):
                writer.write(rows)
            row += batch.num_rows
    _warn_far_outside(far, table)
    if wanted.path != STDOUT:
        say(f"{row - 1:,} rows: {wanted.path}")


def evaluate(model: Path, data: Path, level: float) -> None:
    """Print the figures of a model on a table."""
    fitted = load_model(model)
    table = table_files.open_table(data, fitted.schema.names)
    target = fitted.target
    fitted.schema.check(table.names)
    if target.name not in table.names:
        close = did_you_mean(target.name, table.names)
        fail(f"{table.label} has no column {target.name!r} to compare the predictions with.{close}")
    _say_encoding(table)
    outcomes, row, far = [], 1, None
    with bars() as bar:
        for batch, is_last in table_files.with_last(table.batches(bar("Predicting"))):
            if is_last and (word := table_files.total_in_last_row(table, batch)):
                line(f"note: the last row of {table.label} is a total ({shown(word)}), and is not used.")
                batch = batch.slice(0, batch.num_rows - 1)
            if row == 1:
                fitted = _for_file(fitted, table, batch)
                target = fitted.target
            found = table_files.cells(batch[target.name], fitted.schema.missing)
            if found is None:
                fail(f"column {target.name!r} holds {batch[target.name].type}; expected numbers or text.")
            y = target.encode(found, row)
            there = ~np.isnan(y)
            X = fitted.schema.encode(batch, row)
            far = far or next(fitted.schema.far_outside(X, row), None)
            if there.any():
                outcomes.append(tables.outcome(fitted.estimator, target, X[there], y[there], level))
            row += batch.num_rows
    if not outcomes:
        fail(f"the target {target.name!r} is missing in all {row - 1:,} rows of {table.label}.")
    _warn_far_outside(far, table)
    found_all = tables.joined(outcomes)
    say(f"{table.name}: {len(found_all.y):,} rows with a target, of {row - 1:,}.")
    figures = tables.figures(found_all, tables.marginal_outcome(target, found_all.y, level), level)
    show_figures(figures)
    if tables.Record(table.name, 0, row - 1, figures).is_worse:
        say("Worse on these rows than predicting the same distribution for every row.", style="bold red")


@contextmanager
def _writer(wanted: PredictOptions, schema: pa.Schema) -> Iterator[table_files.Writer]:
    if wanted.path == STDOUT:
        with writing(STDOUT):
            yield table_files.CsvWriter(sys.stdout.buffer, schema, raw=wanted.raw)
            sys.stdout.buffer.flush()
        return
    with writing(wanted.path), table_files.table_writer(wanted.path, schema, wanted.raw) as writer:
        yield writer


def _kept_columns(table: table_files.Table, wanted: PredictOptions) -> list[str]:
    keep = list(map(table.column, wanted.keep))
    for name in keep:
        if name not in table.names:
            close = did_you_mean(name, table.names)
            fail(f"{table.label} has no column {shown(name)} to keep.{close}")
    return [] if wanted.bare else list(dict.fromkeys(keep)) or list(table.names)


def _say_encoding(table: table_files.Table) -> None:
    """On the error stream: the table itself may be printed."""
    if table.note:
        line(f"note: {table.label} is {table.note}.")


def _for_file(fitted: tables.TableModel, table: table_files.Table, batch: pa.RecordBatch) -> tables.TableModel:
    """The model for a file that may write its numbers in another way than the first one; says so where it does."""
    adapted = fitted.for_file(batch, table.delimiter)
    changed = {
        new.name: new.notation.decimal
        for old, new in zip(fitted.schema.columns, adapted.schema.columns, strict=True)
        if isinstance(old, tables.Number) and isinstance(new, tables.Number) and old.notation != new.notation
    }
    if changed:
        name, mark = next(iter(changed.items()))
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        line(f"note: {table.label} writes {shown(name)}{more} with a decimal {_MARKS[mark]}.")
    return adapted


def _warn_far_outside(far: tables.FarOutside | None, table: table_files.Table) -> None:
    """The first number that no training row comes near: an outlier, another unit, or a misread decimal mark."""
    if far is None or far.column.range is None:
        return
    value, low, high = map(tables.people_read, (far.value, *far.column.range))
    line(
        f"note: {table.label}: {shown(far.column.name)} is {value} in row {far.row:,}, far outside the training "
        f"values ({low} to {high}). Check units and decimal marks; predictions for such rows are unreliable."
    )


def _few_digits(values: NDArray[Any]) -> pa.Array:
    return pa.array(table_files.rounded(values) if values.dtype.kind == "f" else values)


def _as_number(column: pa.Array, read: tables.Number | None) -> pa.Array:
    """Parquet has types: what a CSV file wrote as text, and the model read as a number, becomes one."""
    if read is None or not pa.types.is_string(column.type):
        return column
    found = table_files.cells(column)
    assert found is not None  # text has cells
    numbers, _ = read.notation.read(found)
    return numbers
