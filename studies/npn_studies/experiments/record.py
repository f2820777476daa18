"""The record of an experiment: results/NAME.json, whole after each cell."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from npn_studies.bench import circumstances, write_json
from npn_studies.experiments.experiment import Cell, Experiment, Options, Record


def path_of(experiment: Experiment, folder: Path) -> Path:
    """Where the record is, or will be."""
    return folder / f"{experiment.name}.json"


def read(experiment: Experiment, folder: Path) -> Record | None:
    """The record in `folder`, or `None` where there is none.

    Raises:
        ValueError: If the file is something else.
    """
    path = path_of(experiment, folder)
    if not path.is_file():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}). Delete it, and run the experiment anew.") from error
    if not isinstance(record, dict) or record.get("experiment") != experiment.name or "cells" not in record:
        raise ValueError(f"{path} is not a record of the experiment {experiment.name!r}. Move it, or choose a folder.")
    return record


def kept(record: Record | None, cells: Sequence[Cell], options: Options) -> dict[str, Any]:
    """What a record holds of these cells: those with equal settings, from a run with equal options.

    A cell from before cells named their versions has those of its record.
    """
    if record is None or (record["quick"], record["seeds"]) != (options.quick, options.seeds):
        return {}
    found = record["cells"]
    return {
        cell.key: {"versions": record["versions"], **found[cell.key]}
        for cell in cells
        if cell.key in found and found[cell.key]["settings"] == as_json(cell.settings)
    }


def entry(cell: Cell, figures: dict[str, Any], seconds: float, options: Options) -> dict[str, Any]:
    """A cell as it is stored; it names its device and versions, for a run may go on elsewhere."""
    around = circumstances(cell.device or options.device.type)
    return {
        "settings": as_json(cell.settings),
        "figures": figures,
        "seconds": round(seconds, 3),
        "device": around["device"],
        "versions": around["versions"],
    }


def write(
    experiment: Experiment, options: Options, cells: Sequence[Cell], done: dict[str, Any], folder: Path
) -> Record:
    """Store the cells that are done, in the order of the plan."""
    record = {
        "experiment": experiment.name,
        "title": experiment.title,
        "place": experiment.place,
        "quick": options.quick,
        "seeds": options.seeds,
        **circumstances(options.device.type),
        "device": "; ".join(sorted({cell["device"] for cell in done.values()})),
        "planned": len(cells),
        "duration_s": round(sum(cell["seconds"] for cell in done.values()), 1),
        "cells": {cell.key: done[cell.key] for cell in cells if cell.key in done},
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path_of(experiment, folder), record)
    return record


def is_whole(record: Record) -> bool:
    """Whether every planned cell is there."""
    return len(record["cells"]) == int(record["planned"])


def as_json(value: Any) -> Any:
    """What comes back when it is written and read."""
    return json.loads(json.dumps(value, allow_nan=False))
