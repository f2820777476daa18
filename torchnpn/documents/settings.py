"""Settings of `DocumentAutoencoder`: what stands for None in each family, and which make no sense."""

from __future__ import annotations

import math
from typing import Any

from torchnpn.documents.architecture import FAMILY_ACTIVATIONS, LOSSES, SCALINGS
from torchnpn.estimators import (
    NOT_NEGATIVE,
    POSITIVE,
    RATE,
    SHARE,
    WEIGHT,
    Range,
    check_choice,
    check_count,
    check_flag,
    check_hidden,
    check_number,
    check_verbose,
)
from torchnpn.training import OPTIMIZERS

_POSITIVE: dict[str, Any] = {
    "activation": "saturating",
    "tau": 0.1,
    "scaling": "sum",
    "input_noise": 0.0,
    "initial_variance": 0.1,
    "kl_weight": 0.0,
    "learning_rate": 0.03,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "gaussian": {
        "activation": "tanh",
        "tau": 1.0,
        "scaling": "max",
        "loss": "bce",
        "masking": 0.7,
        "input_noise": 0.5,
        "initial_variance": 0.05,
        "kl_weight": 0.01,
        "learning_rate": 2e-3,
    },
    "gamma": {**_POSITIVE, "loss": "bce", "masking": 0.7},
    "poisson": {**_POSITIVE, "loss": "poisson", "masking": 0.5},
}
_RANGES: dict[str, Range] = {
    **dict.fromkeys(("masking", "input_noise", "encoding_noise"), SHARE),
    **dict.fromkeys(("tau", "r", "epsilon", "initial_variance"), POSITIVE),
    **dict.fromkeys(("learning_rate", "spread_learning_rate"), RATE),
    "kl_weight": WEIGHT,
    "weight_decay": NOT_NEGATIVE,
}
_OPTIONAL = {*FAMILIES["gaussian"], "encoding_noise", "batch_size"}  # may be None
_COUNTS = {"batch_size": math.inf, "max_epochs": 100_000, "warm_up": math.inf}  # the most


def check_settings(settings: dict[str, Any]) -> None:
    """Raise for settings that no network can be made of, or trained with."""
    family = settings["family"]
    check_choice("family", family, FAMILIES)
    for name, options in (("loss", LOSSES), ("activation", FAMILY_ACTIVATIONS)):
        if settings[name] is not None:
            check_choice(f"{name} of a {family} network", settings[name], options[family])
    if settings["scaling"] is not None:
        check_choice("scaling", settings["scaling"], SCALINGS)
    check_choice("optimizer", settings["optimizer"], OPTIMIZERS)
    check_hidden(settings["hidden"], with_code=True)
    for name, most in _COUNTS.items():
        check_count(name, settings[name], most, least=0 if name == "warm_up" else 1, optional=name in _OPTIONAL)
    for name, among in _RANGES.items():
        check_number(name, settings[name], among, optional=name in _OPTIONAL)
    for name in ("bias", "binary"):
        check_flag(name, settings[name])
    check_verbose(settings["verbose"])
    check_number("prior_precision", settings["prior_precision"], POSITIVE, words=["evidence"])
    if settings["prior_precision"] == "evidence" and family != "gaussian":
        raise ValueError(f"A {family} network expects a number as prior_precision; Gaussian ones learn it.")
