"""Rows moved against their targets in the training of baselines."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from npn_studies.baselines.replicas import Number, Replicas
from torchnpn.training import adversarial_rows

Push = Callable[[Callable[[Tensor], Tensor], Tensor], Tensor]


def pushing(replicas: Replicas, adversarial: Number) -> Push:
    """A function of a loss and of rows that moves each row by `adversarial` to where the loss is larger.

    Raises:
        ValueError: If a number is negative or not finite.
    """
    radius = replicas.number("adversarial", adversarial)
    if not bool(((radius >= 0) & radius.isfinite()).all()):
        raise ValueError(f"adversarial expects numbers ≥ 0 and finite, got {adversarial}.")
    return (lambda loss, x: adversarial_rows(loss, x, radius)) if bool(radius.any()) else (lambda loss, x: x)
