"""Deep ensembles (Lakshminarayanan et al. 2017): networks that differ in their first weights and order of rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from npn_studies.baselines.interface import Fitted, Settings
from npn_studies.baselines.loop import minimise, seeded
from npn_studies.baselines.network import Network
from npn_studies.baselines.plain import answers
from npn_studies.baselines.rows import training_rows
from npn_studies.baselines.tasks import Task


@dataclass(frozen=True)
class DeepEnsemble:
    """Independent networks, each trained by its log-likelihood; the mixture of their predictions.

    All members, of all replicas, are trained at once.

    Attributes:
        task: `HeteroscedasticRegression` in the paper, or `Regression` or `Classes`.
        settings: Of each network.
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
        rows = training_rows(x, y, self.task, self.settings.device, self.members)
        with seeded(self.settings.seed, self.settings.device):
            network = Network(x.shape[-1], rows.replicas, self.task, self.settings)
            minimise(lambda x, y: self._loss(network, x, y), network.parameters, rows, self.settings)
        return answers(network, rows.replicas)

    def _loss(self, network: Network, x: Tensor, y: Tensor) -> Tensor:
        if not self.adversarial:
            return network.loss(x, y)
        x = x.requires_grad_()
        loss = network.loss(x, y)
        (slope,) = torch.autograd.grad(loss.sum(), x, retain_graph=True)
        return loss + network.loss((x + self.adversarial * slope.sign()).detach(), y)
