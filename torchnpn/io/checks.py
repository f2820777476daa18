"""Checks of plain values that come from a file: anyone may have written it, so nothing is taken as it is.

Each takes the name of the value, for the message, and the value, and returns what a constructor may be given.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable
from typing import Any

from torchnpn import families
from torchnpn.families import ExponentialFamily

Check = Callable[[str, Any], Any]

LARGEST_SIZE = 2**31
LONGEST_NAME = 1000  # characters
MOST_DIMENSIONS = 8
LARGEST_NUMBER = 1e12  # of a constant, and of a weight's mean and standard deviation, in absolute value
LARGEST_TAU = 1e3  # of the activations of Theorem 1: beyond, they are steps


def shown(value: object) -> str:
    """`value` in a few characters, whatever it is."""
    return reprlib.repr(value)


def flag(name: str, value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} should be true or false, got {shown(value)}")
    return value


def size(name: str, value: Any) -> int:
    """A number of things, at least one."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LARGEST_SIZE:
        raise ValueError(f"{name} should be a whole number from 1 to {LARGEST_SIZE}, got {shown(value)}")
    return value


def sizes(name: str, value: Any) -> tuple[int, ...]:
    """A few numbers of things, such as the replicas of a layer; there may be none."""
    if not isinstance(value, list) or len(value) > MOST_DIMENSIONS:
        raise ValueError(f"{name} should be a list of at most {MOST_DIMENSIONS} whole numbers, got {shown(value)}")
    return tuple(size(name, one) for one in value)


def number(name: str, value: Any) -> float:
    """A number of ordinary size."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:  # also refuses NaN
        raise ValueError(f"{name} should be a finite number of at most ±{LARGEST_NUMBER:g}, got {shown(value)}")
    return float(value)


def positive(name: str, value: Any) -> float:
    """A number above zero."""
    if not number(name, value) > 0:
        raise ValueError(f"{name} should be a number > 0, got {shown(value)}")
    return float(value)


def tau(name: str, value: Any) -> float:
    """The rate τ of an activation."""
    if not positive(name, value) <= LARGEST_TAU:
        raise ValueError(f"{name} should be a number > 0 and at most {LARGEST_TAU:g}, got {shown(value)}")
    return float(value)


def number_or_none(name: str, value: Any) -> float | None:
    """A number of ordinary size, or nothing."""
    return None if value is None else number(name, value)


def text(name: str, value: Any) -> str:
    """Some characters, not too many."""
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_NAME:
        raise ValueError(f"{name} should be a text of 1 to {LONGEST_NAME} characters, got {shown(value)}")
    return value


def mapping(name: str, value: Any) -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise ValueError(f"{name} should be a JSON object, got {shown(value)}")
    return value


def with_keys(name: str, value: Any, keys: Iterable[str]) -> dict[str, Any]:
    """A JSON object with these keys and no others."""
    found, expected = mapping(name, value), list(keys)
    if found.keys() != set(expected):
        raise ValueError(f"{name} should have the keys {', '.join(expected)}, got {shown(list(found))}")
    return found


def family(name: str, value: Any) -> type[ExponentialFamily]:
    """A family that comes with the library, by its name."""
    if not isinstance(value, str) or value not in families.BY_NAME:
        raise ValueError(f"{name} should be one of {', '.join(families.BY_NAME)}, got {shown(value)}")
    return families.BY_NAME[value]
