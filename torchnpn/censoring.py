"""Targets of which only a range is known, such as durations that had not ended when they were last seen."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]
_TYPE = np.dtype([("lower", np.float64), ("upper", np.float64)])


class Bounds(NamedTuple):
    """The end of each row lies in (lower, upper], or is known, lower = upper."""

    lower: Array  # (rows,) finite
    upper: Array  # (rows,) infinite where the end was not seen

    @property
    def exact(self) -> Array:
        return np.asarray(self.lower == self.upper)


def censored(time: ArrayLike, observed: ArrayLike) -> Array:  # (rows,), (rows,) -> (rows,)
    """Targets that may be censored on the right: the end came at `time`, or had not come yet.

    Args:
        time: When the end was observed, or when a row was last seen.
        observed: Whether the end was observed: bool, or 0 and 1.

    Returns:
        A structured array with the fields "lower" and "upper", to be given as y.

    >>> censored([3.0, 5.0], [True, False]).tolist()
    [(3.0, 3.0), (5.0, inf)]
    """
    seen = np.asarray(observed)
    if not np.isin(seen, (0, 1)).all():
        raise ValueError(f"censored expects observed to be bools, or 0 and 1, got {seen[~np.isin(seen, (0, 1))][0]!r}.")
    lower = np.asarray(time, dtype=np.float64)
    if lower.ndim != 1 or seen.shape != lower.shape:
        raise ValueError(
            f"censored expects one time and one observed for each row, got {lower.shape} and {seen.shape}."
        )
    return interval_censored(lower, np.where(seen.astype(bool), lower, np.inf))


def interval_censored(lower: ArrayLike, upper: ArrayLike) -> Array:  # (rows,), (rows,) -> (rows,)
    """Targets known to lie in (lower, upper]: after one visit and before the next.

    Args:
        lower: 0 where nothing is known but that the end came before `upper` (censored on the left).
        upper: The same as `lower` where the end is known; infinite where it had not come yet.

    Returns:
        A structured array with the fields "lower" and "upper", to be given as y.
    """
    ends = [np.asarray(end, dtype=np.float64) for end in (lower, upper)]
    if ends[0].ndim != 1 or ends[0].shape != ends[1].shape:
        raise ValueError(
            f"interval_censored expects a lower and an upper end for each row, got shapes {ends[0].shape} and "
            f"{ends[1].shape}."
        )
    wrong = ~(np.isfinite(ends[0]) & (ends[0] <= ends[1]))  # NaN is wrong, too
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"Censored targets expect a finite lower end, at most the upper one, got {ends[0][row]:g} and "
            f"{ends[1][row]:g} in row {row} (from 0)."
        )
    y = np.empty(len(ends[0]), _TYPE)
    y["lower"], y["upper"] = ends
    return y


def bounds_of(y: Any) -> Bounds | None:
    """The bounds of censored targets; None for others.

    Taken are arrays from `censored` and `interval_censored`, and those of scikit-survival, whose first field says
    whether the end was observed and whose second one when.
    """
    kind = getattr(y, "dtype", None)
    names = getattr(kind, "names", None)
    if kind is None or names is None:
        return None
    if names == _TYPE.names:
        checked = interval_censored(y["lower"], y["upper"])
    elif len(names) == 2 and kind[0] == np.dtype(bool):
        checked = censored(y[names[1]], y[names[0]])
    else:
        raise ValueError(
            "Censored targets expect an array from npn.censored(time, observed) or npn.interval_censored(lower, "
            f"upper), got fields {', '.join(names)}."
        )
    return Bounds(checked["lower"], checked["upper"])
