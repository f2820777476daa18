"""Sigmoid and tanh of a Gaussian variable in a few plain operations: mean to 1e-3, variance to 1e-2."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torchnpn.maps import normal
from torchnpn.maps.elementwise import Pair, apply
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


def _sigmoid(m: Tensor, s: Tensor) -> Pair:
    P, Q = _mean(m, s), _mean(-m, s)
    x = 2 * P * Q * s * ((1 + 0.157 * s) / (1 + 0.2 * s))
    r = torch.sqrt(1 + x)
    return P, P * Q * (x / (r * (1 + r)))


def _tanh(m: Tensor, s: Tensor) -> Pair:
    P, variance = _sigmoid(2 * m, 4 * s)
    return P - _mean(-2 * m, 4 * s), 4 * variance


def _mean(m: Tensor, s: Tensor) -> Tensor:
    w = (1 + 0.365 * s) ** -1.597
    narrow = torch.sigmoid(m * torch.rsqrt(1 + 0.845 * math.pi / 8 * s))
    wide = normal.cdf(m * torch.rsqrt(s + 3.175))
    return w * narrow + (1 - w) * wide
