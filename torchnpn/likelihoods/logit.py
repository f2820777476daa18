"""Probabilities of uncertain logits, kept away from zero so that each has a logarithm."""

from __future__ import annotations

import torch
from torch import Tensor

from torchnpn import maps
from torchnpn.likelihoods.limits import soft_clamp
from torchnpn.moments import Moments

FOLDED_MEAN, FOLDED_VARIANCE, FOLDED_SCALE = 15.0, 4.0, 3.0
_MOST_VARIANCE = 1e30  # of a logit: beyond, nothing is known about the answer


def logit(m: Tensor, s: Tensor) -> Moments:
    """The logit N(m, s), with m limited to where E σ(x) and E σ(-x) are above about 1e-25.

    Their tail is exp(-|m| + s/2) for small variances and Φ(-|m|/√s) for large ones: |m| ≤ √(50² + 90 s) covers both.
    """
    s = soft_clamp(s, _MOST_VARIANCE)
    return Moments(soft_clamp(m, torch.sqrt(2500 + 90 * s)), s)


def folded(m: Tensor, s: Tensor) -> Moments:
    """The logit N(m, s), with a variance of at most 4 and within ±15 (`soft_clamp`), of nearly the same probability.

    For s > 4 it is N(m √(7/(s + 3)), 4): E σ is right to 0.003. Sums over few nodes then give its moments, and
    "surely" is a ten-millionth.
    """
    excess = (s - FOLDED_VARIANCE).clamp_min(0.0)
    shrunk = m * torch.rsqrt(1 + excess / (FOLDED_VARIANCE + FOLDED_SCALE))
    return Moments(soft_clamp(shrunk, FOLDED_MEAN), s - excess)


def sigmoid_parts(x: Moments) -> tuple[Tensor, Tensor, Tensor]:
    """P = E σ(x), 1 - P with its own digits, and the share ρ = Var σ(x)/P(1 - P) in [0, 1], for a logit x."""
    above, V = maps.sigmoid(x)
    below = maps.sigmoid(-x).mean
    assert V is not None
    return above, below, (V / (above * below)).clamp_max(1.0)
