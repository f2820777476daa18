"""Products of float32 matrices on a CPU, by the library that is faster there.

torch asks MKL, which takes AVX-512 on Intel's CPUs alone. oneDNN, which torch brings as well, takes it wherever there
is any: on others a product of a million terms or more is done in half the time, with the same float32 sums.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from torchnpn._torch import cpu_features, onednn_linear

_LEAST_TERMS = 1_000_000  # below, the longer way to oneDNN costs more than it saves


def product(x: Tensor, W: Tensor, b: Tensor | None = None) -> Tensor:  # (n, in), (out, in), (out,) -> (n, out)
    """x Wᵀ + b."""
    if _by_onednn(x, W):
        return onednn_linear(x, W, b)
    return x @ W.T if b is None else torch.addmm(b, x, W.T)


def add_product_(total: Tensor, x: Tensor, W: Tensor) -> Tensor:
    """total + x Wᵀ, in the memory of `total`."""
    return total.add_(onednn_linear(x, W, None)) if _by_onednn(x, W) else total.addmm_(x, W.T)


def _by_onednn(x: Tensor, W: Tensor) -> bool:
    many = x.shape[0] * W.shape[0] * W.shape[1] >= _LEAST_TERMS
    return many and x.dtype == W.dtype == torch.float32 and x.device.type == "cpu" and onednn_is_faster()


@cache
def onednn_is_faster() -> bool:
    """Whether this CPU has AVX-512 and MKL does not take it."""
    found = cpu_features()
    return found.has_avx512 and found.vendor not in ("", "GenuineIntel")
