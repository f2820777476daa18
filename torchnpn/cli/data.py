"""`npn data`: public data sets, by name."""

from __future__ import annotations

from typing import Annotated

import typer

from torchnpn import datasets
from torchnpn.cli.console import bars, say, show
from torchnpn.cli.errors import OTHER, fail, in_one_line

data = typer.Typer(no_args_is_help=True, help="Public data sets: what there is, fetch one, check the files.")
Name = Annotated[str, typer.Argument(help="Of a data set, from `npn data list`.")]


@data.command("list")
@in_one_line
def list_sets() -> None:
    """What data sets there are, and which of them are on this machine."""
    sets = datasets.available()
    rows = [
        [one.name, f"{one.rows:,}", str(one.columns), one.task, "yes" if one.present else "–", one.title]
        for one in sets
    ]
    show(["name", "rows", "columns", "task", "here", ""], rows, accent=0, left=(0, 3, 4, 5))


@data.command()
@in_one_line
def fetch(name: Name) -> None:
    """Download a data set, unless it is here already, and say where it is."""
    if name not in (known := [one.name for one in datasets.available()]):
        fail(f"there is no data set {name!r}. There are: {', '.join(known)}.")
    with bars() as bar:
        progress = bar(name)
        path = datasets.fetch(name, lambda done, total: progress(done / total if total else 0.0))
    say(str(path))


@data.command()
@in_one_line
def verify() -> None:
    """Check the files that are here: exit status 1 where one is not what it should be."""
    verdicts = datasets.verify()
    show(["name", "file"], [[name, status] for name, status in verdicts], accent=0, left=(0, 1))
    if wrong := [name for name, status in verdicts if status not in ("ok", "absent")]:
        fail(f"not as they should be: {', '.join(wrong)}. Delete these files and fetch them anew.", OTHER)
