"""Rows moved against their targets in the training of baselines."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from torchnpn.baselines.replicas import Number, Replicas
from torchnpn.training.adversarial import pushed

Push = Callable[[Callable[[Tensor], Tensor], Tensor], Tensor]


def pushing(replicas: Replicas, adversarial: Number) -> Push:
    """A function of a loss and of rows that moves each row by `adversarial` to where the loss is larger."""
    radius = replicas.number("adversarial", adversarial)
    return (lambda loss, x: pushed(loss, x, radius)) if bool(radius.any()) else (lambda loss, x: x)
