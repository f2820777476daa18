"""The settings of `links`, and how the variance is used, by search on documents that no split by documents tests.

Every method has sixteen settings (`link_grids`), the Poisson network eighteen; each learns from the words of all
documents, for 30 epochs or for 60, once for 90.
The documents on which all of the reported splits train are cut anew, twice: a fifth is held out, and the links of its
documents to the others are to be found. The setting with the least mean rank wins, and of its codes the use of the
variance with the least.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from torchnpn.datasets.splits import node_split
from torchnpn.experiments.experiment import Cell, Experiment, Options, Progress, Record
from torchnpn.experiments.link_grids import GRIDS
from torchnpn.experiments.link_methods import MEAN, METHODS, PRODUCTS, USES, Setting, View, prepared
from torchnpn.experiments.link_settings import EPOCHS, Choice
from torchnpn.experiments.links import (
    QUICK_DATA,
    SEEDS,
    Array,
    Task,
    between_nodes,
    documents,
    judge,
    learnt,
    told,
)
from torchnpn.experiments.links_page import DATA
from torchnpn.experiments.tables import rounded, table

SEED = 100  # of networks and negatives; none of those that are reported
CUTS = (100, 101)
QUICK_USES = USES[0], USES[3]


def validation(count: int, links: Array) -> list[Task]:
    """Cuts of the documents that every reported split trains on."""
    known = functools.reduce(np.intersect1d, (node_split(count, seed).train for seed in range(SEEDS)))
    cuts = [node_split(len(known), seed) for seed in CUTS]
    return [between_nodes(links, known[cut.train], known[cut.test]) for cut in cuts]


def cells(options: Options) -> list[Cell]:
    """One for each data set, method and setting."""

    def planned(name: str, key: str, number: int, changes: Setting) -> Cell:
        settings = prepared(METHODS[key], {"epochs": EPOCHS} | changes, SEED, options.device, options.quick)
        uses = (QUICK_USES if options.quick else USES) if METHODS[key].second_order else ()

        def run(progress: Progress) -> dict[str, Any]:
            data = documents(name, options.quick)
            codes, cost = learnt(settings, data.counts, options.device)
            judged, cuts = judge(data, key, SEED, options), validation(data.counts.shape[0], data.links)
            found: dict[str, dict[str, float]] = {"rank": {}, "auc": {}}
            for number, view in enumerate((MEAN, PRODUCTS, *uses), start=1):
                qualities = [judged.found(codes, view, task) for task in cuts]
                found["rank"][view.label] = rounded(float(np.mean([one.rank for one in qualities])))
                found["auc"][view.label] = rounded(float(np.mean([one.auc for one in qualities])))
                progress(number / (2 + len(uses)))
            return {**found, "seconds_per_epoch": cost.seconds, "peak_bytes": cost.peak_bytes}

        about = {"changes": changes, "seed": SEED, "cuts": list(CUTS), "uses": [view.label for view in uses]}
        return Cell(f"{name}/{key}/{number}", {**told(settings), **about}, run)

    grids = dict.fromkeys(QUICK_DATA, GRIDS["citeulike-t"]) if options.quick else GRIDS
    shown = 1 if options.quick else None
    return [
        planned(name, key, number, changes)
        for name, by_method in grids.items()
        for key, grid in by_method.items()
        for number, changes in enumerate(grid[:shown], start=1)
    ]


def trials(record: Record, name: str, key: str) -> list[dict[str, Any]]:
    """All cells of a data set and method, the least rank first."""
    found = [cell for place, cell in record["cells"].items() if place.rpartition("/")[0] == f"{name}/{key}"]
    return sorted(found, key=lambda cell: least(cell["figures"]["rank"]))


def least(ranks: dict[str, float]) -> float:
    """The least rank of centred means and of all uses of the variance."""
    return min(ranks[view.label] for view in (MEAN, *USES) if view.label in ranks)


def best_use(ranks: dict[str, float]) -> View | None:
    """The use of the variance with the least rank, or None where there is no variance."""
    return min((view for view in USES if view.label in ranks), key=lambda view: ranks[view.label], default=None)


def best(record: Record, name: str, key: str) -> Choice:
    """What won."""
    won = trials(record, name, key)[0]
    return Choice(won["settings"]["changes"], best_use(won["figures"]["rank"]))


def section(record: Record) -> str:
    """The winners, and the ranks of every use of their variances."""
    names = {place.partition("/")[0] for place in record["cells"]}
    parts = [
        "Settings for `links`: codes are learnt from the words of all documents; of the documents that every reported "
        "split by documents trains on, a fifth is held out, twice. Ranks are means over both cuts, and smaller than "
        "those of `links`, because there are fewer documents. Test links of the split by links may be among those "
        "seen here."
    ]
    for name in sorted(names):
        won = {key: found[0] for key in METHODS if (found := trials(record, name, key))}
        rows = []
        for key, cell in won.items():
            changed = ", ".join(f"{setting} {value}" for setting, value in cell["settings"]["changes"].items())
            figures = cell["figures"]
            use = best_use(figures["rank"])
            rows.append(
                [
                    METHODS[key].label,
                    changed or "as they were",
                    "–" if use is None else use.label,
                    str(len(trials(record, name, key))),
                    f"{figures['rank'][MEAN.label]:.1f}",
                    "–" if use is None else f"{figures['rank'][use.label]:.1f}",
                    f"{figures['seconds_per_epoch']:.3f}",
                ]
            )
        head = ["method", "changed", "use of the variance", "tried", "rank, mean", "with variance", "s per epoch"]
        parts += [f"### Settings, {DATA[name]}", table(head, rows, words=3)]
        parts += [f"### Uses of the variance on validation, {DATA[name]}", _uses(won)]
    return "\n\n".join(parts)


def _uses(won: dict[str, dict[str, Any]]) -> str:
    ranks = {key: cell["figures"]["rank"] for key, cell in won.items() if METHODS[key].second_order}
    rows = [
        [view.label, *(f"{found[view.label]:.1f}" for found in ranks.values())]
        for view in (PRODUCTS, MEAN, *USES)
        if all(view.label in found for found in ranks.values())
    ]
    return table(["", *(METHODS[key].label for key in ranks)], rows)


EXPERIMENT = Experiment(
    name="links_search",
    title="Settings for links, on validation documents",
    place="Table 3, supplement",
    data=tuple(GRIDS),
    quick_data=QUICK_DATA,
    minutes=82,
    cells=cells,
    section=section,
    search=True,
    in_parts=True,
)
