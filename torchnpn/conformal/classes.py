"""Probabilities of classes, softened or sharpened by held-out rows, and sets of classes that hold the right one."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from torchnpn.conformal.held_out import Array, HeldOut

_LEAST = 1e-300  # of a probability whose logarithm is taken
_RANGE = 0.05, 20.0  # of a temperature
_ROUNDING = 1e-9


def temperature(probs: Array, labels: Array) -> float:
    """The T for which p^(1/T), brought to a sum of one, makes held-out labels most likely (Guo and others, 2017).

    Above 1, probabilities were too sure of themselves. The logarithm of the likelihood is concave in 1/T, so that a
    search along a line finds its maximum.

    Args:
        probs: (rows, classes) of rows that were not used in training.
        labels: (rows,) their classes, from 0.
    """
    logs, rows = np.log(np.maximum(probs, _LEAST)), np.arange(len(labels))

    def loss(b: float) -> float:
        return float(-log_softmax(b * logs, axis=1)[rows, labels].mean())

    coldest, hottest = _RANGE
    found = minimize_scalar(loss, bounds=(1 / hottest, 1 / coldest), method="bounded", options={"xatol": 1e-6})
    return float(1 / found.x)


def softened(probs: Array, temperature: float) -> Array:  # (…, classes) -> (…, classes)
    """p^(1/T), brought to a sum of one."""
    return np.asarray(softmax(np.log(np.maximum(probs, _LEAST)) / temperature, axis=-1))


def class_scores(probs: Array, labels: Array) -> Array:  # (rows, classes), (rows,) -> (rows, 1)
    """1 - p of each label: how little it was expected."""
    return np.asarray(1 - np.clip(np.take_along_axis(probs, labels[:, None], 1), 0.0, 1.0))


def class_sets(probs: Array, held_out: HeldOut, level: float) -> Array:  # (parts, rows, classes) -> (rows, classes)
    """Which classes are no less expected than the labels of held-out rows were, all but the share 1 - level of them.

    A class is in the set of its row if (1 + Σ_k #{held-out scores ≥ 1 - p_k})/(n + 1) > 1 - level; the most probable
    class always is.

    Raises:
        ValueError: If there are too few held-out rows for a level as high.
    """
    scores, outside = held_out.by_part, 1 - level
    n = len(held_out.part)
    if n + 1 < 1 / outside - _ROUNDING:
        raise ValueError(
            f"A set of level {level:g} expects at least {int(np.ceil(1 / outside - 1 - _ROUNDING))} held-out rows, got "
            f"{n}. Take a level of at most {1 - 1 / (n + 1):.4g}, or calibrate on more rows."
        )
    above = [len(s) - np.searchsorted(np.sort(s[:, 0]), 1 - p, "left") for p, s in zip(probs, scores, strict=True)]
    inside = (1 + np.sum(above, axis=0)) / (n + 1) > outside + _ROUNDING
    inside[np.arange(len(inside)), probs.mean(0).argmax(1)] = True
    return np.asarray(inside)
