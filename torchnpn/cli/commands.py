"""Arguments and help of `npn fit`, `npn predict` and `npn evaluate`; their work is in `fitting` and `predicting`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from torchnpn.cli.arguments import (
    Bad,
    Decimal,
    Device,
    FitOptions,
    InputTable,
    Level,
    ModelPath,
    OnBad,
    Seed,
    check_device_name,
    finite,
)
from torchnpn.cli.errors import STDOUT, check_writable, fail, in_one_line

_TABLES = (".csv", ".tsv", ".parquet", ".xlsx", ".gz")
_MOST_LAYERS, _MOST_UNITS = 20, 100_000


def _known_family(name: str) -> str:
    """Refuse what is neither auto, class nor a kind of target; only then torch is loaded here already."""
    if name not in ("auto", "class"):
        from torchnpn.likelihoods import BY_NAME

        if name not in BY_NAME:
            raise typer.BadParameter(f"expected one of auto, class, {', '.join(BY_NAME)}, got {name[:80]!r}.")
    return name


@in_one_line
def fit(
    data: Annotated[Path, InputTable("Table to learn from")],
    target: Annotated[
        str, typer.Option("--target", "-t", help="Column to predict: its name, or its number without a header.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Model file to write.")] = Path("model.npn"),
    family: Annotated[
        str,
        typer.Option(
            callback=_known_family,
            metavar="NAME",
            help="Distribution of the target, such as gamma or poisson, or class; auto detects it.",
        ),
    ] = "auto",
    exposure: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column to which the target is in proportion, such as months insured; for counts and amounts.",
        ),
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Column not to use; repeatable.")] = None,
    use: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column to use though it looks like an identifier or a code; repeatable."),
    ] = None,
    decimal: Decimal = None,
    na: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="Word that marks a missing cell, in addition to NA etc.; repeatable."),
    ] = None,
    hidden: Annotated[str | None, typer.Option(help="Units of the hidden layers, such as 50 or 100,50.")] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Passes over the rows; by default, more for smaller tables.")
    ] = None,
    members: Annotated[int, typer.Option(min=1, max=100, help="Networks to train as an ensemble.")] = 1,
    validation: Annotated[
        float, typer.Option(min=0.01, max=0.5, callback=finite, help="Share of the rows that is held out for testing.")
    ] = 0.1,
    max_rows: Annotated[
        int | None,
        typer.Option(
            min=10,
            max=10**9,
            help="Most rows to learn from; more are sampled at random. Default: a million, or all of a folder.",
        ),
    ] = None,
    on_bad: OnBad = Bad.stop,
    seed: Seed = 0,
    device: Device = "auto",
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write an HTML page beside the model.")] = True,
) -> None:
    """Learn to predict a column of a table from the other columns.

    Finds out what each column holds, sets some rows aside, trains on the others, and tests the model on the rows that
    were set aside. Prints how well it does beside a baseline that uses no column. The model that was tested is the one
    that is saved: it is not trained again on all rows.

    \b
    Examples:
      npn fit houses.csv --target price
      npn fit claims.parquet -t claims --family poisson --drop policy -o claims.npn
      npn fit german.csv -t Preis --decimal , --na "keine Angabe"
      npn fit big.csv.gz -t y --max-rows 200000 --hidden 100,50
      zcat houses.csv.gz | npn fit - -t price --members 5
      npn fit big/ -t y --epochs 2
      torchrun --nproc-per-node=4 -m torchnpn fit big/ -t y

    A folder of Parquet or CSV files is one table, and may be larger than memory. If its training is interrupted, the
    same command goes on where it was, from OUT.checkpoint.
    """
    sizes = None if hidden is None else _sizes(hidden)
    if report and out.suffix == ".html":
        fail(f"the report takes the name {out}. Choose another for the model, such as {out.with_suffix('.npn')}.")
    check_writable(out, data)  # before the work, not after
    if out.suffix.lower() in _TABLES:
        fail(f"-o names the model file, and {out} is named like a table. Choose a name such as {out.stem}.npn.")
    if report:
        check_writable(out.with_suffix(".html"), data)
    check_device_name(device)
    from torchnpn.cli import fitting  # brings torch, which takes seconds

    settings = {"max_epochs": epochs, "n_estimators": members, "device": device, "random_state": seed}
    fitting.fit(
        FitOptions(
            data=data,
            target=target,
            out=out,
            family=family,
            exposure=exposure,
            drop=drop or [],
            use=use or [],
            decimal=decimal,
            missing=na or [],
            validation=validation,
            max_rows=max_rows,
            skip_bad=on_bad is Bad.skip,
            seed=seed,
            report=report,
            settings=settings if sizes is None else {**settings, "hidden": sizes},
        )
    )


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
    workers: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Processes for a folder; by default one for each CPU.")
    ] = None,
    on_bad: OnBad = Bad.stop,
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
      npn predict model.npn new/ -o predicted/ --keep id --on-bad skip

    For a folder, -o names another one, to which a Parquet file is written for each of its files. What is there already
    is not written again: give the same command again after an interruption.
    """
    _check_order(model, data)
    if bare and keep:
        fail("--bare keeps no column, and --keep names one. Choose one of the two.")
    if data.is_dir():
        if out == STDOUT or (out.exists() and not out.is_dir()):
            fail(f"the predictions for the folder {data} need another folder: -o predicted")
        if raw:
            fail("--raw goes with CSV files; a folder of predictions is of Parquet files.")
        from torchnpn.cli import scoring

        scoring.predict_folder(model, data, out, level, [] if bare else keep or None, top, workers, on_bad is Bad.skip)
        return
    if out != STDOUT and not (out.exists() and not out.is_file()):
        check_writable(out, data, model)
    from torchnpn.cli import predicting

    predicting.predict(model, data, out, level, [] if bare else keep or None, top, raw)


@in_one_line
def evaluate(
    model: ModelPath,
    data: Annotated[Path, InputTable("Table with the model's columns and its target")],
    level: Level = 0.9,
    on_bad: OnBad = Bad.stop,
) -> None:
    """Test a model on rows whose target is known.

    Prints the same figures as `npn fit`. Use rows that the model was not trained on.

    \b
    Examples:
      npn evaluate model.npn test.csv
      npn evaluate model.npn test.parquet --level 0.5
      tail -n +2 more.csv | cat header.csv - | npn evaluate model.npn -
    """
    _check_order(model, data)
    from torchnpn.cli import predicting

    predicting.evaluate(model, data, level, on_bad is Bad.skip)


def _check_order(model: Path, data: Path) -> None:
    """The two paths are easily given the other way round."""
    if model.suffix.lower() in _TABLES and data.suffix.lower() not in _TABLES:
        fail(f"{model} is named like a table. The model comes first, then the table.")


def _sizes(hidden: str) -> tuple[int, ...]:
    parts = [part.strip() for part in hidden.split(",")]
    if not all(re.fullmatch(r"0*[1-9][0-9]*", part, re.ASCII) for part in parts):
        fail(f"--hidden expects numbers of units, such as 50 or 100,50, got {hidden[:80]!r}.")
    if len(parts) > _MOST_LAYERS:
        fail(f"--hidden expects at most {_MOST_LAYERS} layers, got {len(parts)}.")
    if any(len(part.lstrip("0")) > len(str(_MOST_UNITS)) or int(part) > _MOST_UNITS for part in parts):
        fail(f"--hidden expects at most {_MOST_UNITS:,} units in a layer, got {hidden[:80]!r}.")
    return tuple(map(int, parts))
