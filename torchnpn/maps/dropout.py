"""Dropout in closed form: the mask is a random variable like any other."""

from __future__ import annotations

import torch

from torchnpn.maps.elementwise import check
from torchnpn.moments import Moments


def dropout(a: Moments, p: float) -> Moments:
    """Moments of x · mask/(1 - p), where the mask is zero with probability p, for x ~ a of any family.

    The scaled mask has mean 1 and variance p/(1 - p), hence a_m unchanged and variance a_s/(1 - p) + a_m² p/(1 - p).
    """
    check("dropout", a)
    if not 0 <= p < 1:
        raise ValueError(f"dropout expects a probability p with 0 ≤ p < 1, got {p}.")
    if p == 0:
        return a
    wide = torch.promote_types(a.mean.dtype, torch.float32)
    m = a.mean.to(wide)
    s = m * m * p if a.variance is None else a.variance.to(wide) + m * m * p
    return Moments(a.mean, (s / (1 - p)).to(a.mean.dtype))
