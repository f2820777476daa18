"""The settings of the MNIST experiments: the best of `mnist_search` and of `mnist_size_search`."""

from __future__ import annotations

import math

from torchnpn.experiments.digit_methods import Setting
from torchnpn.experiments.mnist_search import COMMON

_LONG = COMMON | {"epochs": 200}
CHOSEN: dict[str, Setting] = {  # for 50,000 images
    "npn": _LONG
    | {
        "learning_rate": 0.0003,
        "initial_std": 0.05,
        "prior_precision": 3000.0,
        "kl_weight": 0.001,
        "input_rate": 0.2,
        "rate": 0.3,
    },
    "gamma": _LONG
    | {
        "epochs": 100,
        "learning_rate": 0.02,
        "prior_precision": 1.0,
        "kl_weight": 0.0,
        "input_rate": 0.2,
        "rate": 0.3,
        "gains": [10.0, 10.0, 50.0],
    },
    "dropout": _LONG | {"learning_rate": 0.0003, "prior_precision": 10.0, "input_rate": 0.2, "rate": 0.3},
    "dropout_alone": _LONG | {"prior_precision": 0.0, "input_rate": 0.2, "rate": 0.5},  # best of those without decay
    "bbb": _LONG | {"prior": "gaussian", "prior_std": 0.1, "kl_weight": 0.01, "initial_std": 0.01, "samples": 50},
    "bdk": _LONG | {"step_size": 4e-6, "prior_precision": 1.0, "input_noise": 0.01},
    "ensemble": _LONG,  # nothing was searched: plain networks
}

STEPS = {100: 1_500, 500: 4_000, 2_000: 8_000, 10_000: 16_000}  # of training, by the number of images


def training(size: int) -> Setting:
    """How long all methods learn from so many images."""
    batch = min(COMMON["batch_size"], size)
    return {"batch_size": batch, "epochs": math.ceil(STEPS[size] * batch / size)}


def _of_size(size: int) -> dict[str, Setting]:
    """Before the search: what the prototypes had."""
    common = COMMON | training(size)
    return {
        "npn": common | {"prior_precision": 100.0, "kl_weight": 0.01, "input_rate": 0.4, "rate": 0.5},
        "dropout": common | {"prior_precision": 1.0, "input_rate": 0.5, "rate": 0.5},
        "dropout_alone": common | {"prior_precision": 0.0, "input_rate": 0.3, "rate": 0.6},
        "bdk": common | {"step_size": 0.1 / size, "prior_precision": 10.0, "input_noise": 0.1},
    }


CHOSEN_BY_SIZE: dict[int, dict[str, Setting]] = {size: _of_size(size) for size in STEPS}
