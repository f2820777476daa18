"""The loss of a batch with its gradients, and what closed forms of them share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class LossGradient(NamedTuple):
    """The loss of a batch, with its gradients."""

    rows: Array  # (*replicas, batch) share · loss of each row
    by_mean: Array  # (*replicas, batch, outputs)
    by_variance: Array  # (*replicas, batch, outputs)
    by_parameters: list[Array]  # in the order of the likelihood's `parameters()`


ClosedForm = Callable[..., LossGradient | None]  # of (m, s, y, share, *what the likelihood has learnt)


def if_finite(result: LossGradient) -> LossGradient | None:
    """None where a closed form has left float32; the gradient of the noise sums up all that may leave it."""
    finite = np.isfinite(result.rows).all() and all(np.isfinite(part).all() for part in result.by_parameters)
    return result if finite else None


def within(x: Array, limit: float) -> bool:
    """Whether the likelihood takes all of x as it is."""
    return bool(np.abs(x).max() <= limit)


def drawn_back(x: Array, limit: float) -> tuple[Array, Array | float]:
    """`likelihoods.guards.soft_clamp`, and its slope: 1 up to the limit L, 1/(1 + 10 z)² at z = |x|/L - 1 beyond."""
    if within(x, limit):
        return x, 1.0
    excess = np.maximum(np.abs(x) / limit - 1, 0.0)
    return np.where(excess > 0, np.sign(x) * limit * (1 + excess / (1 + 10 * excess)), x), (1 + 10 * excess) ** -2


def of_parameter(by_element: Array, count: int) -> Array:  # (*replicas, batch, targets) -> (*replicas, count)
    """The gradient of learnt numbers, one for each target, or a single one."""
    by_target = by_element.sum(-2)
    total = by_target if by_target.shape[-1] == count else by_target.sum(-1, keepdims=True)
    gradient: Array = total.astype(np.float32)
    return gradient
