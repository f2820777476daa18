"""Arguments that several commands share, and checks of them that need no torch."""

from __future__ import annotations

import math
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from torchnpn.cli.errors import fail


class Mark(StrEnum):
    """What stands before the decimals of a number."""

    point = "."
    comma = ","


class Bad(StrEnum):
    """What to do with a file of a folder that cannot be used."""

    stop = "stop"
    skip = "skip"


def InputTable(what: str) -> Any:
    """An argument that names a table."""
    return typer.Argument(
        help=f"{what}: .csv, .tsv (also .gz), .parquet or .xlsx, or a folder of such; - reads standard input.",
        parser=_place,
        metavar="TABLE",
    )


def _place(text: str) -> Path:
    """A path, also one in an object store."""
    if "://" not in text:
        return Path(text)
    from torchnpn.table_files import TableError, place

    try:
        return place(text)
    except TableError as error:
        raise typer.BadParameter(str(error)) from error


def finite(value: float) -> float:
    """Refuse nan, which no range refuses."""
    if not math.isfinite(value):
        raise typer.BadParameter(f"expected a finite number, got {value}.")
    return value


ModelPath = Annotated[Path, typer.Argument(help="Model file from `npn fit`.")]
Level = Annotated[
    float,
    typer.Option(min=0.01, max=0.999, callback=finite, help="Share of new targets that intervals should contain."),
]
Decimal = Annotated[Mark | None, typer.Option(help="Decimal mark of the numbers; by default detected for each column.")]
OnBad = Annotated[Bad, typer.Option(help="What to do with a file of a folder that cannot be used.")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="The same seed gives the same model.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]


class FitOptions(NamedTuple):
    """What `npn fit` was asked for, from here to where the work is done."""

    data: Path
    target: str
    out: Path
    family: str
    exposure: str | None
    drop: list[str]
    use: list[str]
    decimal: str | None
    missing: list[str]
    validation: float
    max_rows: int | None
    skip_bad: bool
    seed: int
    report: bool
    settings: dict[str, Any]  # of the estimator, with the seed


def check_device_name(device: str) -> None:
    """Refuse devices that torch knows and cannot train on, such as meta."""
    if not re.fullmatch(r"auto|cpu|cuda(:[0-9]{1,3})?", device):
        fail(f"--device expects auto, cpu, cuda or cuda:N, got {device[:80]!r}.")
