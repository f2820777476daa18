"""The settings of the MNIST experiments, by search on 10,000 training images that no network sees.

A method has several grids, a later one near the best of those before, the last against an adversary: of the first two,
32 settings each, all learn for 50 epochs and the best four for 200. NPN and dropout have two more of 16, all of whose
settings learn for 200 epochs; Bayes by Backprop and dark knowledge, for which 200 are hardly better than 50, one of 28
like the first two: as many trials. The gamma network, which is slow, has a small grid alone. Settings are judged by
error in percent + 10 NLL. One trial has luck or none, so that some learn again with five seeds, and the best mean is
what `mnist` runs: of NPN and of dropout the three best before the adversaries and the three best with them, of Bayes by
Backprop and of dark knowledge the three best of 50 epochs and the three best of 200. Of the gamma network it is the
best of the long trials. The NPN is asked with masks and without.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from npn_studies.experiments.digit_grids import FINALS, GRIDS, LONG, ROUNDS, Grid, settings_of
from npn_studies.experiments.digit_methods import METHODS, Setting, Work
from npn_studies.experiments.digits import digits, judged
from npn_studies.experiments.experiment import Cell, Experiment, Options, Progress, Record
from npn_studies.experiments.tables import Summary, table

SEED = 100  # none of those that are reported
FINAL, FINAL_SEEDS = "final", 5


def score(error: float, nll: float | None) -> float:
    """What the search makes small; a network that diverged has no NLL, and comes last."""
    return math.inf if nll is None else error + 10 * nll


def cells(options: Options) -> list[Cell]:
    """One for each method and grid."""

    def planned(name: str, number: int, grid: Grid) -> Cell:
        rounds = ((2, 1), (1, 1)) if options.quick else ROUNDS[name][number - 1]
        candidates = settings_of(grid)
        if options.quick:
            candidates = [one | {"hidden": [16, 16]} for one in candidates]

        def run(progress: Progress) -> dict[str, Any]:
            return {"trials": searched(name, candidates, rounds, options, progress)}

        told = {key: [list(v) if isinstance(v, tuple) else v for v in values] for key, values in grid.items()}
        return Cell(f"{name}/{number}", {"grid": told, "rounds": [list(r) for r in rounds]}, run)

    def final(name: str, number: int, grids: Sequence[Grid]) -> Cell:
        usual: Setting = {"epochs": LONG}
        candidates = [usual | one for grid in grids for one in settings_of(grid)]
        if options.quick:
            candidates = [one | {"hidden": [16, 16], "epochs": 1} for one in candidates[:2]]
        seeds = 2 if options.quick else FINAL_SEEDS

        def run(progress: Progress) -> dict[str, Any]:
            return {"finals": finals(name, candidates, seeds, options)}

        return Cell(f"{name}/{FINAL}/{number}", {"candidates": candidates, "seeds": seeds, "seed": SEED}, run)

    grids = [planned(name, k, grid) for name, grids in GRIDS.items() for k, grid in enumerate(grids, start=1)]
    return grids + [final(name, k, rounds) for name in FINALS for k, rounds in enumerate(FINALS[name], start=1)]


def searched(
    name: str, candidates: Sequence[Setting], rounds: Sequence[tuple[int, int]], options: Options, progress: Progress
) -> list[dict[str, Any]]:
    """All trials of all rounds; each round takes the best of the one before."""
    data = digits(options.device)
    images, validation = (
        data.train.first(200 if options.quick else None),
        data.validation.first(500 if options.quick else None),
    )
    trials: list[dict[str, Any]] = []
    for number, (count, epochs) in enumerate(rounds, start=1):
        candidates = [one | {"epochs": epochs} for one in candidates[:count]]
        (answer,) = METHODS[name].answers(
            Work(images, None, SEED, options.device, again=True), candidates, validation.x
        )
        found = judged(answer.probs, validation.y)
        these: list[dict[str, Any]] = [
            {"round": number, "settings": one, **{key: found[key][i] for key in found}}
            for i, one in enumerate(candidates)
        ]
        these.sort(key=lambda trial: score(trial["error"], trial["nll"]))
        candidates = [trial["settings"] for trial in these]
        trials += these
        progress(number / len(rounds))
    return trials


def finals(name: str, candidates: Sequence[Setting], seeds: int, options: Options) -> list[dict[str, Any]]:
    """Every setting with its figures for each seed."""
    data = digits(options.device)
    images, validation = (
        data.train.first(200 if options.quick else None),
        data.validation.first(500 if options.quick else None),
    )
    every = [one for one in candidates for _ in range(seeds)]
    (answer,) = METHODS[name].answers(Work(images, None, SEED, options.device, again=True), every, validation.x)
    found = judged(answer.probs, validation.y)
    return [
        {"settings": one, **{key: values[i * seeds : (i + 1) * seeds] for key, values in found.items()}}
        for i, one in enumerate(candidates)
    ]


def trials_of(record: Record, name: str) -> list[dict[str, Any]]:
    """All trials of a method."""
    found = [
        cell["figures"].get("trials", []) for key, cell in record["cells"].items() if key.partition("/")[0] == name
    ]
    return [trial for trials in found for trial in trials]


def winner(trials: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The best of those that learnt longest."""
    longest = max(trial["settings"]["epochs"] for trial in trials)
    finalists = [trial for trial in trials if trial["settings"]["epochs"] == longest]
    return min(finalists, key=lambda trial: score(trial["error"], trial["nll"]))


