"""From gradients to new parameters: the default Adam with its rates on the device, or any optimizer of torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from torchnpn.kernels import adam_
from torchnpn.training.recipe import ADAM, Recipe


class Averages(NamedTuple):
    """Adam's averages of one parameter, in the memory of the engine that has them."""

    parameter: Tensor
    first: Tensor  # of the gradient, of the parameter's shape
    second: Tensor  # of its square


class Update:
    """Changes parameters by their gradients. Its state is Adam's averages, or an optimizer and a scheduler of torch."""

    optimizer: Optimizer | None = None
    scheduler: LRScheduler | None = None  # which the host steps

    def step(self) -> None:
        """One step by the gradients that lie with the parameters."""

    @property
    def averages(self) -> list[Averages]:
        return []


class AdamUpdate(Update):
    """The recipe's default, with one rate for each replica, in a way that a CUDA graph can hold.

    Args:
        parameters: To change.
        now: Gives rate and correction of the step under way, (replicas, 3): see `kernels.adam_`.
    """

    def __init__(self, parameters: Sequence[Tensor], now: Callable[[], Tensor]) -> None:
        self.parameters, self._now = list(parameters), now
        self._both = [p.new_zeros(2, *p.shape) for p in self.parameters]

    def step(self) -> None:
        self.apply([p.grad for p in self.parameters])

    @torch.no_grad()
    def apply(self, gradients: Sequence[Tensor | None]) -> None:
        """One step by these gradients; a parameter without one stays as it is."""
        now = self._now()
        for parameter, gradient, averages in zip(self.parameters, gradients, self._both, strict=True):
            if gradient is not None:
                adam_(parameter, gradient, averages, now, *ADAM.betas, ADAM.epsilon)

    @property
    def averages(self) -> list[Averages]:
        return [Averages(p, *both) for p, both in zip(self.parameters, self._both, strict=True)]


class TorchUpdate(Update):
    """The recipe's optimizer and scheduler.

    Args:
        parameters: To change.
        recipe: Makes both.
        steps: Of an epoch.
        captured: Whether a CUDA graph is to hold the step.

    Raises:
        ValueError: If it cannot.
    """

    def __init__(self, parameters: Sequence[Tensor], recipe: Recipe, steps: int, captured: bool) -> None:
        if np.ndim(recipe.learning_rate):
            raise ValueError("one learning rate for each replica needs the default optimizer and scheduler")
        self.optimizer = optimizer = recipe.optimizer(parameters, float(recipe.learning_rate))  # type: ignore[arg-type]
        if captured:
            _make_capturable_(optimizer, parameters[0].device)
        self.scheduler = None if recipe.scheduler is None else recipe.scheduler(optimizer, recipe.epochs * steps)
        self.step = optimizer.step  # type: ignore[method-assign]


def _make_capturable_(optimizer: Optimizer, device: torch.device) -> None:
    for group in optimizer.param_groups:
        if "capturable" not in group:
            raise ValueError(f"{type(optimizer).__name__} cannot be recorded in a CUDA graph")
        group["capturable"] = device.type == "cuda"
        group["lr"] = torch.tensor(group["lr"], device=device)
