"""The settings of the MNIST experiments, by search on 10,000 training images that no network sees.

A method has up to three grids, a later one near the best of those before: of the first two, 32 settings each, all learn
for 50 epochs and the best four for 200; the 16 of the third learn for 200. `GRIDS` says who has how many: Bayes by
Backprop and dark knowledge have one so far, and the gamma network, which is slow, a small one. The best NPN then learns
once more, and is asked with masks and without. The best of the long ones is what `mnist` runs. Settings are judged by
error in percent + 10 NLL.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from torchnpn.experiments.digit_methods import METHODS, Setting, Work
from torchnpn.experiments.digits import digits, judged
from torchnpn.experiments.experiment import Cell, Experiment, Options, Progress, Record
from torchnpn.experiments.tables import table

COMMON: Setting = {"hidden": [800, 800], "batch_size": 128, "learning_rate": 0.001}
ROUNDS = ((32, 50), (4, 200)), ((32, 50), (4, 200)), ((16, 200),), ((2, 200),)  # of each grid: settings and epochs
GAMMA_ROUNDS = (8, 30), (2, 100)  # a step of its network takes ten times as long
SEED = 100  # none of those that are reported
Grid = dict[str, Sequence[Any]]
GRIDS: dict[str, tuple[Grid, ...]] = {
    "npn": (
        {
            "rates": [(0.2, 0.3), (0.2, 0.5), (0.3, 0.4), (0.4, 0.5)],
            "prior_precision": [100.0, 1000.0],
            "kl_weight": [3e-4, 1e-3, 3e-3, 1e-2],
        },
        {
            "rates": [(0.2, 0.3), (0.3, 0.3)],
            "prior_precision": [None, 3000.0],
            "kl_weight": [1e-3, 3e-3, 1e-2, 3e-2],
            "learning_rate": [0.001, 0.0005],
        },
        {
            "rates": [(0.2, 0.3)],
            "learning_rate": [0.0003],
            "initial_std": [0.05, 0.3],
            "strength": [
                *((3_000.0, kl_weight) for kl_weight in (1e-3, 3e-3, 1e-2, 2e-2)),
                *((10_000.0, kl_weight) for kl_weight in (3e-4, 1e-3, 3e-3, 6e-3)),
            ],
        },
        {
            "rates": [(0.2, 0.3)],
            "learning_rate": [0.0003],
            "initial_std": [0.05],
            "strength": [(3_000.0, 1e-3)],
            "masks": [False, True],
        },
    ),
    "gamma": (
        {
            "rates": [(0.2, 0.3), (0.2, 0.5)],
            "prior_precision": [1.0],
            "kl_weight": [0.0],
            "learning_rate": [0.003, 0.01, 0.02, 0.05],
            "gains": [[10.0, 10.0, 50.0]],
        },
    ),
    "dropout": (
        {
            "rates": list(itertools.product([0.0, 0.1, 0.2, 0.3], [0.2, 0.3, 0.4, 0.5])),
            "prior_precision": [0.0, 1.0],
        },
        {
            "rates": [(0.2, 0.3), (0.3, 0.2), (0.3, 0.3), (0.3, 0.4)],
            "prior_precision": [3.0, 10.0],
            "learning_rate": [0.0003, 0.0005, 0.001, 0.002],
        },
        {
            "rates": [(0.1, 0.3), (0.2, 0.2), (0.2, 0.3), (0.2, 0.4)],
            "prior_precision": [5.0, 10.0, 20.0, 30.0],
            "learning_rate": [0.0003],
        },
    ),
    "bbb": (
        {
            "prior": ["gaussian", "mixture"],
            "prior_std": [0.1, 1.0],
            "kl_weight": [0.01, 0.1, 0.3, 1.0],
            "initial_std": [0.01, 0.05],
            "samples": [10],
        },
    ),
    "bdk": (
        {
            "step_size": [5e-7, 2e-6, 4e-6, 1e-5],
            "prior_precision": [1.0, 10.0],
            "input_noise": [0.01, 0.1],
            "learning_rate": [0.001, 0.003],
        },
    ),
}


def settings_of(grid: Grid) -> list[Setting]:
    """All combinations of a grid."""
    return [COMMON | _named(dict(zip(grid, values, strict=True))) for values in itertools.product(*grid.values())]


PAIRS = {"rates": ("input_rate", "rate"), "strength": ("prior_precision", "kl_weight")}  # that vary together


def _named(setting: Setting) -> Setting:
    """Pairs by their two names."""
    for pair, names in PAIRS.items():
        if pair in setting:
            setting |= zip(names, setting.pop(pair), strict=True)
    return setting


def score(error: float, nll: float | None) -> float:
    """What the search makes small; a network that diverged has no NLL, and comes last."""
    return math.inf if nll is None else error + 10 * nll


def cells(options: Options) -> list[Cell]:
    """One for each method and grid."""

    def planned(name: str, number: int, grid: Grid) -> Cell:
        rounds = ((2, 1), (1, 1)) if options.quick else (GAMMA_ROUNDS if name == "gamma" else ROUNDS[number - 1])
        candidates = settings_of(grid)
        if options.quick:
            candidates = [one | {"hidden": [16, 16]} for one in candidates]

        def run(progress: Progress) -> dict[str, Any]:
            return {"trials": searched(name, candidates, rounds, options, progress)}

        told = {key: [list(v) if isinstance(v, tuple) else v for v in values] for key, values in grid.items()}
        return Cell(f"{name}/{number}", {"grid": told, "rounds": [list(r) for r in rounds]}, run)

    return [planned(name, k, grid) for name, grids in GRIDS.items() for k, grid in enumerate(grids, start=1)]


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
        (answer,) = METHODS[name].answers(Work(images, None, SEED, options.device), candidates, validation.x)
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


def trials_of(record: Record, name: str) -> list[dict[str, Any]]:
    """All trials of a method."""
    found = [cell["figures"]["trials"] for key, cell in record["cells"].items() if key.partition("/")[0] == name]
    return [trial for trials in found for trial in trials]


def winner(trials: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The best of those that learnt longest."""
    longest = max(trial["settings"]["epochs"] for trial in trials)
    finalists = [trial for trial in trials if trial["settings"]["epochs"] == longest]
    return min(finalists, key=lambda trial: score(trial["error"], trial["nll"]))


def best(record: Record, name: str) -> Setting:
    """The settings of the winner."""
    setting: Setting = winner(trials_of(record, name))["settings"]
    return setting


def section(record: Record) -> str:
    """The winners, and how many were tried."""
    rows = []
    for name in GRIDS:
        if trials := trials_of(record, name):
            won = winner(trials)
            hidden = "hidden", "batch_size", "samples"
            told = ", ".join(f"{key} {value}" for key, value in won["settings"].items() if key not in hidden)
            rows.append([METHODS[name].label, told, str(len(trials)), f"{won['error']:.2f}", f"{won['nll']:.4f}"])
    return table(["method", "best settings", "trials", "validation error, %", "validation NLL"], rows, words=2)


EXPERIMENT = Experiment(
    "mnist_search",
    "Settings for MNIST, on validation images",
    "supplement",
    ("mnist",),
    13,
    cells,
    section,
    search=True,
)