def best(record: Record, name: str, adversary: bool = True) -> Setting:
    """The settings of the best mean of the finals, or of the winner where there are none; with an adversary or not."""

    def allowed(trials: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return [trial for trial in trials if adversary or "adversarial" not in trial["settings"]]

    lasts = allowed(finals_of(record, name))
    won = min(lasts, key=_sum) if lasts else winner(allowed(trials_of(record, name)))
    setting: Setting = won["settings"]
    return setting


def finals_of(record: Record, name: str) -> list[dict[str, Any]]:
    """What a method's best settings gave with several seeds."""
    cells = (cell for key, cell in record["cells"].items() if key.startswith(f"{name}/{FINAL}"))
    return [trial for cell in cells for trial in cell["figures"]["finals"]]


def _sum(trial: dict[str, Any]) -> float:
    return sum(map(score, trial["error"], trial["nll"]))


def section(record: Record) -> str:
    """The winners, and how many were tried; the finals."""
    rows = []
    for name in GRIDS:
        if trials := trials_of(record, name):
            won = winner(trials)
            count = str(trained(trials))
            rows.append(
                [METHODS[name].label, named(won["settings"]), count, f"{won['error']:.2f}", f"{won['nll']:.4f}"]
            )
    parts = [table(["method", "best settings", "trials", "validation error, %", "validation NLL"], rows, words=2)]
    finals = [
        [METHODS[name].label, named(one["settings"]), *(str(Summary.of(one[key])) for key in ("error", "nll"))]
        for name in FINALS
        for one in finals_of(record, name)
    ]
    if finals:
        parts.append(f"Three of the best again, with {FINAL_SEEDS} seeds; the mean of error + 10 NLL decides:")
        parts.append(table(["method", "settings", "validation error, %", "validation NLL"], finals, words=2))
    return "\n\n".join(parts)


def named(setting: Setting) -> str:
    """Settings for a table."""
    hidden = "hidden", "batch_size", "samples"
    numbers = {key: f"{value:g}" if isinstance(value, float) else value for key, value in setting.items()}
    return ", ".join(f"{key} {value}" for key, value in numbers.items() if key not in hidden)


def trained(trials: Sequence[dict[str, Any]]) -> int:
    """How many ways of training these are: one whose network is asked with masks and without counts once."""
    return len({str(sorted((k, str(v)) for k, v in trial["settings"].items() if k != "masks")) for trial in trials})


EXPERIMENT = Experiment(
    name="mnist_search",
    title="Settings for MNIST, on validation images",
    place="supplement",
    data=("mnist",),
    minutes=59,
    cells=cells,
    section=section,
    search=True,
)
