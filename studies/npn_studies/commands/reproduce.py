"""`npn reproduce`: the paper's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from torchnpn.cli import OTHER, Device, bars, check_device_name, fail, in_one_line, say, show


@in_one_line
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="Experiments, or all.")] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Number of random seeds; each experiment has its default."),
    ] = None,
    device: Device = "auto",
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes, to check that everything runs.")] = False,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder of the records; results, or results/quick with --quick.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Run again what the record holds already.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List the experiments, and stop.")] = False,
) -> None:
    """Run experiments of the paper.

    Each experiment writes a record and a figure. A run that was stopped continues after the last part in its record.

    \b
    Examples:
      npn reproduce --list
      npn reproduce toy
      npn reproduce all --quick
    """
    check_device_name(device)
    from npn_studies.experiments import EXPERIMENTS, Options
    from npn_studies.experiments.run import LIST_HEADER, Screen, choose, folder_for, listing
    from npn_studies.experiments.run import reproduce as run
    from torchnpn.training import resolve_device

    try:
        options = Options(resolve_device(device), quick, seeds)
        folder = folder_for(options, out)
        if list_all:
            show(LIST_HEADER, listing(EXPERIMENTS, folder), accent=0, left=(0, 1, 3, 4))
            return
        chosen = choose(names or [], EXPERIMENTS)
        left_out = run(chosen, options, folder, again, Screen(say, bars))
    except ValueError as error:
        fail(str(error))
    if left_out:
        fail(f"left out because their data are missing: {', '.join(left_out)}.", OTHER)
