"""`npn bench`: what a network costs beside a plain one, on this machine."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from torchnpn.cli import Device, bars, check_device_name, check_writable, fail, in_one_line, say, show, writing


@in_one_line
def bench(
    device: Device = "auto",
    quick: Annotated[bool, typer.Option("--quick", help="Tiny networks, to check that everything runs.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A part of the benchmark or a network; repeatable. A wrong name lists all."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="JSON file for the record; the figure is written beside it.")
    ] = None,
) -> None:
    """Time networks on this machine.

    Compares a natural-parameter network with plain networks, MC dropout, an ensemble and Bayes by backprop: the time of
    a training step and of a prediction with uncertainty, and memory, as ratios to the fastest plain network. Takes
    minutes on a CPU.

    \b
    Examples:
      npn bench --quick
      npn bench --only mnist --only npn-fused
      npn bench -o speed.json
    """
    check_device_name(device)
    if out is not None and out.suffix != ".json":
        fail(f"--out expects a name that ends in .json, got {out}.")
    picture = None if out is None else out.with_suffix(".png")
    for path in filter(None, (out, picture)):
        check_writable(path)
    from npn_studies import bench as benches
    from npn_studies.bench.figure import growth
    from torchnpn import plots
    from torchnpn.training import resolve_device

    try:
        place = resolve_device(device)
        benches.choose(only or [])
    except ValueError as error:
        fail(str(error))
    with bars() as bar:
        record = benches.run(place, benches.QUICK if quick else benches.FULL, only or [], bar, partial(_save, out))
    settings = record["configuration"]
    threads = f"threads {settings['threads']}"
    say(f"{record['device']}, torch {record['versions']['torch']}, {settings['precision']}, {threads}")
    for name, table in record["tables"].items():
        say(f"{name}: {table['size']}", style="bold")
        show(benches.header(table["rows"]), benches.cells(table["rows"]), accent=2)
    if found := record.get("shapes"):
        say("shapes", style="bold")
        show(benches.shape_header(found), benches.shape_cells(found), accent=2)
    for name, why in record["left_out"].items():
        say(f"{name}: {why}", style="dim")
    say("Ratios compare with the fastest plain network.", style="dim")
    if out is not None:
        say(f"Record: {out}")
    if picture is not None and "scaling" in record:
        with writing(picture):
            benches.write(picture, plots.png(growth(record["scaling"])))
        say(f"Figure: {picture}")


def _save(out: Path | None, record: dict[str, Any]) -> None:
    if out is not None:
        from npn_studies import bench as benches

        with writing(out):
            benches.write_json(out, record)
