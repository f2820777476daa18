"""Dropout in closed form: the mask is a random variable like any other."""

from __future__ import annotations

import torch
from torch import Tensor

from torchnpn.maps.elementwise import Pair, Partials, apply, check_moments, differentiable
from torchnpn.moments import Moments


def dropout(a: Moments, p: float) -> Moments:
    """Moments of x · mask/(1 - p), where the mask is zero with probability p, for x ~ a of any family.

    The scaled mask has mean 1 and variance p/(1 - p), hence a_m unchanged and variance a_s/(1 - p) + a_m² p/(1 - p).
    """
    check_moments("dropout", a)
    if not 0 <= p < 1:
        raise ValueError(f"dropout expects a probability p with 0 ≤ p < 1, got {p}.")
    if p == 0:
        return a
    random = a if a.variance is not None else Moments(a.mean, torch.zeros_like(a.mean))
    return apply("dropout", random, torch.clone, _masked, p)


def _values(m: Tensor, s: Tensor, p: float) -> Pair:
    return m, m * (m * (p / (1 - p))) + s * (1 / (1 - p))


def _partials(m: Tensor, s: Tensor, p: float) -> Partials:
    return torch.ones_like(m), torch.zeros_like(m), m * (2 * p / (1 - p)), torch.full_like(s, 1 / (1 - p))


_masked = differentiable(_values, _partials)
