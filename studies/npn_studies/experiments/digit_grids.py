"""The settings that `mnist_search` tries: grids of each method, and what learns again with more seeds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from npn_studies.experiments.digit_methods import Setting

Grid = dict[str, Sequence[Any]]
COMMON: Setting = {"hidden": [800, 800], "batch_size": 128, "learning_rate": 0.001}
LONG = 200  # epochs
_WIDE = (32, 50), (4, LONG)
ROUNDS = {  # of each grid: settings and epochs
    "npn": (_WIDE, _WIDE, ((16, LONG),), ((32, LONG),)),
    "gamma": (((8, 30), (2, 100)),),  # a step of its network takes ten times as long
    "dropout": (_WIDE, _WIDE, ((16, LONG),), ((32, LONG),)),
    "bbb": (_WIDE, _WIDE, ((28, 50), (4, LONG))),
    "bdk": (_WIDE, _WIDE, ((28, 50), (4, LONG))),
}
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
            "rates": [(0.1, 0.2), (0.2, 0.3)],
            "learning_rate": [0.0003],
            "initial_std": [0.3],
            "strength": [(3_000.0, 3e-4), (3_000.0, 1e-3)],
            "adversarial": [1.0, 1.5, 2.0, 3.0],
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
        {
            "rates": [(0.1, 0.2), (0.2, 0.3)],
            "prior_precision": [1.5, 5.0],
            "learning_rate": [0.0003],
            "adversarial": [1.0, 1.5, 2.0, 3.0],
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
        {
            "prior": ["gaussian", "mixture"],
            "prior_std": [0.05, 0.1],
            "kl_weight": [0.01, 0.03, 0.05, 0.1],
            "initial_std": [0.01],
            "learning_rate": [0.0003, 0.001],
            "samples": [10],
        },
        {
            "prior": ["gaussian"],
            "prior_std": [0.1],
            "kl_weight": [0.003, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1],
            "initial_std": [0.01],
            "adversarial": [0.5, 1.0, 1.5, 2.0],
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
        {
            "step_size": [4e-6, 6e-6, 1e-5, 1.5e-5],
            "prior_precision": [1.0, 5.0],
            "input_noise": [0.003, 0.01],
            "learning_rate": [0.0003, 0.001],
        },
        {
            "step_size": [3e-6, 4e-6, 5e-6, 6e-6, 8e-6, 1e-5, 1.5e-5],
            "prior_precision": [5.0],
            "input_noise": [0.01],
            "adversarial": [0.5, 1.0, 1.5, 2.0],
        },
    ),
}


_NPN: Grid = {"learning_rate": [0.0003], "masks": [False, True]}
_DROPOUT: Grid = {"learning_rate": [0.0003]}
_BBB: Grid = {"prior": ["gaussian"], "prior_std": [0.1], "initial_std": [0.01], "samples": [10]}
_BDK: Grid = {"learning_rate": [0.001], "input_noise": [0.01]}
FINALS: dict[str, tuple[tuple[Grid, ...], ...]] = {  # of three settings each; for 200 epochs where they do not say
    "npn": (
        (
            {"rates": [(0.2, 0.3)], "initial_std": [0.05, 0.3], "strength": [(3_000.0, 1e-3)], **_NPN},
            {"rates": [(0.2, 0.3)], "initial_std": [0.05], "strength": [(10_000.0, 1e-3)], **_NPN},
        ),
        (
            {"rates": [(0.1, 0.2)], "initial_std": [0.3], "strength": [(3_000.0, 1e-3)], "adversarial": [1.0], **_NPN},
            {"rates": [(0.1, 0.2)], "initial_std": [0.3], "strength": [(3_000.0, 3e-4)], "adversarial": [1.5], **_NPN},
            {"rates": [(0.2, 0.3)], "initial_std": [0.3], "strength": [(3_000.0, 1e-3)], "adversarial": [1.0], **_NPN},
        ),
    ),
    "dropout": (
        (
            {"rates": [(0.2, 0.2), (0.2, 0.3)], "prior_precision": [10.0], **_DROPOUT},
            {"rates": [(0.2, 0.2)], "prior_precision": [5.0], **_DROPOUT},
        ),
        (
            {"rates": [(0.1, 0.2)], "prior_precision": [5.0], "adversarial": [1.5, 1.0], **_DROPOUT},
            {"rates": [(0.1, 0.2)], "prior_precision": [1.5], "adversarial": [1.0], **_DROPOUT},
        ),
    ),
    "bbb": (
        (
            {"kl_weight": [0.05, 0.07], "adversarial": [1.0], "epochs": [50], **_BBB},
            {"kl_weight": [0.02], "adversarial": [1.5], "epochs": [50], **_BBB},
        ),
        (
            {"kl_weight": [0.02, 0.03], "adversarial": [1.5], **_BBB},
            {"kl_weight": [0.05], "adversarial": [1.0], **_BBB},
        ),
    ),
    "bdk": (
        (
            {"step_size": [6e-6, 1.5e-5], "prior_precision": [1.0], "epochs": [50], **_BDK},
            {"step_size": [1e-5], "prior_precision": [5.0], "epochs": [50], **_BDK},
        ),
        (
            {"step_size": [4e-6], "prior_precision": [1.0, 10.0], **_BDK},
            {"step_size": [1e-5], "prior_precision": [5.0], **_BDK},
        ),
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
