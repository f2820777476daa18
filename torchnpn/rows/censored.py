"""Censored targets as networks learn them: columns (lower, upper), in units, and where their outputs start."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchnpn.likelihoods import BY_NAME, Likelihood, Units
from torchnpn.rows.targets import in_network_units

Array = NDArray[Any]


def check_kind(kind: type[Likelihood], family: str, columns: Array) -> None:
    """Raise for a kind of target that has no loss of a range, and where no end was seen."""
    if not kind.takes_bounds:
        names = ", ".join(f'"{name}"' for name, one in BY_NAME.items() if one.takes_bounds)
        raise ValueError(f'Censored targets go with families of durations: {names}; got family="{family}".')
    if not np.isfinite(columns[:, 1]).any():
        raise ValueError("Censored targets expect some rows whose end was seen, got none: nothing is known of any end.")


def points(columns: Array) -> Array:  # (rows, 2) -> (rows, 1)
    """One number for each row: what is known, the middle of a range, or where one without an end begins."""
    lower, upper = columns[:, :1], columns[:, 1:]
    middle: Array = np.where(np.isfinite(upper), 0.5 * lower + 0.5 * np.where(np.isfinite(upper), upper, 0), lower)
    return middle


def in_units(likelihood: Likelihood, columns: Array, units: Units) -> Array:
    """Both ends in float32; 0 and infinity stay what they are, and are no targets themselves."""
    none, endless = columns <= 0, np.isinf(columns)
    known = np.where(none | endless, columns[:, ::-1], columns)  # the other end
    t = in_network_units(likelihood, np.where((known > 0) & np.isfinite(known), known, units.scale), units)
    ends: Array = np.where(none, np.float32(0), np.where(endless, np.float32(np.inf), t))
    return ends


def start(kind: type[Likelihood], t: Array, weight: Array | None) -> Array:
    """That of `points`, and log(rows/rows whose end was seen): as much as an exponential variable says."""
    seen = np.average(np.isfinite(t[:, 1]), weights=weight)
    first: Array = kind.start(points(t), weight)
    return np.asarray(first - np.log(max(float(seen), 1e-3)))
