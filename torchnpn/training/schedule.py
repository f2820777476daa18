"""What changes from step to step, as numbers known before an epoch: Adam's rates and the weight of the KL."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from torchnpn.training.recipe import ADAM, Recipe


def schedule(
    recipe: Recipe, number: int, steps: int, rows: float, replicas: int
) -> NDArray[np.float32]:  # (steps, R, 3)
    """For each step of epoch `number` and each replica: Adam's rate, its correction of the second average, and β/N.

    With t steps taken of T in all: lr · ½ (1 + cos(π t/T))/(1 - β₁^(t+1)), 1/√(1 - β₂^(t+1)).
    """
    b1, b2 = ADAM.betas
    total = recipe.epochs * steps
    taken = number * steps + np.arange(steps, dtype=np.float64)
    rate = np.broadcast_to(np.asarray(recipe.learning_rate, dtype=np.float64), (steps, replicas)).copy()
    if recipe.scheduler is not None:
        rate *= 0.5 * (1 + np.cos(math.pi * taken / total))[:, None]
    rate /= (1 - b1 ** (taken + 1))[:, None]
    correction = np.broadcast_to((1 / np.sqrt(1 - b2 ** (taken + 1)))[:, None], (steps, replicas))
    beta = np.stack([np.broadcast_to(recipe.kl_weight(t / total), (replicas,)) for t in taken])
    return np.stack([rate, correction, beta / rows], axis=-1).astype(np.float32)
