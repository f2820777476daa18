"""`npn fit`: from a table to a model file and a report."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
import typer

from torchnpn import io, tables
from torchnpn.cli import page
from torchnpn.cli.console import bars, say, show_figures
from torchnpn.cli.errors import check_writable, fail, in_one_line, writing
from torchnpn.estimators import NPNClassifier, NPNRegressor
from torchnpn.training import resolve_device


class Family(StrEnum):
    """What a target is taken for."""

    auto = "auto"
    classes = tables.CLASS
    gaussian = "gaussian"
    gamma = "gamma"
    poisson = "poisson"
    negative_binomial = "negative_binomial"
    beta = "beta"


class Data(NamedTuple):
    """A file, read and understood."""

    table: tables.Table
    found: tables.Survey
    schema: tables.Schema
    left_out: list[tables.LeftOut]
    target: tables.Target
    kind: tables.Kind


@in_one_line
def fit(
    data: Annotated[Path, typer.Argument(help="Table to learn from: .csv, .tsv (also .gz) or .parquet.")],
    target: Annotated[str, typer.Option("--target", "-t", help="Column to predict.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Model file to write.")] = Path("model.npn"),
    family: Annotated[Family, typer.Option(help="What the target is; auto finds out, and says so.")] = Family.auto,
    drop: Annotated[list[str] | None, typer.Option(help="Column not to use; may be given again.")] = None,
    hidden: Annotated[str | None, typer.Option(help="Units of hidden layers, such as 50 or 100,50.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the rows; by default, enough.")] = None,
    members: Annotated[int, typer.Option(min=1, help="Networks to train; several predict a mixture.")] = 1,
    validation: Annotated[float, typer.Option(min=0.01, max=0.5, help="Share of the rows held out to judge by.")] = 0.1,
    max_rows: Annotated[int, typer.Option(min=10, help="Learn from a sample of a larger file.")] = 1_000_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same model.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write an HTML page beside the model.")] = True,
) -> None:
    """Learn to predict a column of a table from the others.

    Finds out what each column holds, holds some rows out, trains on the rest, and says how well the held-out rows are
    predicted. The model is the one that was judged: it is not trained again on all rows.

    \b
    Examples:
      npn fit houses.csv --target price
      npn fit claims.parquet -t claims --family poisson --drop policy -o claims.npn
      npn fit big.csv.gz -t y --max-rows 200000 --hidden 100,50
      npn fit houses.csv -t price --members 5
    """
    sizes = {} if hidden is None else {"hidden": _sizes(hidden)}
    if report and out.suffix == ".html":
        fail(f"the report takes the name {out}. Choose another for the model, such as {out.with_suffix('.npn')}.")
    check_writable(out)  # before the work, not after
    _check_device(device)
    with bars() as bar:
        read, rows = _read(data, target, family.value, drop or [], max_rows, seed, bar("Reading"))
    _say_what_was_read(read, len(rows.y), max_rows)
    parts = tables.split(rows.y, validation, seed, by_class=read.target.is_class)
    learn, held_out = (tables.Rows(rows.X[part], rows.y[part]) for part in parts)
    del rows  # half of the memory
    about = dataclasses.replace(read.target, marginal=tables.marginal(read.target, learn.y))
    say(f"Learning from {_rows(len(learn.y))}; {len(held_out.y):,} are held out to judge by.")
    with bars() as bar:
        estimator = _estimator(
            about, **sizes, max_epochs=epochs, n_estimators=members, device=device, random_state=seed
        )
        estimator.fit(*learn, progress=bar("Training"))
        model, without = tables.outcome(estimator, about, *held_out), tables.marginal_outcome(about, held_out.y)
        record = tables.Record(data.name, len(learn.y), len(held_out.y), tables.figures(model, without))
        fitted = tables.TableModel(read.schema, about, estimator, record)
        if report:
            progress = bar("Importance of columns")
            importance = tables.permutation_importance(estimator, read.schema, *held_out, seed=seed, progress=progress)
    with writing(out):
        io.save(fitted, out)
    show_figures(record.figures)
    say(f"Model:  {out}")
    if report:
        text = page.html(fitted, page.Findings(read.found, read.left_out, read.kind, model, importance))
        with writing(beside := out.with_suffix(".html")), tables.whole_file(beside) as file:
            file.write(text.encode())
        say(f"Report: {beside}")


def _read(
    path: Path, name: str, family: str, drop: list[str], max_rows: int, seed: int, progress: Callable[[float], None]
) -> tuple[Data, tables.Rows]:
    """What a file holds, and the rows to use, with classes as codes."""
    table = tables.open_table(path)
    for wanted in (name, *drop):
        if wanted not in table.names:
            fail(f"{path} has no column {wanted!r}.{tables.did_you_mean(wanted, table.names)}")
    if name in drop:
        fail(f"the target {name!r} cannot be dropped.")
    found = tables.survey(table, drop, lambda share: progress(share / 2))
    column = tables.find_column(found, name, family)
    schema, left_out = tables.find_schema(found, name)
    keep = tables.rows_to_keep(column.filled, schema.width, max_rows)
    rows = tables.load(table, schema, column, keep, seed, lambda share: progress((1 + share) / 2))
    target, y, kind = tables.make_target(column, rows.y, family)
    return Data(table, found, schema, left_out, target, kind), tables.Rows(rows.X, y)


def _say_what_was_read(read: Data, kept: int, max_rows: int) -> None:
    filled = read.found.columns[read.target.name].filled
    say(f"{read.table.path.name}: {_rows(read.found.rows)}, columns to learn from: {len(read.schema.columns)}.")
    for name, reason in read.left_out:
        say(f"  left out: {name!r} {reason}.", style="yellow")
    if filled < read.found.rows:
        say(f"  not used: {_rows(read.found.rows - filled)} without a target.", style="yellow")
    if kept < filled:
        why = "--max-rows" if kept == max_rows else "so many columns fit into memory with no more"
        say(f"  a random sample of {kept:,} of the {filled:,} rows is used ({why}).", style="yellow")
    say(tables.sentence(read.target, read.kind))


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _estimator(target: tables.Target, **settings: Any) -> NPNRegressor | NPNClassifier:
    return NPNClassifier(**settings) if target.is_class else NPNRegressor(target.family, **settings)


def _check_device(device: str) -> None:
    try:
        torch.empty(0, device=resolve_device(device))
    except (ValueError, RuntimeError, AssertionError) as error:  # torch has names of many devices it cannot use
        fail(f"--device {device} cannot be used here: {str(error).splitlines()[0]}")


def _sizes(hidden: str) -> tuple[int, ...]:
    parts = hidden.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        fail(f"--hidden expects numbers of units, such as 50 or 100,50, got {hidden!r}.")
    return tuple(map(int, parts))
