"""The interface that all baselines share, and the settings they have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from torchnpn.baselines.predicted import Predicted
from torchnpn.baselines.tasks import Task


class Fitted(Protocol):
    """A trained baseline."""

    def predict(self, x: Tensor) -> Predicted:  # (rows, inputs)
        """The predictive distribution of each row, on the device of the settings."""


class Baseline(Protocol):
    """Settings of a method, frozen; `baseline.fit(x, y).predict(x_new)` is all there is to call."""

    def fit(self, x: Tensor, y: Tensor) -> Fitted:  # (rows, inputs), (rows, 1) or (rows,)
        """A network trained on standardised inputs, and real targets (rows, 1) or int64 labels (rows,)."""


@dataclass(frozen=True)
class Settings:
    """The network and its training.

    Attributes:
        hidden: Units in each hidden layer.
        activation: "relu" or "tanh".
        epochs: Passes over the rows.
        batch_size: Rows of a step; all rows, where there are fewer.
        learning_rate: Of Adam.
        decay: The learning rate falls exponentially to this share of itself.
        seed: Decides the initial weights, the order of rows and all draws.
        device: Where the network is.
    """

    hidden: tuple[int, ...] = (50,)
    activation: str = "relu"
    epochs: int = 100
    batch_size: int = 32
    learning_rate: float = 1e-3
    decay: float = 1.0
    seed: int = 0
    device: str = "cpu"


class Predictor(NamedTuple):
    """A trained baseline, by its function of rows on the device.

    Attributes:
        answer: The function; it is called without gradients.
        settings: Those of the baseline.
    """

    answer: Callable[[Tensor], Predicted]
    settings: Settings

    @torch.no_grad()
    def predict(self, x: Tensor) -> Predicted:
        """See `Fitted`."""
        return self.answer(x.to(self.settings.device))


def training_rows(x: Tensor, y: Tensor, task: Task, settings: Settings) -> tuple[Tensor, Tensor]:
    """Inputs and targets on the device.

    Raises:
        ValueError: If they are not rows of finite numbers with a target of the task for each.
    """
    if x.dim() != 2 or not x.is_floating_point() or len(x) == 0 or not x.isfinite().all():
        raise ValueError(
            f"fit expects finite floating-point x (rows, inputs), at least one row; got {x.dtype} of shape "
            f"{tuple(x.shape)}. Fill in missing values first."
        )
    y = task.checked(y)
    if len(y) != len(x):
        raise ValueError(f"fit expects one target for each row, got {len(x)} rows and {len(y)} targets.")
    return x.to(settings.device), y.to(settings.device, x.dtype if y.is_floating_point() else None)
