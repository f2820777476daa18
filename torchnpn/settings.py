"""Settings of estimators: whether they make sense, else an error that says what is expected and what came."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from sklearn.utils import check_random_state

_MOST_LAYERS, _MOST_UNITS = 100, 10**8


class Range(NamedTuple):
    """Which numbers a setting may be."""

    has: Callable[[Any], bool]
    words: str


RATE = Range(lambda x: 1e-30 <= x <= 10, "above 0 (1e-30) and up to 10")  # of Adam
SHARE = Range(lambda x: 0 <= x < 1, "from 0 to below 1")
PROPER_SHARE = Range(lambda x: 0 < x < 1, "between 0 and 1")
WEIGHT = Range(lambda x: 0 <= x <= 1e6, "from 0 to 1e6")  # of a part of the loss
POSITIVE = Range(lambda x: 0 < x < math.inf, "above 0")
NOT_NEGATIVE = Range(lambda x: 0 <= x < math.inf, "≥ 0")


def check_number(name: str, value: Any, among: Range, *, words: Iterable[str] = (), optional: bool = False) -> None:
    """Raise unless a setting is a number of some range; or one of some words, or None, where that is allowed."""
    if (optional and value is None) or (isinstance(value, str) and value in words):
        return
    if not is_number(value) or not among.has(value):
        others = ", ".join(f'"{word}"' for word in words)
        expected = f"{others} or a number {among.words}" if others else f"a number {among.words}"
        raise ValueError(f"{name} expects {expected}{_or_none(optional)}, got {short(value)}.")


def check_count(
    name: str, value: Any, most: float = math.inf, *, least: int = 1, optional: bool = False, none: str = "choose it"
) -> None:
    """Raise unless a setting is a whole number in a range; or None, where that is allowed: to do what `none` says."""
    if not (optional and value is None) and not (is_whole(value) and least <= value <= most):
        limit = f"from {least}" if most == math.inf else f"from {least} to {most:,}"
        raise ValueError(f"{name} expects a whole number {limit}{_or_none(optional, none)}, got {short(value)}.")


def check_choice(name: str, value: Any, options: Iterable[str]) -> None:
    """Raise unless a setting is one of some words."""
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(f'"{option}"' for option in options)
        raise ValueError(f"{name} expects one of {listed}, got {short(value)}.")


def check_flag(name: str, value: Any) -> None:
    """Raise unless a setting is true or false."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} expects True or False, got {short(value)}.")


def check_class_weight(weight: Any) -> None:
    """Raise unless it is None, "balanced" or a weight ≥ 0 for each of some labels."""
    of_labels = isinstance(weight, dict) and all(is_number(one) and 0 <= one < math.inf for one in weight.values())
    if not (weight is None or of_labels or (isinstance(weight, str) and weight == "balanced")):
        raise ValueError(
            f'class_weight expects None, "balanced" or a dict of labels and weights ≥ 0, got {short(weight)}.'
        )


def check_verbose(verbose: Any) -> None:
    """Raise unless it is a number, or true or false."""
    if not isinstance(verbose, (np.bool_, numbers.Integral)):
        raise ValueError(f"verbose expects 0 to print nothing or 1 to print, got {short(verbose)}.")


def check_hidden(hidden: Any, *, with_code: bool = False) -> None:
    """Raise unless these are sizes of hidden layers; of an autoencoder there is one at least, its code."""
    sizes = hidden if isinstance(hidden, (tuple, list)) and (hidden or not with_code) else [0]
    if len(sizes) > _MOST_LAYERS or not all(is_whole(size) and 0 < size <= _MOST_UNITS for size in sizes):
        example = ", at least one for the code, such as (100, 50)" if with_code else " such as (50,)"
        raise ValueError(
            f"hidden expects a tuple of layer sizes{example}, at most {_MOST_LAYERS} layers of at most "
            f"{_MOST_UNITS:,} units, got {short(hidden)}."
        )


def seed_of(random_state: Any) -> int:
    """A seed drawn from `random_state`: the same for the same number, another one in each call for a generator."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if (is_whole(random_state) and 0 <= int(random_state) < 2**32) or isinstance(random_state, np.random.RandomState):
        return int(check_random_state(random_state).randint(2**31 - 1))
    if random_state is None or random_state is np.random:
        return int(np.random.default_rng().integers(2**31 - 1))  # not numpy's global generator: fits leave it alone
    raise ValueError(
        "random_state expects a whole number from 0 to 4294967295, a numpy RandomState or Generator, or None for "
        f"another result every time, got {short(random_state)}."
    )


def generator_of(random_state: Any) -> np.random.Generator:
    """Where chance comes from; a whole number is numpy's own seed."""
    seed = seed_of(random_state)  # which refuses what is none
    return np.random.default_rng(int(random_state) if isinstance(random_state, numbers.Integral) else seed)


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a setting is a real number that float64 can hold: neither NaN nor a truth value, an array or text."""
    try:
        return isinstance(value, numbers.Real) and not isinstance(value, bool) and not math.isnan(float(value))
    except OverflowError:
        return False


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether a setting is a whole number."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def short(value: Any) -> str:
    """A value as it is shown in an error message."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print whole numbers of more than some thousand digits
        text = "a number of many thousand digits"
    return text if len(text) <= 80 else text[:77] + "…"


def _or_none(optional: bool, none: str = "choose it") -> str:
    return f", or None to {none}" if optional else ""
