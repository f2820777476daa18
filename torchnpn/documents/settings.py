"""Settings of `DocumentAutoencoder`: what stands for None in each family, and which make no sense."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np

from torchnpn.documents.architecture import FAMILY_ACTIVATIONS, LOSSES
from torchnpn.estimators import check_choice, check_flag, is_number, is_whole, short

_POSITIVE: dict[str, Any] = {
    "activation": "saturating",
    "tau": 0.1,
    "input_noise": 0.0,
    "initial_variance": 0.1,
    "kl_weight": 0.0,
    "learning_rate": 0.03,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "gaussian": {
        "activation": "tanh",
        "tau": 1.0,
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
Range = tuple[Callable[[Any], bool], str]
_SHARE: Range = (lambda x: 0 <= x < 1, "from 0 to below 1")
_POSITIVE_NUMBER: Range = (lambda x: 0 < x < math.inf, "above 0")
_RATE: Range = (lambda x: 1e-30 <= x <= 10, "above 0 (1e-30) and up to 10")
_RANGES: dict[str, Range] = {
    **dict.fromkeys(("masking", "input_noise", "encoding_noise"), _SHARE),
    **dict.fromkeys(("tau", "epsilon", "initial_variance"), _POSITIVE_NUMBER),
    **dict.fromkeys(("learning_rate", "spread_learning_rate"), _RATE),
    "kl_weight": (lambda x: 0 <= x <= 1e6, "from 0 to 1e6"),
    "weight_decay": (lambda x: 0 <= x < math.inf, "≥ 0"),
}
_OPTIONAL = {*FAMILIES["gaussian"], "encoding_noise", "batch_size"}  # may be None
_COUNTS = {"batch_size": math.inf, "max_epochs": 100_000, "warm_up": math.inf}  # the most
_MOST_LAYERS, _MOST_UNITS = 100, 10**8


def check_settings(settings: dict[str, Any]) -> None:
    """Raise for settings that no network can be made of, or trained with."""
    family, hidden, precision = (settings[name] for name in ("family", "hidden", "prior_precision"))
    check_choice("family", family, FAMILIES)
    for name, options in (("loss", LOSSES), ("activation", FAMILY_ACTIVATIONS)):
        if settings[name] is not None:
            check_choice(f"{name} of a {family} network", settings[name], options[family])
    sizes = hidden if isinstance(hidden, (tuple, list)) and hidden else [0]
    if len(sizes) > _MOST_LAYERS or not all(is_whole(size) and 0 < size <= _MOST_UNITS for size in sizes):
        raise ValueError(
            "hidden expects a tuple of layer sizes, at least one for the code, such as (100, 50), at most "
            f"{_MOST_LAYERS} layers of at most {_MOST_UNITS:,} units, got {short(hidden)}."
        )
    for name, most in _COUNTS.items():
        value, least = settings[name], 0 if name == "warm_up" else 1
        if not (name in _OPTIONAL and value is None) and not (is_whole(value) and least <= value <= most):
            limit = f"from {least}" if most == math.inf else f"from {least} to {most:,}"
            raise ValueError(f"{name} expects a whole number {limit}{_or_none(name)}, got {short(value)}.")
    for name, (fits, words) in _RANGES.items():
        value = settings[name]
        if not (name in _OPTIONAL and value is None) and not (is_number(value) and fits(value)):
            raise ValueError(f"{name} expects a number {words}{_or_none(name)}, got {short(value)}.")
    for name in ("bias", "binary"):
        check_flag(name, settings[name])
    if not isinstance(settings["verbose"], (np.bool_, numbers.Integral)):
        raise ValueError(f"verbose expects 0 to print nothing or 1 to print, got {short(settings['verbose'])}.")
    if isinstance(precision, str) and precision == "evidence":
        if family != "gaussian":
            raise ValueError(f"A {family} network expects a number as prior_precision; Gaussian ones learn it.")
    elif not (is_number(precision) and 0 < precision < math.inf):
        raise ValueError(f'prior_precision expects a number above 0 or "evidence", got {short(precision)}.')


def _or_none(name: str) -> str:
    return ", or None to choose it" if name in _OPTIONAL else ""
