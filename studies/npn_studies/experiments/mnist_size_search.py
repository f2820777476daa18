"""The settings of `mnist_size`, by search on 10,000 images that no network sees and on subsets that are not reported.

For each size every method has two grids of 16 settings, the second near the best of the first, and 20 settings more
near the best of both, each on two subsets; the best by the mean of error in percent + 10 NLL. The best NPN is asked
with masks of its units, too. The 20 learn against adversaries, but for those of dropout alone, which is to be what the
paper compares with; of NPN and dropout with weight decay they are two grids, of 12 and 8, the last with more decay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npn_studies.experiments.digit_grids import Grid, settings_of
from npn_studies.experiments.digit_methods import METHODS, Setting, Work
from npn_studies.experiments.digit_settings import STEPS, training
from npn_studies.experiments.digits import digits, judged, subsets
from npn_studies.experiments.experiment import Cell, Experiment, Options, Progress, Record
from npn_studies.experiments.mnist_search import SEED, named, score, trained
from npn_studies.experiments.tables import Summary, table

NUMBERS = range(1000, 1002)  # of the subsets; `mnist_size` reports on 0, 1, …
QUICK_SIZE = 100
RATES = [(0.3, 0.5), (0.4, 0.6), (0.5, 0.5), (0.5, 0.7)]  # of inputs and hidden units
DECAYS = {
    100: (0.1, 0.3, 1.0, 3.0),
    500: (0.3, 1.0, 3.0, 10.0),
    2_000: (0.3, 1.0, 3.0, 10.0),
    10_000: (1.0, 3.0, 10.0, 30.0),
}
NEAR_RATES = {size: [(0.5, 0.5), (0.6, 0.5)] for size in (100, 500, 2_000)} | {10_000: [(0.3, 0.5), (0.4, 0.4)]}
NEAR_DECAYS = {
    100: (0.1, 0.2, 0.4, 0.8),
    500: (0.1, 0.3, 0.6, 1.2),
    2_000: (0.3, 0.6, 1.0, 2.0),
    10_000: (0.5, 1.0, 2.0, 4.0),
}
BEST_NPN = {  # of both grids: rates of inputs and hidden units, decay
    100: (0.6, 0.5, 0.4),
    500: (0.6, 0.5, 0.3),
    2_000: (0.5, 0.5, 0.6),
    10_000: (0.4, 0.4, 2.0),
}
LESS_RATES = {100: (0.4, 0.5), 500: (0.4, 0.5), 2_000: (0.3, 0.4), 10_000: (0.2, 0.3)}  # for an adversary does its part
RADII = (0.5, 1.0, 1.5)  # of the adversary
MORE_DECAYS = {100: (0.6, 0.8), 500: (0.6, 1.2), 2_000: (1.0, 2.0), 10_000: (4.0, 8.0)}
ALONE_RATES = {  # near the best of dropout alone
    100: [(0.5, 0.8), (0.6, 0.7), (0.6, 0.8), (0.7, 0.6), (0.7, 0.7)],
    500: [(0.6, 0.6), (0.6, 0.7), (0.6, 0.8), (0.7, 0.6), (0.7, 0.7)],
    2_000: [(0.5, 0.6), (0.5, 0.7), (0.6, 0.5), (0.6, 0.6), (0.7, 0.6)],
    10_000: [(0.4, 0.5), (0.4, 0.6), (0.5, 0.4), (0.5, 0.5), (0.5, 0.6)],
}
ALONE_SPEEDS = dict.fromkeys(STEPS, (1e-4, 3e-4, 7e-4, 1.5e-3)) | {100: (5e-5, 1e-4, 1.5e-4, 3e-4)}
QUICK: Setting = {"hidden": [16], "epochs": 2}


def grids(size: int) -> dict[str, tuple[Grid, ...]]:
    """For so many images. The decay of weights is λ for dropout, and for the NPN its precision times the KL's weight.

    The NPN's second grid has tighter priors, for the first pulls the weights' variances up: with up to 2,000 images its
    least decay was best. A step of SGLD is measured by 1/size, for the slope of the posterior grows with the size.
    """
    rates, decays = NEAR_RATES[size], NEAR_DECAYS[size]
    *best_rates, best_decay = BEST_NPN[size]
    against = {"rates": [tuple(best_rates), LESS_RATES[size]], "adversarial": RADII}
    return {
        "npn": (
            {"rates": RATES, "strength": _strengths(100.0 if size < 10_000 else 1000.0, DECAYS[size])},
            {"rates": rates, "strength": _strengths(1000.0, decays) + _strengths(10_000.0, decays)},
            {"rates": [tuple(best_rates)], "strength": _strengths(10_000.0, [best_decay]), "masks": [False, True]},
            {**against, "strength": _strengths(10_000.0, [best_decay / 2, best_decay]), "masks": [False, True]},
            {
                **against,
                "adversarial": RADII[1:],
                "strength": _strengths(10_000.0, MORE_DECAYS[size]),
                "masks": [False, True],
            },
        ),
        "dropout": (
            {"rates": RATES, "prior_precision": DECAYS[size]},
            {"rates": rates, "prior_precision": decays, "learning_rate": [0.0005, 0.002]},
            {**against, "prior_precision": [best_decay / 2, best_decay]},
            {**against, "adversarial": RADII[1:], "prior_precision": MORE_DECAYS[size]},
        ),
        "dropout_alone": (
            {"rates": RATES, "prior_precision": [0.0], "learning_rate": [0.0003, 0.001, 0.002, 0.003]},
            {
                "rates": [(0.5, 0.7), (0.5, 0.8), (0.6, 0.6), (0.6, 0.7)],
                "prior_precision": [0.0],
                "learning_rate": [0.0002, 0.0005, 0.001, 0.002],
            },
            {
                "rates": ALONE_RATES[size],
                "prior_precision": [0.0],
                "learning_rate": ALONE_SPEEDS[size],
            },
        ),
        "bdk": (
            {
                "step_size": [share / size for share in (0.05, 0.1, 0.2, 0.4)],
                "prior_precision": [3.0, 10.0],
                "input_noise": [0.03, 0.1],
            },
            {
                "step_size": [share / size for share in (0.1, 0.2, 0.3, 0.4)],
                "prior_precision": [10.0, 30.0],
                "input_noise": [0.003, 0.01],
            },
            {
                "step_size": [share / size for share in (0.1, 0.15, 0.2, 0.3, 0.4)],
                "prior_precision": [10.0],
                "input_noise": [0.01],
                "adversarial": [0.5, 1.0, 1.5, 2.0],
            },
        ),
    }


def _strengths(precision: float, decays: Sequence[float]) -> list[tuple[float, float]]:
    """Precision of the prior and weight of the KL, for decays of the means."""
    return [(precision, decay / precision) for decay in decays]


def cells(options: Options) -> list[Cell]:
    """One for each size, method and grid."""

    def planned(size: int, name: str, number: int, grid: Grid) -> Cell:
        candidates = [one | training(size) for one in settings_of(grid)]
        if options.quick:
            candidates = [one | QUICK for one in candidates[:2]]

        def run(progress: Progress) -> dict[str, Any]:
            return {"trials": trials(name, size, candidates, options)}

        about = {"candidates": candidates, "subsets": list(NUMBERS), "seed": SEED}
        return Cell(f"{name}/{size}/{number}", about, run)

    sizes = [QUICK_SIZE] if options.quick else list(STEPS)
    return [
        planned(size, name, number, grid)
        for size in sizes
        for name, of_method in grids(size).items()
        for number, grid in enumerate(of_method, start=1)
    ]


def trials(name: str, size: int, candidates: Sequence[Setting], options: Options) -> list[dict[str, Any]]:
    """Every setting with its figures on each subset; all are trained side by side."""
    data = digits(options.device)
    validation = data.validation.first(500 if options.quick else None)
    rows = subsets(size, NUMBERS).repeat(len(candidates), 1)
    settings = [one for one in candidates for _ in NUMBERS]
    (answer,) = METHODS[name].answers(Work(data.train, rows, SEED, options.device, again=True), settings, validation.x)
    found = judged(answer.probs, validation.y)
    count = len(NUMBERS)
    return [
        {"settings": one, **{key: values[i * count : (i + 1) * count] for key, values in found.items()}}
        for i, one in enumerate(candidates)
    ]


def trials_of(record: Record, name: str, size: int) -> list[dict[str, Any]]:
    """Those of all grids of a method."""
    found = [cell["figures"]["trials"] for key, cell in record["cells"].items() if key.startswith(f"{name}/{size}/")]
    return [trial for trials in found for trial in trials]


def winner(record: Record, name: str, size: int) -> dict[str, Any]:
    """The trial with the least mean score over its subsets, of those that were asked with masks and without, if any."""
    trials = trials_of(record, name, size)
    return min([trial for trial in trials if "masks" in trial["settings"]] or trials, key=_sum)


def _sum(trial: dict[str, Any]) -> float:
    return sum(map(score, trial["error"], trial["nll"]))


def best(record: Record, name: str, size: int) -> Setting:
    """The settings of the winner."""
    setting: Setting = winner(record, name, size)["settings"]
    return setting


def section(record: Record) -> str:
    """The winners."""
    rows = []
    for name, size in dict.fromkeys(tuple(key.split("/")[:2]) for key in record["cells"]):
        won = winner(record, name, int(size))
        told = named({key: value for key, value in won["settings"].items() if key != "epochs"})
        means = Summary.of(won["error"]).mean, Summary.of(won["nll"]).mean
        count = trained(trials_of(record, name, int(size)))
        rows.append([f"{int(size):,}", METHODS[name].label, told, str(count), f"{means[0]:.2f}", f"{means[1]:.3f}"])
    head = ["images", "method", "best settings", "tried", "validation error, %", "validation NLL"]
    return "\n\n".join(
        [
            f"Settings for `mnist_size`: each on {len(NUMBERS)} subsets that it does not report, judged on the 10,000 "
            "validation images by the mean of error + 10 NLL. Steps and batch are the same for all methods.",
            table(head, rows, words=3),
        ]
    )


EXPERIMENT = Experiment(
    name="mnist_size_search",
    title="Settings for small training sets, on validation images",
    place="Table 3",
    data=("mnist",),
    minutes=25,
    cells=cells,
    section=section,
    search=True,
)
