"""A training step by autograd, of any network: gather, forward, loss, KL, backward and optimizer.

On a CUDA device, with a `DevicePlan`, such a step can be recorded in a graph.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from torchnpn.likelihoods import Likelihood
from torchnpn.priors import Prior, add_kl_gradient_
from torchnpn.training.adversarial import Adversary
from torchnpn.training.epoch import DevicePlan, HostPlan
from torchnpn.training.optimizer import AdamUpdate, TorchUpdate
from torchnpn.training.recipe import Recipe
from torchnpn.training.steps import Steps
from torchnpn.training.wide import weighted_loss


class TapeSteps(Steps):
    """Steps of any network, in torch's operations.

    Raises:
        ValueError: If the optimizer cannot be recorded, where the plan is one for a device.
    """

    def __init__(
        self,
        model: nn.Module,
        likelihood: Likelihood,
        prior: Prior | None,
        recipe: Recipe,
        plan: HostPlan | DevicePlan,
    ) -> None:
        super().__init__(model, likelihood, prior, recipe, plan)
        self.forward = torch.compile(model) if recipe.compile else model
        self.parameters = [p for module in (model, likelihood) for p in module.parameters() if p.requires_grad]
        attacked = np.any(recipe.adversarial)
        self.adversary = Adversary(model, likelihood, recipe.adversarial) if attacked else None
        if isinstance(plan, DevicePlan) and recipe.has_default_optimizer:
            self.update = AdamUpdate(self.parameters, plan.now)
        else:
            self.update = TorchUpdate(self.parameters, recipe, plan.steps, isinstance(plan, DevicePlan))

    def gradient(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None
        batch, share = self.plan.next()
        batch = batch if self.adversary is None else self.adversary(batch)
        objective, rows = weighted_loss(self.forward, self.likelihood, batch, share)
        objective.backward()
        if self.prior is not None:
            add_kl_gradient_(self.model, self.prior, self.plan.kl_per_row)
        self.plan.note(rows * share)
