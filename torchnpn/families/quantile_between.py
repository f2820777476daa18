"""Quantiles between ends that are known, such as those of a mixture between its members': in about a dozen steps.

As in `quantiles`, the floating-point numbers between the ends are counted, and halving their number always ends. Here a
line through the logarithms of the tail at both ends says where to look next, as long as that costs ten steps more than
halving at most (ITP: Oliveira, Takahashi, ACM Trans. Math. Software 47, 2020).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from torchnpn.families.quantiles import number_at, place_of
from torchnpn.families.tails import Array, Tails

_STEPS, _FREE = 66, 10
_TRUNCATION = 0.2  # of ITP: how far beyond the line to look, so that both ends come closer
_SPACING = 1 << 12  # floating-point numbers by which the answer may be too large: one part in 10¹²
_LEAST = np.finfo(np.float64).tiny


def quantile_between(tails: Callable[[Array], Tails], q: Array, low: Array, high: Array) -> Array:
    """A y in [low, high] with P(x ≤ y) ≥ q, to one part in 10¹² the smallest one, or `high` if there is none.

    Args:
        tails: From numbers of the shape of q to their tails. Upper quantiles are found by P(x > y) ≤ 1 - q, which has
            the digits that P(x ≤ y) has lost there.
        q: Probabilities.
        low: Where to begin.
        high: Where to end.
    """
    upper = q > 0.5
    goal = np.where(upper, 1 - q, q)
    first, last = place_of(low), place_of(high)
    bracket = _Bracket(first, last, np.zeros(q.shape), np.zeros(q.shape))
    whole = np.maximum(_width(first, last), 1.0)
    for step in range(_STEPS + _FREE):
        if (bracket.last - _SPACING <= bracket.first).all():
            break
        middle = bracket.looked_at(whole * 2.0 ** (_FREE - step), whole, step)
        below, above = tails(number_at(middle))
        part = np.where(upper, above, below)
        reached = np.where(upper, part <= goal, part >= goal)
        off = np.abs(np.log(np.maximum(part, _LEAST)) - np.log(np.maximum(goal, _LEAST)))
        bracket = bracket.closed(middle, reached, off)
    return number_at(bracket.last)


class _Bracket(NamedTuple):
    """Places between which each quantile lies, and by how much the logarithm of the tail is off at both."""

    first: Array
    last: Array
    lack: Array  # 0 where it is not known
    excess: Array

    def looked_at(self, allowed: Array, whole: Array, step: int) -> Array:
        """The place to look at next: a little beyond the line's zero, and as near to the middle as is in time.

        Args:
            allowed: Width in places that halving would have left ten steps ago.
            whole: Width in places at the start.
            step: How many were made; every third one takes the line on the logarithmic scale of the places.
        """
        first, last = self.first, self.last
        middle = (first >> 1) + (last >> 1) + (first & last & 1)  # their sum would overflow
        width = _width(first, last)
        known = (self.lack > 0) & (self.excess > 0)
        share = np.where(known, self.lack / np.where(known, self.lack + self.excess, 1.0), 0.5)
        inward = np.sign(0.5 - share)
        share = share + inward * np.minimum(_TRUNCATION * np.minimum(width / whole, 1.0), np.abs(0.5 - share))
        a, b = number_at(first), number_at(last)
        with np.errstate(over="ignore"):
            in_places = first + np.minimum(share * width, 2.0**62).astype(np.int64)  # a line in the logarithm, nearly
        is_line = (step % 3 != 2) | ((first < 0) & (last > 0))
        place = np.where(is_line, place_of(a * (1 - share) + b * share), in_places)
        place = place + (inward * (_SPACING // 2)).astype(np.int64)
        most = np.clip(allowed - width / 2, 0.0, 2.0**62)
        with np.errstate(over="ignore"):  # of the ends that are not taken
            steps = most.astype(np.int64)
            least = np.where(_width(first, middle) <= most, first, middle - steps)
            largest = np.where(_width(middle, last) <= most, np.maximum(last - 1, first), middle + steps)
            return np.clip(place, least, largest)

    def closed(self, middle: Array, reached: Array, off: Array) -> _Bracket:
        """Once the tail at these places is known."""
        return _Bracket(
            np.where(reached, self.first, middle + 1),
            np.where(reached, middle, self.last),
            np.where(reached, self.lack, off),
            np.where(reached, off, self.excess),
        )


def _width(first: Array, last: Array) -> Array:
    """Places between two, of which there may be more than int64 can hold."""
    return np.asarray(last.astype(np.float64) - first)
