"""What a layer takes: a tensor that is known exactly, or moments."""

from __future__ import annotations

import scipy.sparse
from torch import Tensor

from torchnpn.moments import Moments
from torchnpn.sparse import SparseBatch


def as_moments(a: Moments | Tensor) -> Moments:
    """`a` as moments; a tensor is a point. Sparse rows pass as they are, for a first linear layer."""
    if isinstance(a, Tensor):
        return Moments(a)
    if isinstance(a, (Moments, SparseBatch)) or scipy.sparse.issparse(a):
        return a
    raise TypeError(f"A layer expects a tensor or npn.Moments(mean, variance), got {type(a).__name__}.")
