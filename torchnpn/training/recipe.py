"""How to train: one record of settings, and ramps for the weight of the KL."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from torchnpn.kernels import checked_precision

Rule = tuple[str, float, float, float]  # of an optimizer: see `kernels.step_`
ADAM: Rule = "adam", 0.9, 0.99, 1e-8
ADADELTA: Rule = "adadelta", 0.9, 0.9, 1e-6


class Ramp(Protocol):
    """The weight β of the KL as a function of the progress of training, from 0 to 1; an array has one per replica."""

    def __call__(self, progress: float, /) -> Any: ...


def constant(beta: Any) -> Ramp:
    """The same β throughout."""
    return lambda progress: beta


def linear_ramp(stop: Any = 1.0, until: float = 0.8) -> Ramp:
    """β from 0 to `stop` in equal steps over the first part of training, then constant."""
    return lambda progress: stop * min(progress / until, 1.0)


def geometric_ramp(start: Any = 0.01, stop: Any = 1.0, until: float = 0.8) -> Ramp:
    """β from `start` to `stop` in equal ratios over the first part of training, then constant."""
    return lambda progress: start * (stop / start) ** min(progress / until, 1.0)


def adam(parameters: Iterable[Tensor], lr: float) -> Optimizer:
    """Adam with β₂ = 0.99, in torch's fused form."""
    return torch.optim.Adam(parameters, lr, betas=ADAM[1:3], eps=ADAM[3], fused=True)


def adadelta(parameters: Iterable[Tensor], lr: float = 1.0) -> Optimizer:
    """AdaDelta (Zeiler 2012), the paper's optimizer: it finds its own rates, so that `lr` is 1."""
    return torch.optim.Adadelta(parameters, lr, rho=ADADELTA[1], eps=ADADELTA[3])


OPTIMIZERS: dict[str, Callable[[Iterable[Tensor], float], Optimizer]] = {
    "adam": adam,
    "adadelta": adadelta,
    "adagrad": torch.optim.Adagrad,
    "rmsprop": torch.optim.RMSprop,
    "sgd": torch.optim.SGD,
}
"""Optimizers by name; any other of torch's goes into `Recipe(optimizer=...)`."""


def half_cosine(taken: Any, total: int) -> Any:
    """From 1 to 0 along half a cosine, after `taken` of `total` steps."""
    return 0.5 * (1 + np.cos(math.pi * taken / total))


def cosine(optimizer: Optimizer, steps: int) -> LRScheduler:
    """The learning rate falls to zero along half a cosine over all steps."""
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)


@dataclass(frozen=True)
class Recipe:
    """Settings of `train`.

    Attributes:
        epochs: Passes over the data.
        batch_size: Rows in a minibatch.
        learning_rate: Handed to `optimizer`. Several, one for each replica, need the default optimizer.
        optimizer: Makes an optimizer from parameters and the learning rate; any of torch's, by `functools.partial`.
        scheduler: Makes a scheduler, stepped once a minibatch, from the optimizer and the number of steps; or None.
        kl_weight: β as a function of progress in [0, 1]; on a GPU it is asked at the beginning of each epoch. On small
            data a ramp decides everything: the full weight from the start prunes units for ever, none at all leaves
            the variances useless.
        adversarial: How far each row is moved against its target before it is learnt from (`training.adversarial`), in
            the units of the inputs; 0 for not at all. Several have one for each replica. Doubles the time of a step.
        clip_norm: Largest norm of the gradient, or None.
        patience: Epochs without a better validation loss before training stops, or None for all epochs.
        seed: Decides the order of rows and sampled dropout; two runs with one seed are identical.
        compile: Whether to compile the forward pass with `torch.compile`; never needed.
        precision: Of matrix products on a GPU: "fast" or "float32" (`kernels.precision`).
    """

    epochs: int = 100
    batch_size: int = 128
    learning_rate: float | Sequence[float] = 1e-3
    optimizer: Callable[[Iterable[Tensor], float], Optimizer] = adam
    scheduler: Callable[[Optimizer, int], LRScheduler] | None = cosine
    kl_weight: Ramp = field(default_factory=partial(linear_ramp))
    adversarial: float | Sequence[float] = 0.0
    clip_norm: float | None = None
    patience: int | None = None
    seed: int = 0
    compile: bool = False
    precision: str = "fast"

    @property
    def rule(self) -> Rule | None:
        """Of `adam` or `adadelta` with the scheduler `cosine` or none: engines of a GPU compute these themselves."""
        if self.scheduler not in (None, cosine):
            return None
        return ADAM if self.optimizer is adam else ADADELTA if self.optimizer is adadelta else None

    @property
    def has_default_optimizer(self) -> bool:
        """Whether the optimizer is `adam` and the scheduler `cosine` or none, for which engines have their own."""
        return self.rule is ADAM

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "seed", *(["patience"] if self.patience is not None else [])):
            if not isinstance(value := getattr(self, name), numbers.Integral):
                raise ValueError(f"Recipe expects {name} to be a whole number, got {value!r:.80}.")
        for name in ("epochs", "batch_size", "learning_rate"):
            if not np.all(self._numbers(name) > 0):
                raise ValueError(f"Recipe expects {name} > 0, got {getattr(self, name)}.")
        if not -(2**63) <= self.seed < 2**63:
            raise ValueError("Recipe expects a seed that 64 bits can hold, got a larger number.")
        for name in ("learning_rate", "adversarial"):
            if not np.all((self._numbers(name) >= 0) & (self._numbers(name) < np.inf)):
                raise ValueError(f"Recipe expects {name} ≥ 0 and finite, got {getattr(self, name)}.")
        if self.clip_norm is not None and not self._numbers("clip_norm") > 0:
            raise ValueError(f"Recipe expects clip_norm > 0, or None, got {self.clip_norm}.")
        checked_precision(self.precision)

    def _numbers(self, name: str) -> NDArray[np.float64]:
        try:
            return np.asarray(getattr(self, name), dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            found = type(getattr(self, name)).__name__
            raise ValueError(f"Recipe expects {name} to be a number that float64 can hold, got {found}.") from None


def rates_of(recipe: Recipe, steps: int, taken: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rate and correction, as `kernels.step_` has them, in the step after t = `taken` of T = epochs · steps.

    Of Adam lr · ½ (1 + cos(π t/T))/(1 - β₁^(t+1)) and 1/√(1 - β₂^(t+1)), of AdaDelta lr · ½ (1 + cos(π t/T)) and 1;
    without a scheduler the cosine is left out.
    """
    t = taken.astype(np.float64)
    share = 1.0 if recipe.scheduler is None else half_cosine(t, recipe.epochs * steps)
    rate = np.asarray(recipe.learning_rate, dtype=np.float64) * share
    if recipe.rule is ADADELTA:
        return rate, np.ones_like(t)
    _, b1, b2, _ = ADAM
    return rate / (1 - b1 ** (t + 1)), 1 / np.sqrt(1 - b2 ** (t + 1))
