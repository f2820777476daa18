"""The work of `npn predict` and `npn evaluate`, batch after batch."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from torchnpn import table_files, tables
from torchnpn._text import did_you_mean, shown
from torchnpn.cli.console import NOTE, WARNING, bars, say, show_figures
from torchnpn.cli.errors import STDOUT, fail, print_to_stderr, writing
from torchnpn.cli.models import load_model
from torchnpn.columns import Number

_MANY_CLASSES, _TOP = 20, 5
_MARKS = {".": "point", ",": "comma"}


def predict(
    model_path: Path, data: Path, out: Path, level: float, keep: list[str] | None, top: int | None, raw: bool
) -> None:
    """Write the table with predictions, beside those of its columns that `keep` names, or all of them for None."""
    fitted, table = _opened(model_path, data)
    with bars() as bar:
        rows = write_predictions(fitted, table, out, level, keep, top, raw, bar("Predicting"))
    if out != STDOUT:
        say(f"{rows:,} rows: {out}")


def write_predictions(
    fitted: tables.TableModel,
    table: table_files.Table,
    out: Path,
    level: float,
    keep: list[str] | None,
    top: int | None,
    raw: bool = False,
    progress: table_files.Progress = table_files.no_progress,
    marks: dict[str, str] | None = None,
) -> int:
    """The number of rows that were written; `marks` are key and value that a Parquet file holds beside them.

    Raises:
        TableError: The table cannot be read, or lacks a column.
    """
    to_csv = out == STDOUT or table_files.written_format(out) == "csv"
    kept = _kept_columns(table, keep)
    fitted.schema.check(table.names)
    if top is None:
        top = _TOP if len(fitted.target.classes) > _MANY_CLASSES else 0
    with ExitStack() as stack:
        writer = None
        for model, batch, X, first_row in _encoded(fitted, table, table.batches(progress)):
            predicted = model.predict_inputs(X, level, top)
            if taken := predicted.keys() & kept:
                raise table_files.TableError(
                    f"the input already has a column {min(taken)!r}. Leave it out with --keep or --bare."
                )
            if to_csv:
                columns = {name: table_files.csv_cells(batch[name], name, raw) for name in kept}
                new = {
                    name: table_files.csv_cells(pa.array(table_files.rounded(x)), name, raw)
                    for name, x in predicted.items()
                }
            else:
                numbers = {one.name for one in model.schema.columns if isinstance(one, Number)}
                columns = {
                    name: _as_number(batch[name], model.schema.notation(name)) if name in numbers else batch[name]
                    for name in kept
                }
                new = {name: pa.array(x) for name, x in predicted.items()}
            rows = pa.RecordBatch.from_pydict({**columns, **new})
            if writer is None:  # an error in the first rows leaves an earlier file alone
                writer = stack.enter_context(_writer(out, rows.schema.with_metadata(marks), raw))
            with writing(out):
                writer.write(rows)
            last_row: int = first_row + len(X) - 1
    return last_row


def evaluate(model_path: Path, data: Path, level: float, skip_bad: bool = False) -> None:
    """Print the figures of a model on a table."""
    fitted, table = _opened(model_path, data, skip_bad)
    target = fitted.target
    fitted.schema.check(table.names)
    if target.name not in table.names:
        close = did_you_mean(target.name, table.names)
        fail(f"{table.label} has no column {target.name!r} to compare the predictions with.{close}")
    outcomes, baselines = [], []
    with bars() as bar:
        batches = table_files.batches_without_total(
            table,
            bar("Predicting"),
            lambda word: print_to_stderr(
                f"note: the last row of {table.label} is a total ({shown(word)}), and is not used."
            ),
        )
        for model, batch, X, first_row in _encoded(fitted, table, batches):
            found = table_files.cells(batch[target.name], model.schema.missing)
            if found is None:
                fail(f"column {target.name!r} holds {batch[target.name].type}; expected numbers or text.")
            y = model.target.encode(found, first_row)
            there = ~np.isnan(y)
            if there.any():
                outcomes.append(tables.outcome(model.estimator, model.target, X[there], y[there], level))
                baselines.append(tables.marginal_outcome(target, y[there], level, target.exposures(X[there])))
            last_row = first_row + len(X) - 1
    if not outcomes:
        fail(f"the target {target.name!r} is missing in all {last_row:,} rows of {table.label}.")
    every = tables.join_outcomes(outcomes)
    say(f"{table.name}: {len(every.y):,} rows with a target, of {last_row:,}.")
    figures = tables.figures(every, tables.join_outcomes(baselines), level)
    show_figures(figures)
    if tables.is_worse(figures):
        say("Worse on these rows than predicting the same distribution for every row.", style=WARNING)


def open_data(data: Path, names: Sequence[str] = (), skip_bad: bool = False) -> table_files.Table:
    """A file, or a folder of which bad files are left out, and named; `names` are columns that are expected."""
    if not data.is_dir():
        return table_files.open_table(data, names)
    table = table_files.open_folder(data, skip_bad)
    for path, reason in table.bad:
        say(f"  left out: {path}: {reason}.", style=NOTE)
    return table


def _opened(model_path: Path, data: Path, skip_bad: bool = False) -> tuple[tables.TableModel, table_files.Table]:
    model = load_model(model_path)
    table = open_data(data, model.schema.names, skip_bad)
    if table.note:
        print_to_stderr(f"note: {table.label} is {table.note}.")  # the table itself may be printed
    return model, table


def _encoded(
    model: tables.TableModel, table: table_files.Table, batches: Iterable[pa.RecordBatch]
) -> Iterator[tuple[tables.TableModel, pa.RecordBatch, NDArray[np.float32], int]]:
    """The model that reads numbers as the file writes them, and batches with their inputs and their first row's number.

    Notes what is unlike the rows that the model was trained on.
    """
    row, far = 1, None
    for batch in batches:
        if row == 1:
            model = _for_file(model, table, batch)
        X = model.schema.encode(batch, row)
        far = far or next(model.schema.far_outside(X, row), None)
        yield model, batch, X, row
        row += batch.num_rows
    _warn_far_outside(far, table)


@contextmanager
def _writer(out: Path, schema: pa.Schema, raw: bool) -> Iterator[table_files.Writer]:
    with writing(out):
        if out == STDOUT:
            yield table_files.CsvWriter(sys.stdout.buffer, schema, raw=raw)
            sys.stdout.buffer.flush()
        else:
            with table_files.table_writer(out, schema, raw) as writer:
                yield writer


def _kept_columns(table: table_files.Table, keep: list[str] | None) -> list[str]:
    if keep is None:
        return list(table.names)
    for name in (names := list(dict.fromkeys(map(table.column, keep)))):
        if name not in table.names:
            close = did_you_mean(name, table.names)
            raise table_files.TableError(f"{table.label} has no column {shown(name)} to keep.{close}")
    return names


def _for_file(fitted: tables.TableModel, table: table_files.Table, batch: pa.RecordBatch) -> tables.TableModel:
    """The model for a file that may write its numbers in another way than the first one; says so where it does."""
    adapted = fitted.for_file(batch, table.delimiter)
    changed = {
        name: adapted.schema.notation(name).decimal
        for name in fitted.schema.names
        if adapted.schema.notation(name) != fitted.schema.notation(name)
    }
    if changed:
        name, mark = next(iter(changed.items()))
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        print_to_stderr(f"note: {table.label} writes {shown(name)}{more} with a decimal {_MARKS[mark]}.")
    return adapted


def _warn_far_outside(far: tables.FarOutside | None, table: table_files.Table) -> None:
    """The first number that no training row comes near: an outlier, another unit, or a misread decimal mark."""
    if far is None or far.column.range is None:
        return
    value, low, high = map(tables.people_read, (far.value, *far.column.range))
    print_to_stderr(
        f"note: {table.label}: {shown(far.column.name)} is {value} in row {far.row:,}, far outside the training "
        f"values ({low} to {high}). Check units and decimal marks; predictions for such rows are unreliable."
    )


def _as_number(column: pa.Array, notation: table_files.Notation) -> pa.Array:
    """Parquet has types: what a CSV file wrote as text, and the model read as a number, becomes one."""
    if not pa.types.is_string(column.type):
        return column
    found = table_files.cells(column)
    assert found is not None  # text has cells
    numbers, _ = notation.read(found)
    return numbers
