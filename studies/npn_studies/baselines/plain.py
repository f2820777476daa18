"""A plain network: maximum likelihood, or maximum a posteriori; one answer without uncertainty of the weights."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from npn_studies.baselines.adversary import pushing
from npn_studies.baselines.interface import Fitted, Settings
from npn_studies.baselines.loop import minimise, seeded
from npn_studies.baselines.network import KEEP_ALL, Dropout, Network
from npn_studies.baselines.predicted import Predicted
from npn_studies.baselines.predictor import Predictor, passes
from npn_studies.baselines.replicas import Number, Replicas
from npn_studies.baselines.rows import Rows, training_rows
from npn_studies.baselines.tasks import Task


@dataclass(frozen=True)
class PlainNetwork:
    """Minimises mean of -log p(y | x, w) + (λ / 2N) Σ w².

    Attributes:
        task: `Regression`, `HeteroscedasticRegression` or `Classes`.
        settings: The network and its training.
        prior_precision: λ; 0 is maximum likelihood; a tuple has one for each replica.
        adversarial: How far rows are moved against their targets in training (`training.adversarial`), likewise.
    """

    task: Task
    settings: Settings
    prior_precision: Number = 0.0
    adversarial: Number = 0.0

    def fit(self, x: Tensor, y: Tensor) -> Fitted:
        """See `Baseline`."""
        rows = training_rows(x, y, self.task, self.settings.device)
        with seeded(self.settings.seed, self.settings.device):
            network = Network(x.shape[-1], rows.replicas, self.task, self.settings)
            train(network, rows, self.settings, self.prior_precision, self.adversarial)
        return answers(network, rows.replicas)


def train(
    network: Network,
    rows: Rows,
    settings: Settings,
    prior_precision: Number,
    adversarial: Number = 0.0,
    drop: Dropout = KEEP_ALL,
) -> None:
    """Minimises the loss and the penalty (λ / 2N) Σ w²."""
    weight = rows.replicas.number("prior_precision", prior_precision).flatten() / rows.size
    push = pushing(rows.replicas, adversarial)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        likelihood = network.loss(push(lambda x: network.loss(x, y, KEEP_ALL), x), y, drop)
        return likelihood if prior_precision == 0 else likelihood + weight * network.half_squares()

    minimise(loss, network.parameters, rows, settings)


def answers(network: Network, replicas: Replicas, drop: Dropout = KEEP_ALL, samples: int = 1) -> Predictor:
    """What the networks say in `samples` passes."""

    def answer(x: Tensor) -> Predicted:
        outputs = passes(lambda x: network(x, drop), x, replicas, max(network.sizes), samples)
        return network.head.predicted(outputs)

    return Predictor(answer, replicas)
