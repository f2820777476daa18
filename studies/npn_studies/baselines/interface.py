"""The interface that all baselines share, and the settings they have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from npn_studies.baselines.predicted import Predicted
from npn_studies.baselines.replicas import Number


class Fitted(Protocol):
    """A trained baseline."""

    def predict(self, x: Tensor) -> Predicted:  # (rows, inputs) or (replicas, rows, inputs)
        """The predictive distribution of each row, on the device of the settings.

        Rows without a leading dimension are asked of all replicas; the answer has the dimension if `fit` got it.
        """


class Baseline(Protocol):
    """Settings of a method, frozen; `baseline.fit(x, y).predict(x_new)` is all there is to call."""

    def fit(self, x: Tensor, y: Tensor) -> Fitted:
        """A network, or one for each replica.

        Args:
            x: Standardised inputs (rows, inputs) or (replicas, rows, inputs); `x.expand(replicas, -1, -1)` is not
                copied.
            y: Real targets (…, rows, 1) or int64 labels (…, rows).
        """


@dataclass(frozen=True)
class Settings:
    """The network and its training.

    Attributes:
        hidden: Units in each hidden layer.
        activation: "relu" or "tanh".
        epochs: Passes over the rows.
        batch_size: Rows of a step; all rows, where there are fewer.
        learning_rate: Of Adam; a tuple has one for each replica.
        schedule: Of the learning rate: "constant", or "cosine", which falls to zero along half a cosine.
        seed: Decides the initial weights, the order of rows and all draws.
        device: Where the network is.
    """

    hidden: tuple[int, ...] = (50,)
    activation: str = "relu"
    epochs: int = 100
    batch_size: int = 32
    learning_rate: Number = 1e-3
    schedule: str = "constant"
    seed: int = 0
    device: str = "cpu"
