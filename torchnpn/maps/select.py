"""Branches as arithmetic: on a CPU, comparing and `torch.where` cost many times a multiplication.

Only for branches whose difference is finite, and inside functions that bring their own derivatives: autograd does not
see a step.
"""

from __future__ import annotations

import torch
from torch import Tensor


def step(x: Tensor) -> Tensor:
    """1 where x > 0, else 0."""
    return (x.detach() * torch.finfo(x.dtype).max).clamp(0.0, 1.0)


def magnitude(x: Tensor) -> Tensor:
    """|x|; where a graph is recorded, with the slope -1 at zero: the side on which `step` puts it."""
    return x * (2 * step(x) - 1) if torch.is_grad_enabled() and x.requires_grad else x.abs()


def select(one: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """`a` where `one` is 1, `b` where it is 0."""
    return torch.lerp(b, a, one)
