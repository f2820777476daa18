"""Adam on one tensor, in one launch."""

from __future__ import annotations

import triton
from torch import Tensor

from torchnpn.kernels.triton.update import adam_kernel

_BLOCK = 1024


def adam_(x: Tensor, gradient: Tensor, averages: Tensor, now: Tensor, b1: float, b2: float, epsilon: float) -> None:
    """See `kernels.adam_`; `x` and `averages` are contiguous."""
    replicas = len(now)
    size = x.numel() // replicas
    adam_kernel[(triton.cdiv(size, _BLOCK), replicas)](
        x, gradient.contiguous(), averages, now, size, B1=b1, B2=b2, EPSILON=epsilon, BLOCK=_BLOCK
    )
