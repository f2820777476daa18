"""Quantiles by a search that always ends: a bisection over the floating-point numbers themselves.

Between two float64 there are at most 2^64 others, so 64 halvings of their number find the smallest y with
P(x ≤ y) ≥ q, whatever its size: the numbers are counted, not measured. Counts need a dozen steps and their own bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from torchnpn.families.tails import Array, Tails

_STEPS = 66
_MOST = np.finfo(np.float64).max


def search(tails: Callable[[Array], Tails], q: Array, low: Array | float = 0.0, *, discrete: bool = False) -> Array:
    """The smallest y ≥ low with P(x ≤ y) ≥ q, at most the largest float64.

    Args:
        tails: From numbers of the shape of q to their tails. Upper quantiles are found by P(x > y) ≤ 1 - q, which has
            the digits that P(x ≤ y) has lost there.
        q: Probabilities.
        low: The least value, or -1.8e308 for all reals.
        discrete: Whether only whole numbers count; tails are asked at whole numbers only.
    """
    upper = q > 0.5
    first = _place(np.broadcast_to(np.asarray(low, dtype=np.float64), q.shape).copy())
    last = _place(np.full(q.shape, _MOST))
    for _ in range(_STEPS):
        if (first >= last).all():
            break
        middle = (first >> 1) + (last >> 1) + (first & last & 1)  # their sum would overflow
        y = _number(middle)
        y = np.floor(y) if discrete else y
        below, above = tails(y)
        reached = np.where(upper, above <= 1 - q, below >= q)
        last = np.where(reached, _place(y), last)
        first = np.where(reached, first, _place(y + 1) if discrete else middle + 1)
        first = np.where(reached | (first > middle), first, middle + 1)  # y + 1 = y for large counts
    y = _number(last)
    return np.floor(y) if discrete else y


def _place(y: Array) -> Array:
    """The place of float64 numbers in their order, as int64."""
    bits = (y + 0.0).view(np.int64)  # + 0: one zero only
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))


def _number(place: Array) -> Array:
    """The number at a place: the inverse of `_place`."""
    return (place ^ ((place >> 63) & np.int64(2**63 - 1))).view(np.float64)
