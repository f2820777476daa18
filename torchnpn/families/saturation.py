"""What lies beyond a floating-point type: values saturate at its largest finite number, as the contract has it."""

from __future__ import annotations

import torch
from torch import Tensor


def saturated(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """x in the given type (its own by default), at the type's largest finite number where it lies beyond."""
    dtype = dtype or x.dtype
    most = torch.finfo(dtype).max
    return x.clamp(-most, most).to(dtype)


def positive(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x > 0 in the given type, between its smallest normal and its largest finite number."""
    limits = torch.finfo(dtype)
    return x.clamp(limits.tiny, limits.max).to(dtype)


def difference(a: Tensor, b: Tensor, scale: Tensor) -> Tensor:
    """(a - b)/scale, also where a - b itself is beyond the type."""
    return saturated(2 * ((0.5 * a - 0.5 * b) / scale))
