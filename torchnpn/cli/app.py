"""Builds the `npn` command of all its subcommands, those of other packages included."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Annotated

import typer

import torchnpn
from torchnpn.cli import process
from torchnpn.cli.commands import evaluate, fit, predict
from torchnpn.cli.data import data
from torchnpn.cli.demo import demo
from torchnpn.cli.errors import OneLineGroup, fail
from torchnpn.cli.export import export
from torchnpn.cli.info import info
from torchnpn.cli.serve import serve

OF_STUDIES = ("bench", "reproduce", "report")  # in the repository's second package
_ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}

app = typer.Typer(
    name="npn",
    cls=OneLineGroup,
    help="Natural-parameter networks: predictions that come with their uncertainty.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: paragraphs and examples stay as they are written
    pretty_exceptions_enable=False,
)
for command in (fit, predict, evaluate, info, export, serve, demo):
    app.command()(command)
app.add_typer(data, name="data")


def _add_commands_of_other_packages() -> None:
    """Add the entry points `npn.commands`; for the studies where they are not installed, how to install them."""
    found = {point.name: point for point in entry_points(group="npn.commands")}
    for name, point in found.items():
        app.command(name)(point.load())
    for name in OF_STUDIES:
        if name not in found:
            app.command(name, hidden=True, context_settings=_ANYTHING)(_say_how_to_install)


def _say_how_to_install(context: typer.Context) -> None:
    fail(f"{context.info_name} belongs to the studies. In a clone of the repository: pip install ./studies")


_add_commands_of_other_packages()


def main() -> None:
    """Entry point of the `npn` script."""
    with process.prepared():
        app()


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"torchnpn {torchnpn.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Options before any subcommand."""
