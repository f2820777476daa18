"""The settings of `links`, and how the variance is used, by search on documents that no split by documents tests.

Every method has twenty settings (`link_grids`); each learns from the words of all documents, for 30 to 150 epochs.
The documents on which all of the reported splits train are cut anew, twice: a fifth is held out, and the links of its
documents to the others are to be found. One network may have had luck, so that the two settings with the least rank
learn again with another seed. The one with the lesser rank then wins, and of its codes the use of the variance, and the
view of means alone, with the least.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from npn_studies.baselines.document_codes import DocumentCodes
from npn_studies.datasets import Documents, node_split
from npn_studies.experiments.experiment import Cell, Experiment, Options, Progress, Record
from npn_studies.experiments.link_grids import FINALS, GRIDS
from npn_studies.experiments.link_methods import (
    MEANS,
    METHODS,
    PRODUCTS,
    TRIED,
    TRIED_MEANS,
    USES,
    Setting,
    View,
    prepared,
)
from npn_studies.experiments.link_settings import EPOCHS, Choice
from npn_studies.experiments.links import (
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
from npn_studies.experiments.links_page import LABELS
from npn_studies.experiments.tables import rounded, table

SEED = 100  # of networks and negatives; none of those that are reported
FINAL, FINAL_SEED = "final", 101
CUTS = (100, 101)
QUICK_USES = USES[0], USES[-1]


def validation(count: int, links: Array) -> list[Task]:
    """Cuts of the documents that every reported split trains on."""
    known = functools.reduce(np.intersect1d, (node_split(count, seed).train for seed in range(SEEDS)))
    cuts = [node_split(len(known), seed) for seed in CUTS]
    return [between_nodes(links, known[cut.train], known[cut.test]) for cut in cuts]


def cells(options: Options) -> list[Cell]:
    """One for each data set, method and setting; then for the best settings one for each seed."""

    def planned(place: str, name: str, key: str, changes: Setting, seed: int, views: Sequence[View]) -> Cell:
        settings = prepared(METHODS[key], {"epochs": EPOCHS} | changes, seed, options.device, options.quick)

        def run(progress: Progress) -> dict[str, Any]:
            return figures(documents(name, options.quick), key, settings, seed, views, options, progress)

        about = {"changes": changes, "seed": seed, "cuts": list(CUTS), "views": [view.label for view in views]}
        return Cell(place, {**told(settings), **about}, run)

    def trial(name: str, key: str, number: int) -> Cell:
        uses = (TRIED[:2] if options.quick else TRIED) if METHODS[key].second_order else ()
        views = (*TRIED_MEANS, *uses)
        return planned(f"{name}/{key}/{number}", name, key, grids[name][key][number - 1], SEED, views)

    def final(name: str, key: str, number: int) -> Cell:
        uses = (QUICK_USES if options.quick else USES) if METHODS[key].second_order else ()
        place, changes = f"{name}/{key}/{FINAL}/{number}", grids[name][key][number - 1]
        return planned(place, name, key, changes, FINAL_SEED, (*MEANS, *uses))

    whose = dict.fromkeys(QUICK_DATA, "citeulike-t") if options.quick else {name: name for name in GRIDS}
    grids = {name: GRIDS[other] for name, other in whose.items()}
    finals = {name: FINALS[other] for name, other in whose.items()}
    shown = 1 if options.quick else None
    return [
        *(
            trial(name, key, number)
            for name, by_method in grids.items()
            for key, grid in by_method.items()
            for number in range(1, len(grid[:shown]) + 1)
        ),
        *(
            final(name, key, number)
            for name, by_method in finals.items()
            for key, numbers in by_method.items()
            for number in numbers[:shown]
        ),
    ]


def figures(
    data: Documents,
    key: str,
    settings: DocumentCodes,
    seed: int,
    views: Sequence[View],
    options: Options,
    progress: Progress,
) -> dict[str, Any]:
    """Rank and AUC by view, means over the cuts, and what learning cost."""
    codes, cost = learnt(settings, data.counts, options.device)
    judged, cuts = judge(data, key, seed, options), validation(data.counts.shape[0], data.links)
    found: dict[str, dict[str, float]] = {"rank": {}, "auc": {}}
    for number, view in enumerate(views, start=1):
        qualities = [judged.found(codes, view, task) for task in cuts]
        found["rank"][view.label] = rounded(float(np.mean([one.rank for one in qualities])))
        found["auc"][view.label] = rounded(float(np.mean([one.auc for one in qualities])))
        progress(number / len(views))
    return {**found, "seconds_per_epoch": cost.seconds, "peak_bytes": cost.peak_bytes}


Ranks = dict[str, float]  # by view


class Trial(NamedTuple):
    """A setting, and the ranks that it gave.

    Attributes:
        number: In its grid, from one.
        changes: The setting.
        ranks: By view.
    """

    number: int
    changes: Setting
    ranks: Ranks

    @property
    def least(self) -> float:
        """The least rank of means and of all uses of the variance; but products alone are only shown."""
        return min(rank for label, rank in self.ranks.items() if label != PRODUCTS.label)


def trials(record: Record, name: str, key: str) -> list[Trial]:
    """All settings of a data set and method, the least rank first."""
    return _under(record, f"{name}/{key}")


def finals(record: Record, name: str, key: str) -> list[Trial]:
    """The best settings with another seed and all views, the least rank first."""
    return _under(record, f"{name}/{key}/{FINAL}")


def _under(record: Record, place: str) -> list[Trial]:
    parted = ((*key.rpartition("/")[::2], cell) for key, cell in record["cells"].items())
    every = [
        Trial(int(last), cell["settings"]["changes"], cell["figures"]["rank"])
        for first, last, cell in parted
        if first == place
    ]
    return sorted(every, key=lambda trial: trial.least)


def best(record: Record, name: str, key: str) -> Choice:
    """What won the final."""
    won = finals(record, name, key)[0]
    mean = best_view(MEANS, won.ranks)
    assert mean is not None
    return Choice(won.changes, best_view(USES, won.ranks), mean)


def best_view(views: Sequence[View], ranks: Ranks) -> View | None:
    """That with the least rank; None where there are none."""
    return min((view for view in views if view.label in ranks), key=lambda view: ranks[view.label], default=None)


def section(record: Record) -> str:
    """The finals, and the ranks of every use of the winners' variances."""
    names = {place.partition("/")[0] for place in record["cells"]}
    parts = [
        "Settings for `links`: codes are learnt from the words of all documents; of the documents that every "
        "reported split by documents trains on, a fifth is held out, twice. Ranks are means over both cuts, and "
        "smaller than those of `links`, because there are fewer documents. Of the settings tried with one seed, the "
        "best two learnt again with another, and the lesser rank decides. Test links of the split by links may be "
        "among them. Some sixty more networks, most of them Gaussian, were looked at on the same documents to see "
        "where to search: twenty is what the record has."
    ]
    for name in sorted(names):
        lasts = {key: found for key in METHODS if (found := finals(record, name, key))}
        rows = [
            _row(METHODS[key].label, trial, len(trials(record, name, key))) for key in lasts for trial in lasts[key]
        ]
        head = ["method", "changed", "use of the variance", "tried", "rank, mean", "with variance"]
        parts += [f"### Settings, {LABELS[name]}", table(head, rows, words=3)]
        won = {key: found[0].ranks for key, found in lasts.items() if METHODS[key].second_order}
        parts += [f"### Uses of the variance on validation, {LABELS[name]}", _uses(won)]
    return "\n\n".join(parts)


def _row(label: str, trial: Trial, tried: int) -> list[str]:
    changed = ", ".join(f"{setting} {value}" for setting, value in trial.changes.items())
    mean, use = best_view(MEANS, trial.ranks), best_view(USES, trial.ranks)
    assert mean is not None
    of_use = ["–", "–"] if use is None else [use.label, f"{trial.ranks[use.label]:.1f}"]
    return [label, changed or "as they were", of_use[0], str(tried), f"{trial.ranks[mean.label]:.1f}", of_use[1]]


def _uses(ranks: dict[str, Ranks]) -> str:
    rows = [
        [view.label, *(f"{found[view.label]:.1f}" for found in ranks.values())]
        for view in (*MEANS, *USES)
        if all(view.label in found for found in ranks.values())
    ]
    return table(["", *(METHODS[key].label for key in ranks)], rows)


EXPERIMENT = Experiment(
    name="links_search",
    title="Settings for links, on validation documents",
    place="Table 4, supplement",
    data=tuple(GRIDS),
    quick_data=QUICK_DATA,
    minutes=100,
    cells=cells,
    section=section,
    search=True,
    in_parts=True,
)
