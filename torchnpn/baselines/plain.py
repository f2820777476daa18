"""A plain network: maximum likelihood, or maximum a posteriori; one answer without uncertainty of the weights."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from torchnpn.baselines.interface import Fitted, Predictor, Settings, training_rows
from torchnpn.baselines.loop import minimise, seeded
from torchnpn.baselines.network import Network
from torchnpn.baselines.tasks import Task


@dataclass(frozen=True)
class PlainNetwork:
    """Minimises mean of -log p(y | x, w) + (λ / 2N) Σ w².

    Attributes:
        task: `Regression`, `HeteroscedasticRegression` or `Classes`.
        settings: The network and its training.
        prior_precision: λ; 0 is maximum likelihood.
    """

    task: Task
    settings: Settings
    prior_precision: float = 0.0

    def fit(self, x: Tensor, y: Tensor) -> Fitted:
        """See `Baseline`."""
        x, y = training_rows(x, y, self.task, self.settings)
        with seeded(self.settings.seed, self.settings.device):
            network = Network(x, self.task, self.settings)
            train(network, x, y, self.settings, self.prior_precision)
        return Predictor(lambda x: network.head.predicted(network(x)[None]), self.settings)


def train(network: Network, x: Tensor, y: Tensor, settings: Settings, prior_precision: float) -> None:
    """Minimises the loss and the penalty (λ / 2N) Σ w²; ends in evaluation mode."""
    weight = prior_precision / len(x)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        likelihood = network.loss(x, y)
        return likelihood + weight * network.half_squares() if weight else likelihood

    minimise(loss, network.parameters(), x, y, settings)
    network.eval()
