"""How well predictions order what is known only in part, as durations are that have not ended."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from torchnpn.censoring import Bounds, bounds_of
from torchnpn.metrics.checks import columns, finite


def concordance(y: Any, prediction: ArrayLike) -> float:
    """Harrell's index: the share of pairs whose order is known that are predicted in that order, ties as one half.

    1 is a perfect order, ½ one by chance. The order of two rows is known where one ended before the other did, or
    before the other was last seen.

    Args:
        y: Times, or censored ones: `npn.censored(time, observed)`.
        prediction: (rows,) larger for later ends, such as predicted medians; of risks give the negative.

    >>> concordance([1.0, 2.0, 3.0], [10.0, 30.0, 20.0])
    0.6666666666666666
    """
    ends = bounds_of(y)
    if ends is None:
        (times,) = finite("concordance", y=y)
        ends = Bounds(times, times)
    _, lower, later = columns("concordance", y=ends.lower, lower=ends.lower, prediction=prediction)
    (later,) = finite("concordance", prediction=later)
    open_end = ~ends.exact  # whose own end is beyond `lower`
    first_seen = np.lexsort((open_end, lower))[::-1]  # the latest first
    ended = [i for i in np.argsort(ends.upper, kind="stable")[::-1] if np.isfinite(ends.upper[i])]
    after: list[float] = []  # predictions of all rows that are known to end after the one in hand, sorted
    pairs = in_order = 0.0
    k = 0
    for i in ended:
        while k < len(lower) and (lower[j := first_seen[k]], open_end[j]) > (ends.upper[i], False):
            insort(after, float(later[j]))
            k += 1
        above, same = len(after) - bisect_right(after, later[i]), bisect_left(after, later[i])
        in_order += above + 0.5 * (len(after) - above - same)
        pairs += len(after)
    if not pairs:
        raise ValueError("concordance expects two rows of which one is known to end before the other, got none.")
    return float(in_order / pairs)
