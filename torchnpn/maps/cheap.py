"""Sigmoid and tanh of a Gaussian variable in a few plain operations: mean to 1e-3, variance to 1e-2."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torchnpn.finite import saturated
from torchnpn.maps import normal
from torchnpn.maps.elementwise import Pair, apply, by_autograd
from torchnpn.moments import Moments


def sigmoid(o: Moments) -> Moments:
    """Moments of σ(x) for Gaussian x.

    a_m = P = w σ(m/√(1 + 0.845 πs/8)) + (1 - w) Φ(m/√(s + 3.175)) with w = (1 + 0.365 s)^-1.597,
    a_s = PQ x/(r (1 + r)) with Q = 1 - P, x = 2PQ s (1 + 0.157 s)/(1 + 0.2 s), r = √(1 + x): zero at s = 0, at most PQ.
    """
    return apply("cheap.sigmoid", o, torch.sigmoid, _sigmoid)


def tanh(o: Moments) -> Moments:
    """Moments of tanh(x) = 2σ(2x) - 1 for Gaussian x."""
    return apply("cheap.tanh", o, torch.tanh, _tanh)


@by_autograd
def _sigmoid(m: Tensor, s: Tensor) -> Pair:
    P, _, variance = _both_sides(m, s, 1.0)
    return P, variance


@by_autograd
def _tanh(m: Tensor, s: Tensor) -> Pair:
    P, Q, variance = _both_sides(m, s, 2.0)
    return P - Q, 4 * variance


def _both_sides(m: Tensor, s: Tensor, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """P, Q and the variance for σ(scale · x); `scale` is applied where nothing overflows."""
    P, Q = _mean(m, s, scale), _mean(-m, s, scale)
    grown = saturated(scale**2 * s)
    x = 2 * P * Q * grown * (0.785 + 0.215 / (1 + 0.2 * grown))
    r = torch.sqrt(1 + x)
    return P, Q, P * Q * (x / (r * (1 + r)))


def _mean(m: Tensor, s: Tensor, scale: float) -> Tensor:
    w = (1 + 0.365 * scale**2 * s) ** -1.597
    narrow = torch.sigmoid(m * torch.rsqrt(scale**-2 + 0.845 * math.pi / 8 * s))
    wide = normal.cdf(m * torch.rsqrt(s + 3.175 * scale**-2))
    return w * narrow + (1 - w) * wide
