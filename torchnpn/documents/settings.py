"""Settings of `DocumentAutoencoder`: what stands for None in each family, and which make no sense."""

from __future__ import annotations

import math
from typing import Any

from torchnpn import settings
from torchnpn.documents.architecture import FAMILY_ACTIVATIONS, LOSSES, SCALINGS
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
_RANGES: dict[str, settings.Range] = {
    **dict.fromkeys(("masking", "input_noise", "encoding_noise"), settings.SHARE),
    **dict.fromkeys(("tau", "r", "epsilon", "initial_variance"), settings.POSITIVE),
    **dict.fromkeys(("learning_rate", "spread_learning_rate"), settings.RATE),
    "kl_weight": settings.WEIGHT,
    "weight_decay": settings.NOT_NEGATIVE,
}
_OPTIONAL = {*FAMILIES["gaussian"], "encoding_noise", "batch_size"}  # may be None
_COUNTS = {"batch_size": math.inf, "max_epochs": 100_000, "warm_up": math.inf}  # the most


def check_settings(given: dict[str, Any]) -> None:
    """Raise for settings that no network can be made of, or trained with."""
    family = given["family"]
    settings.check_choice("family", family, FAMILIES)
    for name, options in (("loss", LOSSES), ("activation", FAMILY_ACTIVATIONS)):
        if given[name] is not None:
            settings.check_choice(f"{name} of a {family} network", given[name], options[family])
    if given["scaling"] is not None:
        settings.check_choice("scaling", given["scaling"], SCALINGS)
    settings.check_choice("optimizer", given["optimizer"], OPTIMIZERS)
    settings.check_hidden(given["hidden"], with_code=True)
    for name, most in _COUNTS.items():
        settings.check_count(name, given[name], most, least=0 if name == "warm_up" else 1, optional=name in _OPTIONAL)
    for name, among in _RANGES.items():
        settings.check_number(name, given[name], among, optional=name in _OPTIONAL)
    for name in ("bias", "binary"):
        settings.check_flag(name, given[name])
    settings.check_verbose(given["verbose"])
    settings.check_number("prior_precision", given["prior_precision"], settings.POSITIVE, words=["evidence"])
    if given["prior_precision"] == "evidence" and family != "gaussian":
        raise ValueError(f"A {family} network expects a number as prior_precision; Gaussian ones learn it.")
