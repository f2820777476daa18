"""Real tables: ours and other methods as they come, judged as distributions.

Tables come from packages (`npn_studies.tabular`); nothing is downloaded, and nothing is chosen for a table. What was
chosen for all of them was chosen on the other half of the collection. Many hours on one core: `python -m
npn_studies.tabular run` does the same in worker processes, and `collected` makes the record of what they wrote.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from npn_studies.experiments import record as records
from npn_studies.experiments.experiment import Cell, Experiment, MissingData, Options, Progress, Record
from npn_studies.experiments.tables import rounded
from npn_studies.experiments.tabular_page import figure, headline, page, section
from npn_studies.tabular import METHODS, TABLES, Figures, NotInstalled, read_parts, splits_of

SPLITS = 5
QUICK_TABLES, QUICK_METHODS = ("diabetes", "iris"), ("npn", "linear", "hgb")
SHOWN = tuple(name for name, table in TABLES.items() if table.half == "report")


def cells(options: Options) -> list[Cell]:
    """One for each method and table."""
    splits = options.seeds or (1 if options.quick else SPLITS)
    names, methods = (QUICK_TABLES, QUICK_METHODS) if options.quick else (SHOWN, tuple(METHODS))
    return [_cell(method, name, splits) for name in names for method in methods]


def _cell(method: str, name: str, splits: int) -> Cell:
    def run(progress: Progress) -> dict[str, Any]:
        every: list[Figures] = []
        try:
            for judged in splits_of(name, METHODS[method], range(splits), None):
                if isinstance(judged, str):
                    return {"unfit": judged}
                every.append(judged)
                progress(len(every) / splits)
        except NotInstalled as error:
            raise MissingData(str(error)) from error
        return {key: [rounded(one[key]) for one in every] for key in every[0]}

    return Cell(f"{method}/{name}", {"splits": splits}, run, device="cpu")


def collected(paths: Iterable[Path], options: Options, folder: Path) -> Record:
    """The record of what workers wrote, on one machine or several; a cell has the splits from the first on."""
    parts: dict[str, dict[int, Mapping[str, Any]]] = {}
    for part in read_parts(paths):
        parts.setdefault(f"{part['method']}/{part['table']}", {})[part["split"]] = part
    plan, done = cells(options), {}
    for cell in plan:
        found = parts.get(cell.key, {})
        whole = [found[seed] for seed in itertools.takewhile(found.__contains__, range(SPLITS))]
        if not whole:
            continue
        why = next(((key, part[key]) for part in whole for key in ("unfit", "failed") if key in part), None)
        names = [key for key in whole[0] if key not in ("method", "table", "split")]
        told: dict[str, Any] = dict([why]) if why else {key: [part[key] for part in whole] for key in names}
        seconds = sum(sum(told.get(key, [])) for key in ("fit_s", "predict_s"))
        settings = {"splits": len(whole)}
        done[cell.key] = records.entry(cell._replace(settings=settings), told, seconds, options)
    return records.write(EXPERIMENT, options, plan, done, folder)


EXPERIMENT = Experiment(
    name="tables",
    title="Real tables, ours and others as they come",
    minutes=1000,
    cells=cells,
    section=section,
    figure=figure,
    headline=headline,
    page=page,
    search=True,
    in_parts=True,
)
