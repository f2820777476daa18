"""What the default of `NPNRegressor` was chosen by: cuts of training rows; no test row of `uci` is looked at."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from npn_studies.experiments.experiment import Cell, Experiment, Options, Progress, Record
from npn_studies.experiments.tables import Summary, table
from npn_studies.experiments.uci import QUICK_SETS, SETS, Task, judged, members

SPLITS = 5  # the first ones
HELD_OUT = 0.1
VARIANTS: dict[str, dict[str, Any]] = {  # what is set otherwise than by default
    "default": {},
    "constant noise": {"noise": "constant"},
    "50 units": {"hidden": [50]},
    "half the steps": {"max_epochs": 221},
}
LARGE = ("protein",)  # where alone the last two differ from the default


def cut(task: Task, seed: int = 0) -> Task:
    """A tenth of each split's training rows takes the place of its test rows; units stay as they are."""
    splits, rows = task.x.shape[:2]
    order = torch.rand(splits, rows, generator=torch.Generator().manual_seed(seed)).argsort(1)
    held_out = round(HELD_OUT * rows)

    def parted(part: Tensor) -> tuple[Tensor, Tensor]:
        shuffled = part[torch.arange(splits)[:, None], order]
        return shuffled[:, :held_out], shuffled[:, held_out:]

    (x_out, x), (y_out, y) = parted(task.x), parted(task.y)
    return Task(x, y, x_out, y_out.double(), task.scale)


def cells(options: Options) -> list[Cell]:
    """One for each variant and table."""
    splits = options.seeds or (1 if options.quick else SPLITS)

    def planned(variant: str, name: str) -> Cell:
        settings = {**VARIANTS[variant], **({"max_epochs": 4} if options.quick else {})}

        def run(progress: Progress) -> dict[str, Any]:
            task = cut(Task.of(name, splits))
            predicted, seconds = members(task, {**settings, "device": str(options.device)}, 1, progress)
            return {**judged(predicted, task.y_test, task.scale), "seconds_a_fit": seconds}

        return Cell(f"{variant}/{name}", {**settings, "splits": splits}, run)

    names = QUICK_SETS if options.quick else SETS
    everywhere, large = list(VARIANTS)[:2], list(VARIANTS)[2:]
    return [planned(variant, name) for name in names for variant in everywhere + (large if name in LARGE else [])]


def section(record: Record) -> str:
    """A row for each table and variant."""
    rows = []
    for key, cell in record["cells"].items():
        variant, _, name = key.partition("/")
        figures = cell["figures"]
        rows.append([name, variant, *(str(Summary.of(figures[metric])) for metric in ("rmse", "log_likelihood"))])
    return "A tenth of the training rows of the first splits, held out: mean ± standard error over splits.\n\n" + table(
        ["", "variant", "RMSE", "log-likelihood"], rows, words=2
    )


EXPERIMENT = Experiment(
    name="uci_search",
    title="Noise, units and steps of the default regressor, on cuts of training rows",
    place="for uci",
    data=SETS,
    quick_data=QUICK_SETS,
    minutes=3,
    cells=cells,
    section=section,
    search=True,
)
