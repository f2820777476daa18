"""The settings of the MNIST experiments: the best of `mnist_search` and of `mnist_size_search`."""

from __future__ import annotations

import math

from npn_studies.experiments.digit_grids import COMMON
from npn_studies.experiments.digit_methods import Setting

_SHORT, _LONG = COMMON | {"epochs": 50}, COMMON | {"epochs": 200}
_BBB: Setting = {"prior": "gaussian", "prior_std": 0.1, "initial_std": 0.01, "samples": 50}
CHOSEN: dict[str, Setting] = {  # for 50,000 images
    "npn": _LONG
    | {
        "learning_rate": 0.0003,
        "initial_std": 0.3,
        "prior_precision": 3000.0,
        "kl_weight": 0.001,
        "input_rate": 0.1,
        "rate": 0.2,
        "adversarial": 1.0,
        "masks": True,
    },
    "npn_unopposed": _LONG
    | {
        "learning_rate": 0.0003,
        "initial_std": 0.3,
        "prior_precision": 3000.0,
        "kl_weight": 0.001,
        "input_rate": 0.2,
        "rate": 0.3,
        "masks": True,
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
    "dropout": _LONG
    | {"learning_rate": 0.0003, "prior_precision": 5.0, "input_rate": 0.1, "rate": 0.2, "adversarial": 1.5},
    "dropout_unopposed": _LONG | {"learning_rate": 0.0003, "prior_precision": 5.0, "input_rate": 0.2, "rate": 0.2},
    "dropout_alone": _LONG | {"prior_precision": 0.0, "input_rate": 0.2, "rate": 0.5},  # best of those without decay
    "bbb": _SHORT | _BBB | {"kl_weight": 0.05, "adversarial": 1.0},
    "bbb_unopposed": _LONG | _BBB | {"kl_weight": 0.01},
    "bdk": _SHORT | {"step_size": 1e-5, "prior_precision": 5.0, "input_noise": 0.01},
    "ensemble": _LONG,  # nothing was searched: plain networks
}

STEPS = {100: 1_500, 500: 4_000, 2_000: 8_000, 10_000: 16_000}  # of training, by the number of images


def training(size: int) -> Setting:
    """How long all methods learn from so many images."""
    batch = min(COMMON["batch_size"], size)
    return {"batch_size": batch, "epochs": math.ceil(STEPS[size] * batch / size)}


def _npn(rates: tuple[float, float], decay: float, radius: float) -> Setting:
    """Precision of the prior times weight of the KL is the decay; the radius is the adversary's."""
    strength = {"prior_precision": 10_000.0, "kl_weight": decay / 10_000.0, "adversarial": radius}
    return {"learning_rate": 0.001, **_rates(rates), **strength, "masks": True}


def _unopposed(rates: tuple[float, float], decay: float, **masks: bool) -> Setting:
    """Without an adversary; asked with masks where the search did."""
    strength = {"prior_precision": 10_000.0, "kl_weight": decay / 10_000.0}
    return {"learning_rate": 0.001, **_rates(rates), **strength, **masks}


def _dropout(rates: tuple[float, float], decay: float, learning_rate: float) -> Setting:
    return {"learning_rate": learning_rate, "prior_precision": decay, **_rates(rates)}


def _opposed(rates: tuple[float, float], decay: float, radius: float) -> Setting:
    """Dropout against an adversary."""
    return {**_dropout(rates, decay, 0.001), "adversarial": radius}


def _bdk(step_size: float, input_noise: float) -> Setting:
    return {"learning_rate": 0.001, "step_size": step_size, "prior_precision": 10.0, "input_noise": input_noise}


def _rates(rates: tuple[float, float]) -> Setting:
    return dict(zip(("input_rate", "rate"), rates, strict=True))


_BY_SIZE: dict[int, dict[str, Setting]] = {
    100: {
        "npn": _npn((0.6, 0.5), 0.4, 1.0),
        "npn_unopposed": _unopposed((0.6, 0.5), 0.4, masks=True),
        "dropout": _opposed((0.6, 0.5), 0.8, 1.0),
        "dropout_alone": _dropout((0.7, 0.6), 0.0, 0.0001),
        "bdk": _bdk(0.1 / 100, 0.01),
    },
    500: {
        "npn": _npn((0.4, 0.5), 1.2, 1.0),
        "npn_unopposed": _unopposed((0.6, 0.5), 0.3),
        "dropout": _opposed((0.6, 0.5), 1.2, 1.0),
        "dropout_alone": _dropout((0.6, 0.7), 0.0, 0.0015),
        "bdk": _bdk(0.3 / 500, 0.003),
    },
    2_000: {
        "npn": _npn((0.3, 0.4), 1.0, 1.5),
        "npn_unopposed": _unopposed((0.5, 0.5), 0.6),
        "dropout": _opposed((0.3, 0.4), 2.0, 1.5),
        "dropout_alone": _dropout((0.6, 0.5), 0.0, 0.0007),
        "bdk": _bdk(0.4 / 2_000, 0.01),
    },
    10_000: {
        "npn": _npn((0.2, 0.3), 2.0, 1.0),
        "npn_unopposed": _unopposed((0.4, 0.4), 2.0),
        "dropout": _opposed((0.2, 0.3), 4.0, 1.5),
        "dropout_alone": _dropout((0.5, 0.4), 0.0, 0.0003),
        "bdk": _bdk(0.3 / 10_000, 0.003),
    },
}
CHOSEN_BY_SIZE = {
    size: {name: COMMON | training(size) | one for name, one in chosen.items()} for size, chosen in _BY_SIZE.items()
}
