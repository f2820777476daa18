"""Predictive distributions of numbers, calibrated by the levels at which held-out targets fell in theirs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from torchnpn.conformal.held_out import Array, HeldOut
from torchnpn.families import Calibrated, Distribution, Mixture, Parametric


def levels(distribution: Distribution, y: Array, generator: np.random.Generator) -> Array:
    """P(x < y) + v P(x = y), v uniform on [0, 1): uniform if the distribution is right, also where it has atoms."""
    at, below = (
        distribution.cdf(torch.from_numpy(np.array(t))).double().numpy() for t in (y, np.nextafter(y, -np.inf))
    )
    return np.asarray(np.clip(below + generator.random(at.shape) * (at - below), 0.0, 1.0))


def calibrated(parts: Sequence[Distribution], held_out: HeldOut) -> Calibrated:
    """What is predicted for new rows, by each part, with the levels of the rows that it has not seen."""
    known = [part for part in parts if isinstance(part, Parametric | Mixture)]
    return Calibrated(tuple(known), held_out.by_part)
