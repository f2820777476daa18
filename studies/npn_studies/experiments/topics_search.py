"""The settings of `topics`, by search on a fifth of the training documents that no factorisation sees.

Judged by coherence times diversity: topics that are all the same would be coherent, too.
"""

from __future__ import annotations

from typing import Any

from npn_studies.datasets import node_split
from npn_studies.experiments.experiment import Cell, Experiment, Options, Progress, Record
from npn_studies.experiments.tables import table
from npn_studies.experiments.topics import METHODS, QUICK, QUICK_TOPICS, TOPICS, Setting, Task, found, newsgroups, told

SEED = 100  # none of those that are reported
GRIDS: dict[str, tuple[Setting, ...]] = {  # as many for both
    "gamma": (
        {"loss": "bce", "learning_rate": 0.1, "masking": 0.7, "epochs": 30},
        {"loss": "poisson", "learning_rate": 0.1, "masking": 0.5, "epochs": 30},
        {"loss": "poisson", "learning_rate": 0.3, "masking": 0.5, "epochs": 30},
        {"loss": "poisson", "learning_rate": 0.3, "masking": 0.8, "epochs": 30},
        {"loss": "poisson", "learning_rate": 0.3, "masking": 0.65, "epochs": 60},
        {"loss": "poisson", "learning_rate": 1.0, "masking": 0.65, "epochs": 30},
        {"loss": "poisson", "learning_rate": 0.3, "masking": 0.5, "epochs": 60},
        {"loss": "poisson", "learning_rate": 0.3, "masking": 0.3, "epochs": 60},
        {"loss": "bce", "weights": "tf-idf", "learning_rate": 0.3, "masking": 0.5, "epochs": 30},
        {"loss": "l2", "weights": "tf-idf", "learning_rate": 0.3, "masking": 0.5, "epochs": 30},
        {"loss": "l2", "weights": "tf-idf", "learning_rate": 0.1, "masking": 0.5, "epochs": 60},
        {"loss": "l2", "weights": "tf-idf", "learning_rate": 0.3, "masking": 0.8, "epochs": 60},
    ),
    "nmf": (
        {"loss": "kullback-leibler", "weights": "counts", "iterations": 50},
        {"loss": "kullback-leibler", "weights": "counts", "iterations": 200},
        {"loss": "kullback-leibler", "weights": "tf-idf", "iterations": 50},
        {"loss": "kullback-leibler", "weights": "tf-idf", "iterations": 200},
        {"loss": "frobenius", "weights": "counts", "iterations": 200},
        {"loss": "frobenius", "weights": "tf-idf", "iterations": 200},
        {"loss": "frobenius", "weights": "counts", "iterations": 50},
        {"loss": "frobenius", "weights": "tf-idf", "iterations": 50},
        {"loss": "frobenius", "weights": "counts", "iterations": 20},
        {"loss": "frobenius", "weights": "tf-idf", "iterations": 20},
        {"loss": "kullback-leibler", "weights": "counts", "iterations": 20},
        {"loss": "kullback-leibler", "weights": "tf-idf", "iterations": 20},
    ),
}


def cells(options: Options) -> list[Cell]:
    """One for each method and setting."""

    def planned(key: str, number: int, setting: Setting) -> Cell:
        setting = setting | (QUICK[key] if options.quick else {})

        def run(progress: Progress) -> dict[str, Any]:
            data = newsgroups(options.quick)
            train = data.counts[data.splits[0].train]
            inner, held = (train[rows] for rows in node_split(train.shape[0], SEED))
            topics = QUICK_TOPICS if options.quick else TOPICS
            one = found(key, Task(inner, topics, SEED, options.device), setting, held)
            return {"coherence": one.mean, "diversity": one.diversity}

        return Cell(f"{key}/{number}", {**told(key, setting), "changes": setting, "seed": SEED}, run)

    shown = 1 if options.quick else None
    return [
        planned(key, number, setting)
        for key, grid in GRIDS.items()
        for number, setting in enumerate(grid[:shown], start=1)
    ]


def trials(record: Record, key: str) -> list[dict[str, Any]]:
    """All cells of a method, the best first."""
    of_method = [cell for name, cell in record["cells"].items() if name.startswith(f"{key}/")]
    return sorted(of_method, key=lambda cell: -cell["figures"]["coherence"] * cell["figures"]["diversity"])


def best(record: Record, key: str) -> Setting:
    """The settings of the winner."""
    setting: Setting = trials(record, key)[0]["settings"]["changes"]
    return setting


def section(record: Record) -> str:
    """Every trial, the best first."""
    rows = [
        [
            METHODS[key].label,
            ", ".join(f"{name} {value}" for name, value in cell["settings"]["changes"].items()),
            f"{cell['figures']['coherence']:.3f}",
            f"{cell['figures']['diversity']:.2f}",
        ]
        for key in GRIDS
        for cell in trials(record, key)
    ]
    return "\n\n".join(
        [
            "Settings for `topics`: learnt from four fifths of the training documents, judged on the rest by coherence "
            "times diversity. The best is first.",
            table(["method", "settings", "coherence", "diversity"], rows, words=2),
        ]
    )


EXPERIMENT = Experiment(
    name="topics_search",
    title="Settings for topics, on training documents",
    place="Section 3.1",
    data=("20newsgroups",),
    minutes=3,
    cells=cells,
    section=section,
    search=True,
)
