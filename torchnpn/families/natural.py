"""Natural parameters η as tuples of tensors: what the log-partition function A(η) is asked for."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def derivatives(A: Callable[..., Tensor], eta: tuple[Tensor, ...], i: int) -> tuple[Tensor, Tensor]:
    """∂A/∂η_i and ∂²A/∂η_i², element by element, with gradients of their own."""

    def total(eta_i: Tensor) -> Tensor:
        return A(*eta[:i], eta_i, *eta[i + 1 :]).sum()  # an element of A depends on its own element of η alone

    def total_first(eta_i: Tensor) -> tuple[Tensor, Tensor]:
        first = torch.func.grad(total)(eta_i)
        return first.sum(), first

    second, first = torch.func.grad(total_first, has_aux=True)(eta[i])
    return first, second


def in_float64(eta: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The same, of one shape."""
    return tuple(torch.broadcast_tensors(*(e.double() for e in eta)))


def shifted(eta: tuple[Tensor, ...], i: int, t: float) -> tuple[Tensor, ...]:
    """η - t e_i, at which Theorem 1 takes the log-partition function."""
    return (*eta[:i], eta[i] - t, *eta[i + 1 :])
