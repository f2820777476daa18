"""Deep ensembles (Lakshminarayanan et al. 2017): networks that differ in their first weights and order of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from torchnpn.baselines.interface import Fitted, Predictor, Settings, training_rows
from torchnpn.baselines.loop import minimise, seeded
from torchnpn.baselines.network import Network
from torchnpn.baselines.predicted import Predicted, mixture
from torchnpn.baselines.tasks import Task


@dataclass(frozen=True)
class DeepEnsemble:
    """Independent networks, each trained by its log-likelihood; the mixture of their predictions.

    Attributes:
        task: `HeteroscedasticRegression` in the paper, or `Regression` or `Classes`.
        settings: Of each network; member k has the seed `1000 seed + k`.
        members: How many.
        adversarial: ε of adversarial training, in units of x (standardised): the loss at x + ε sign(∂loss/∂x) is added
            to that at x. 0: none.
    """

    task: Task
    settings: Settings
    members: int = 5
    adversarial: float = 0.0

    def fit(self, x: Tensor, y: Tensor) -> Fitted:
        """See `Baseline`."""
        x, y = training_rows(x, y, self.task, self.settings)
        networks = [self._member(x, y, 1000 * self.settings.seed + number) for number in range(self.members)]

        def answer(x: Tensor) -> Predicted:
            return mixture([network.head.predicted(network(x)[None]) for network in networks])

        return Predictor(answer, self.settings)

    def _member(self, x: Tensor, y: Tensor, seed: int) -> Network:
        with seeded(seed, self.settings.device):
            network = Network(x, self.task, replace(self.settings, seed=seed))
            minimise(lambda x, y: self._loss(network, x, y), network.parameters(), x, y, self.settings)
        return network

    def _loss(self, network: Network, x: Tensor, y: Tensor) -> Tensor:
        if not self.adversarial:
            return network.loss(x, y)
        x = x.requires_grad_()
        loss = network.loss(x, y)
        (slope,) = torch.autograd.grad(loss, x, retain_graph=True)
        return loss + network.loss((x + self.adversarial * slope.sign()).detach(), y)
