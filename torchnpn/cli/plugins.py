"""Commands of other packages join `npn` by entry points of the group `npn.commands`."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

import typer

from torchnpn.cli.errors import fail

GROUP = "npn.commands"
OF_STUDIES = ("bench", "reproduce", "report")  # in the repository's own second package
_ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def add_commands(app: typer.Typer) -> None:
    """Add what is installed; for commands of the studies that are not, a line that says how to install them."""
    found = {point.name: point for point in entry_points(group=GROUP)}
    for name, point in found.items():
        app.command(name)(point.load())
    for name in OF_STUDIES:
        if name not in found:
            app.command(name, hidden=True, context_settings=_ANYTHING)(_say_how_to_install)


def _say_how_to_install(context: typer.Context) -> Any:
    fail(f"{context.info_name} belongs to the studies. In a clone of the repository: pip install ./studies")
