"""`npn info`: what stands in a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from torchnpn import io, tables
from torchnpn.cli.console import say, show, show_figures
from torchnpn.cli.errors import in_one_line
from torchnpn.cli.words import describe_column


@in_one_line
def info(model: Annotated[Path, typer.Argument(help="Model file.")]) -> None:
    """Say what a model file holds.

    Its target, columns, network, figures on held-out rows, and the versions that wrote it.

    \b
    Example:
      npn info model.npn
    """
    about = io.describe(model)
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    facts = {
        "holds": about["type"],
        "numbers": f"{about['parameters']:,}",
        "families": ", ".join(about["families"]),
        "saved": f"{about['saved']} by {versions}",
    }
    show(["", str(model)], [fact for fact in facts.items() if fact[1]], accent=None, left=(0, 1))
    for line in about["architecture"]:
        say(line)
    if about["type"] == "TableModel":
        _show_table_model(io.load(model))


def _show_table_model(model: tables.TableModel) -> None:
    target, record = model.target, model.record
    what = f"one of {len(target.classes)} classes" if target.is_class else target.family
    say(f"Predicts {target.name} ({what}), learnt from {record.rows:,} rows of {record.file}.")
    rows = [[column.name, describe_column(column)] for column in model.schema.columns]
    show(["column", "holds"], rows, accent=0, left=(0, 1))
    show_figures(record.figures)
