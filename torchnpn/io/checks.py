"""Checks of plain values that come from a file: anyone may have written it, so nothing is taken as it is.

Each takes the name of the value, for the message, and the value, and returns what a constructor may be given.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from torchnpn import families
from torchnpn.families import ExponentialFamily

Array = NDArray[Any]
Check = Callable[[str, Any], Any]

LARGEST_SIZE = 2**31
LONGEST_NAME = 1000  # characters
MOST_DIMENSIONS = 8
LARGEST_NUMBER = 1e12  # of a constant, and of a weight's mean and standard deviation, in absolute value
MOST_PLACES = 8  # among which one is meant by its number
LARGEST_TAU = 1e3  # of the activations of Theorem 1: beyond, they are steps
_LARGEST_UNIT = 1e150  # whose square is still a number
_LARGEST_ORIGIN = 1e15  # in units of the scale: zero itself would be refused as too far from it
_ROUNDING = 1e-6  # of correlations


def shown(value: object) -> str:
    """`value` in a few characters, whatever it is."""
    return reprlib.repr(value)


def flag(name: str, value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} should be true or false, got {shown(value)}")
    return value


def size(name: str, value: Any, least: int = 1) -> int:
    """A number of things, by default at least one."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= LARGEST_SIZE:
        raise ValueError(f"{name} should be a whole number from {least} to {LARGEST_SIZE}, got {shown(value)}")
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


def not_negative(name: str, value: Any) -> float:
    """A number from zero, of any size."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise ValueError(f"{name} should be a finite number ≥ 0, got {shown(value)}")
    return float(value)


def tau(name: str, value: Any) -> float:
    """The rate τ of an activation."""
    if not positive(name, value) <= LARGEST_TAU:
        raise ValueError(f"{name} should be a number > 0 and at most {LARGEST_TAU:g}, got {shown(value)}")
    return float(value)


def place_or_none(name: str, value: Any) -> int | None:
    """None, or which of a few things is meant, counted from 0."""
    if value is None:
        return None
    if type(value) is not int or not 0 <= value < MOST_PLACES:
        raise ValueError(f"{name} should be null or a whole number from 0 to {MOST_PLACES - 1}, got {shown(value)}")
    return value


def number_or_none(name: str, value: Any) -> float | None:
    """A number of ordinary size, or nothing."""
    return None if value is None else number(name, value)


def text(name: str, value: Any) -> str:
    """Some characters, not too many."""
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_NAME:
        raise ValueError(f"{name} should be a text of 1 to {LONGEST_NAME} characters, got {shown(value)}")
    return value


def one_of(words: Iterable[str]) -> Check:
    """One of some words."""

    def check(name: str, value: Any) -> str:
        if value not in words:
            raise ValueError(f"{name} should be one of {', '.join(words)}, got {shown(value)}")
        return str(value)

    return check


def entries(name: str, value: Any) -> list[Any]:
    """A JSON list."""
    if not isinstance(value, list):
        raise ValueError(f"{name} should be a list, got {shown(value)}")
    return value


def names(name: str, value: Any, count: int) -> list[str]:
    """So many names, all different."""
    listed = entries(name, value)
    are_texts = all(isinstance(one, str) and len(one) <= LONGEST_NAME for one in listed)
    if not are_texts or not len(listed) == len(set(listed)) == count:
        raise ValueError(f"{name} should be {count} different texts, got {shown(value)}")
    return listed


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


def array(name: str, arrays: Mapping[str, Any], shape: tuple[int, ...]) -> Array:
    """The array of that name: finite float64 numbers of that shape."""
    if name not in arrays:
        raise ValueError(f"{name} is missing")
    found = np.asarray(arrays[name])
    if found.dtype != np.float64 or found.shape != shape or not np.isfinite(found).all():
        raise ValueError(f"{name} should be finite float64 numbers of shape {shape}, got {found.dtype} {found.shape}")
    return found.copy()


def scale(name: str, value: Array, origin: Array) -> Array:
    """Units above zero, in which numbers are measured from `origin`."""
    if not (value > 0).all():
        raise ValueError(f"{name} should have scales above 0, got others")
    with np.errstate(over="ignore"):
        near = np.abs(origin) / value <= _LARGEST_ORIGIN
    if not near.all():
        raise ValueError(f"{name} should have values of at most {_LARGEST_ORIGIN:g} scales, got others")
    return value


def scale_with_square(name: str, value: Array, origin: Array) -> Array:
    """The same where the squares of the units, as variances have them, are ordinary numbers, too."""
    if not ((value >= 1 / _LARGEST_UNIT) & (value <= _LARGEST_UNIT)).all():
        raise ValueError(f"{name} should have scales from {1 / _LARGEST_UNIT:g} to {_LARGEST_UNIT:g}, got others")
    return scale(name, value, origin)


def covariance(name: str, value: Array) -> Array:
    """Matrices (…, n, n) that are symmetric and, but for rounding, positive semi-definite."""
    variances = np.diagonal(value, axis1=-2, axis2=-1)
    if not ((variances >= 0) & (variances <= _LARGEST_UNIT)).all():
        raise ValueError(f"{name} should have variances from 0 to {_LARGEST_UNIT:g}, got others")
    std = np.sqrt(variances)
    unit = np.where(std > 0, std, 1.0)
    correlation = value / unit[..., :, None] / unit[..., None, :]
    nearly = torch.from_numpy(correlation + _ROUNDING * np.eye(correlation.shape[-1]))
    if np.abs(correlation - correlation.swapaxes(-1, -2)).max(initial=0.0) > _ROUNDING or bool(
        torch.linalg.cholesky_ex(nearly).info.any()
    ):
        raise ValueError(f"{name} should be the covariance of some variables, got a matrix that is none")
    return value
