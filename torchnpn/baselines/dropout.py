"""Dropout in training, and in prediction too: MC dropout (Gal and Ghahramani 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from torchnpn.baselines.interface import Fitted, Predictor, Settings, training_rows
from torchnpn.baselines.loop import seeded
from torchnpn.baselines.network import Network
from torchnpn.baselines.plain import train
from torchnpn.baselines.predicted import Predicted
from torchnpn.baselines.tasks import Task


@dataclass(frozen=True)
class DropoutNetwork:
    """A network trained with dropout; it predicts once, with the mean of the masks.

    For a GP with length scale l and noise precision τ, Gal and Ghahramani take `noise_std` = τ^-½ in the task and
    `prior_precision` = (1 - rate) l².

    Attributes:
        task: `Regression`, `HeteroscedasticRegression` or `Classes`.
        settings: The network and its training.
        rate: Probability of dropping a hidden unit.
        input_rate: Probability of dropping an input.
        prior_precision: λ in the penalty (λ / 2N) Σ w².
    """

    task: Task
    settings: Settings
    rate: float = 0.5
    input_rate: float = 0.0
    prior_precision: float = 0.0

    def fit(self, x: Tensor, y: Tensor) -> FittedDropout:
        """See `Baseline`."""
        x, y = training_rows(x, y, self.task, self.settings)
        with seeded(self.settings.seed, self.settings.device):
            network = Network(x, self.task, self.settings, self.rate, self.input_rate)
            train(network, x, y, self.settings, self.prior_precision)
        return FittedDropout(network, self.settings)


class FittedDropout(NamedTuple):
    """A network trained with dropout, that can be asked in both ways."""

    network: Network
    settings: Settings

    @torch.no_grad()
    def predict(self, x: Tensor) -> Predicted:
        """One pass, with every unit times its probability of being kept."""
        return self.network.head.predicted(self.network(x.to(self.settings.device))[None])

    def sampled(self, samples: int) -> Fitted:
        """The same network under random masks: each of `samples` passes is a member."""

        def answer(x: Tensor) -> Predicted:
            with seeded(self.settings.seed, self.settings.device):
                self.network.train()
                outputs = torch.stack([self.network(x) for _ in range(samples)])
                self.network.eval()
            return self.network.head.predicted(outputs)

        return Predictor(answer, self.settings)


@dataclass(frozen=True)
class MCDropout:
    """Dropout at test time: the mixture over random masks.

    Attributes:
        network: What is trained.
        samples: Passes in prediction.
    """

    network: DropoutNetwork
    samples: int = 100

    def fit(self, x: Tensor, y: Tensor) -> Fitted:
        """See `Baseline`."""
        return self.network.fit(x, y).sampled(self.samples)
