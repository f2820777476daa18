"""Dropout in training, and in prediction too: MC dropout (Gal and Ghahramani 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from npn_studies.baselines.interface import Fitted, Settings
from npn_studies.baselines.loop import seeded
from npn_studies.baselines.network import Dropout, Network, dropout
from npn_studies.baselines.plain import answers, train
from npn_studies.baselines.predicted import Predicted
from npn_studies.baselines.replicas import Number, Replicas
from npn_studies.baselines.rows import training_rows
from npn_studies.baselines.tasks import Task


@dataclass(frozen=True)
class DropoutNetwork:
    """A network trained with dropout; it predicts once, with the mean of the masks.

    For a GP with length scale l and noise precision τ, Gal and Ghahramani take `noise_std` = τ^-½ in the task and
    `prior_precision` = (1 - rate) l². Each number may be a tuple, one for each replica.

    Attributes:
        task: `Regression`, `HeteroscedasticRegression` or `Classes`.
        settings: The network and its training.
        rate: Probability of dropping a hidden unit.
        input_rate: Probability of dropping an input.
        prior_precision: λ in the penalty (λ / 2N) Σ w².
        adversarial: How far rows are moved against their targets in training, by the network without dropout
            (`training.adversarial`).
    """

    task: Task
    settings: Settings
    rate: Number = 0.5
    input_rate: Number = 0.0
    prior_precision: Number = 0.0
    adversarial: Number = 0.0

    def fit(self, x: Tensor, y: Tensor) -> FittedDropout:
        """See `Baseline`."""
        rows = training_rows(x, y, self.task, self.settings.device)
        drop = dropout(rows.replicas, self.rate, self.input_rate)
        with seeded(self.settings.seed, self.settings.device):
            network = Network(x.shape[-1], rows.replicas, self.task, self.settings)
            train(network, rows, self.settings, self.prior_precision, self.adversarial, drop)
        return FittedDropout(network, drop, rows.replicas, self.settings)


class FittedDropout(NamedTuple):
    """A network trained with dropout, that can be asked in both ways."""

    network: Network
    drop: Dropout
    replicas: Replicas
    settings: Settings

    def predict(self, x: Tensor) -> Predicted:
        """One pass, with every unit times its probability of being kept."""
        return answers(self.network, self.replicas).predict(x)

    def sampled(self, samples: int) -> FittedMasks:
        """The same network under random masks: each of `samples` passes is a member."""
        return FittedMasks(self, samples)


class FittedMasks(NamedTuple):
    """A network trained with dropout, asked under random masks."""

    fitted: FittedDropout
    samples: int

    def predict(self, x: Tensor) -> Predicted:
        """The mixture over masks; the seed decides them."""
        network, drop, replicas, settings = self.fitted
        with seeded(settings.seed, settings.device):
            return answers(network, replicas, drop, self.samples).predict(x)


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
