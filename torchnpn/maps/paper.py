"""Sigmoid and tanh of a Gaussian variable as the paper prints them (Eqs. 5-6), for comparison.

The approximation of σ² leaves a variance of up to 0.027 (tanh: 0.108) where the input has none, for a point too.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torchnpn.maps.elementwise import Pair, apply, by_autograd
from torchnpn.moments import Moments

ALPHA, BETA, ZETA2 = 4 - 2 * math.sqrt(2), -math.log(math.sqrt(2) + 1), math.pi / 8  # α, β, ζ²


def sigmoid(o: Moments) -> Moments:
    """a_m = σ(m/√(1 + ζ² s)),  a_s = σ(α (m + β)/√(1 + ζ² α² s)) - a_m²."""
    return apply("paper.sigmoid", _explicit(o), torch.sigmoid, _sigmoid)


def tanh(o: Moments) -> Moments:
    """The same for tanh(x) = 2σ(2x) - 1."""
    return apply("paper.tanh", _explicit(o), torch.tanh, _tanh)


def _explicit(o: Moments) -> Moments:
    """A point as a variance of zero: the printed formulas give it a variance of its own."""
    return o._replace(variance=torch.zeros_like(o.mean)) if isinstance(o, Moments) and o.variance is None else o


@by_autograd
def _sigmoid(m: Tensor, s: Tensor) -> Pair:
    return _moments(m, s, 1.0)


@by_autograd
def _tanh(m: Tensor, s: Tensor) -> Pair:
    a_m, a_s = _moments(m, s, 2.0)
    return 2 * a_m - 1, 4 * a_s


def _moments(m: Tensor, s: Tensor, scale: float) -> Pair:
    """Of σ(scale · x): α/√(1 + ζ² α² s) is written 1/√(α⁻² + ζ² s), which no number of the type can make overflow."""
    a_m = torch.sigmoid(m * torch.rsqrt(scale**-2 + ZETA2 * s))
    second = torch.sigmoid((m + BETA / scale) * torch.rsqrt((scale * ALPHA) ** -2 + ZETA2 * s))
    return a_m, (second - a_m * a_m).clamp_min(0.0)  # rounding alone makes it negative
