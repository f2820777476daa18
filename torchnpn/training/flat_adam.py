"""Adam with a cosine schedule for one flat array, in numpy.

torch's optimizers load torch's compiler when they are made, two to four seconds of a process that may train for two;
and a step of theirs costs as much as a tenth of a small network's whole step. The formulas are torch's.
"""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from torchnpn.training.recipe import ADAM


class FlatAdam:
    """Changes `parameter` in place by its `.grad`, in the memory that both have now.

    Args:
        parameter: A flat float32 tensor on the CPU, with a gradient.
        learning_rate: At the start.
        steps: Over which it falls to zero along half a cosine; None for a constant one.
    """

    def __init__(self, parameter: Tensor, learning_rate: float, steps: int | None) -> None:
        assert parameter.grad is not None
        self.numbers, self.gradient = parameter.detach().numpy(), parameter.grad.numpy()
        self.learning_rate, self.steps, self.taken = learning_rate, steps, 0
        self.first, self.second = np.zeros_like(self.numbers), np.zeros_like(self.numbers)

    def step(self) -> None:
        rate = self.learning_rate
        if self.steps is not None:
            rate *= 0.5 * (1 + math.cos(math.pi * self.taken / self.steps))
        self.taken += 1
        g, (b1, b2) = self.gradient, ADAM.betas
        self.first *= b1
        self.first += (1 - b1) * g
        self.second *= b2
        self.second += (1 - b2) * g * g
        below = np.sqrt(self.second)
        below *= 1 / math.sqrt(1 - b2**self.taken)
        below += ADAM.epsilon
        np.divide(self.first, below, out=below)
        below *= rate / (1 - b1**self.taken)
        self.numbers -= below
