"""`npn data`: public data sets, by name."""

from __future__ import annotations

from typing import Annotated

import typer

from torchnpn.cli.console import bars, say, show
from torchnpn.cli.errors import OTHER, fail, in_one_line

data = typer.Typer(no_args_is_help=True, help="Public data sets: list them, download one, check the files.")
Name = Annotated[str, typer.Argument(help="Name of a data set, from `npn data list`.")]


@data.command("list")
@in_one_line
def list_sets() -> None:
    """List the data sets, and which of them are on this machine."""
    from torchnpn import datasets

    sets = datasets.available()
    rows = [
        [one.name, f"{one.rows:,}", str(one.columns), one.task, "yes" if one.present else "–", one.title]
        for one in sets
    ]
    show(["name", "rows", "columns", "task", "here", ""], rows, accent=0, left=(0, 3, 4, 5))


@data.command()
@in_one_line
def fetch(name: Name) -> None:
    """Download a data set, unless it is on this machine already, and print its path."""
    from torchnpn import datasets

    if name not in (known := [one.name for one in datasets.available()]):
        fail(f"there is no data set {name[:80]!r}. There are: {', '.join(known)}.")
    with bars() as bar:
        progress = bar(name)
        path = datasets.fetch(name, lambda done, total: progress(done / total if total else 0.0))
    say(str(path))


@data.command()
@in_one_line
def verify() -> None:
    """Check the downloaded files; the exit status is 1 if one of them is damaged."""
    from torchnpn import datasets

    verdicts = datasets.verify()
    show(["name", "file"], [[name, status] for name, status in verdicts], accent=0, left=(0, 1))
    if wrong := [name for name, status in verdicts if status not in ("ok", "absent")]:
        fail(f"damaged: {', '.join(wrong)}. Delete these files and fetch them again.", OTHER)
