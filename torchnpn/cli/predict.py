"""`npn predict` and `npn evaluate`: use a model on a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from torchnpn.cli.arguments import InputTable, Level, ModelPath
from torchnpn.cli.errors import check_writable, fail, in_one_line
from torchnpn.cli.options import STDOUT, PredictOptions


@in_one_line
def predict(
    model: ModelPath,
    data: Annotated[Path, InputTable("Table with the columns that the model was trained on")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Table to write, .csv or .parquet; - prints it.")] = STDOUT,
    level: Level = 0.9,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Input column to keep; repeatable. By default all are kept."),
    ] = None,
    bare: Annotated[bool, typer.Option("--bare", help="Write only the predictions, no input columns.")] = False,
    top: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=1000,
            help="How many of the most likely classes to write, 0 for all. Default: all, or 5 of more than 20.",
        ),
    ] = None,
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Write text cells as they are, also formulas and control characters."),
    ] = False,
) -> None:
    """Predict each row of a table, with its uncertainty.

    Numbers get a mean, a standard deviation and the ends of an interval; classes get the most likely class, the
    probability of each class, and an uncertainty from 0 to 1. Missing cells are allowed. A large file is
    processed in parts, so it need not fit into memory.

    In CSV files, text cells that a spreadsheet would run as a formula (they begin with = + - @) get an apostrophe in
    front, and control characters are written as codes such as \\x1b; --raw leaves them as they are.

    \b
    Examples:
      npn predict model.npn new.csv -o predicted.csv
      npn predict model.npn new.parquet -o predicted.parquet --level 0.5 --keep id
      npn predict model.npn new.csv --bare | head
      cat new.csv | npn predict model.npn - > predicted.csv
    """
    if bare and keep:
        fail("--bare keeps no column, and --keep names one. Choose one of the two.")
    if out != STDOUT and not (out.exists() and not out.is_file()):
        check_writable(out, data, model)
    from torchnpn.cli.predicting import predict as run

    run(model, data, PredictOptions(out, level, keep or [], bare, top, raw))


@in_one_line
def evaluate(
    model: ModelPath,
    data: Annotated[Path, InputTable("Table with the model's columns and its target")],
    level: Level = 0.9,
) -> None:
    """Test a model on rows whose target is known.

    Prints the same figures as `npn fit`. Use rows that the model was not trained on.

    \b
    Examples:
      npn evaluate model.npn test.csv
      npn evaluate model.npn test.parquet --level 0.5
      tail -n +2 more.csv | cat header.csv - | npn evaluate model.npn -
    """
    from torchnpn.cli.predicting import evaluate as run

    run(model, data, level)
