"""`npn info`: what stands in a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from torchnpn.cli.console import say, show, show_record
from torchnpn.cli.errors import in_one_line

if TYPE_CHECKING:
    from torchnpn import tables


@in_one_line
def info(
    model: Annotated[Path, typer.Argument(help="Model file.")],
    card: Annotated[bool, typer.Option("--card", help="Print a model card, in Markdown.")] = False,
) -> None:
    """Show what a model file holds.

    Its target, its columns, its network, how well it did on the held-out rows, and the versions that wrote it.

    \b
    Examples:
      npn info model.npn
      npn info model.npn --card > MODEL_CARD.md
    """
    from torchnpn import io

    about = io.describe(model)
    if card:
        from torchnpn.cli import card as cards
        from torchnpn.cli.models import load_model

        print(cards.card(model.name, load_model(model), about), end="")
        return
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    facts = {
        "holds": about["type"],
        "parameters": f"{about['parameters']:,}",
        "families": ", ".join(about["families"]),
        "saved": f"{about['saved']} by {versions}",
    }
    show(["", str(model)], [fact for fact in facts.items() if fact[1]], accent=None, left=(0, 1))
    if about["type"] == "TableModel":
        _show_table_model(io.load(model))
        return
    for line in about["architecture"]:
        say(line)


def _show_table_model(model: tables.TableModel) -> None:
    from torchnpn.cli.models import describe_column, describe_network

    target, record = model.target, model.record
    what = f"one of {len(target.classes)} classes" if target.is_class else target.family
    what += f", in proportion to {target.exposure}" if target.exposure else ""
    say(f"Predicts {target.name} ({what}), learnt from {record.rows:,} rows of {record.file}.")
    say(describe_network(model))
    rows = [
        [column.name, describe_column(column, model.schema.notation(column.name))] for column in model.schema.columns
    ]
    show(["column", "holds"], rows, accent=0, left=(0, 1))
    show_record(record)
