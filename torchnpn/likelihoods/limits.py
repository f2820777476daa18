"""How far latent numbers may go before a loss leaves floating point, and what happens to those beyond.

Within the limits nothing changes. Beyond, a number is drawn back by a smooth, rising function, so that the loss stays
finite and its gradient still points the right way. Latent values that far out mean that training has gone astray.
"""

from __future__ import annotations

import torch
from torch import Tensor

LOG_MEAN = 30.0  # means of amounts and counts are taken as they are from 1e-13 to 1e13
LOG_VARIANCE = 20.0  # noise variances and precisions from 2e-9 to 5e8, relative variances up to 5e8


def soft_clamp(x: Tensor, limit: Tensor | float) -> Tensor:
    """x for |x| ≤ limit; beyond, a rising function of x that stays within 1.1 · limit."""
    scaled = x / limit
    inner = scaled.clamp(-1.0, 1.0)
    excess = scaled - inner
    return limit * (inner + excess / (1 + 10 * excess.abs()))


def clamp_straight_through(x: Tensor, low: float, high: float = torch.inf) -> Tensor:
    """x within [low, high], with the gradient of x itself: what has left the interval can find its way back."""
    fixed = x.detach()
    return fixed.clamp(low, high) + (x - fixed)
