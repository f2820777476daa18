"""Quantiles by a search that always ends: a bisection over the floating-point numbers themselves.

Between two float64 there are at most 2^64 others, so 64 halvings of their number find the smallest y with
P(x ≤ y) ≥ q, whatever its size: the numbers are counted, not measured. Counts need a dozen steps and their own bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from torchnpn.families.tails import Array, Tails

_STEPS = 66
_ROOM = 1e-6
_MOST = np.finfo(np.float64).max


def search(
    tails: Callable[[Array], Tails],
    q: Array,
    low: Array | float = 0.0,
    high: Array | float = _MOST,
    *,
    discrete: bool = False,
) -> Array:
    """The smallest y in [low, high] with P(x ≤ y) ≥ q, or `high` if there is none.

    Args:
        tails: From numbers of the shape of q to their tails. Upper quantiles are found by P(x > y) ≤ 1 - q, which has
            the digits that P(x ≤ y) has lost there.
        q: Probabilities.
        low: The least value.
        high: The largest value.
        discrete: Whether only whole numbers count, as the ends then are; tails are asked at whole numbers only.
    """
    upper = q > 0.5
    first, last = (place_of(np.array(np.broadcast_to(np.clip(end, -_MOST, _MOST), q.shape))) for end in (low, high))
    for _ in range(_STEPS):
        if (last <= first).all():
            break
        middle = (first >> 1) + (last >> 1) + (first & last & 1)  # their sum would overflow
        y = number_at(middle)
        y = np.floor(y) if discrete else y
        below, above = tails(y)
        reached = np.where(upper, above <= 1 - q, below >= q)
        last = np.where(reached, place_of(y), last)
        first = np.where(reached, first, place_of(y + 1) if discrete else middle + 1)
        first = np.where(reached | (first > middle), first, middle + 1)  # y + 1 = y for large counts
    y = number_at(last)
    return np.floor(y) if discrete else y


def cantelli(mean: Array, std: Array, q: Array) -> tuple[Array, Array]:
    """Whole numbers between which the quantile of counts lies, from mean and standard deviation alone.

    Cantelli's inequality: m - s √((1-q)/q) ≤ y ≤ m + s √(q/(1-q)), here with a little room for rounding.
    """
    with np.errstate(all="ignore"):
        low = mean - std * np.sqrt((1 - q) / q)
        high = mean + std * np.sqrt(q / (1 - q))
        return np.floor(np.clip(low * (1 - _ROOM) - 1, 0, _MOST)), np.ceil(np.clip(high * (1 + _ROOM) + 1, 0, _MOST))


def place_of(y: Array) -> Array:
    """The place of float64 numbers in their order, as int64."""
    bits = (y + 0.0).view(np.int64)  # + 0: one zero only
    place: Array = bits ^ ((bits >> 63) & np.int64(2**63 - 1))
    return place


def number_at(place: Array) -> Array:
    """The number at a place: the inverse of `place_of`."""
    number: Array = (place ^ ((place >> 63) & np.int64(2**63 - 1))).view(np.float64)
    return number
