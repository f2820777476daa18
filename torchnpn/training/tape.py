"""A training step by autograd, of any network: gather, forward, loss, KL, backward and optimizer.

On a CUDA device, with a `DevicePlan`, such a step can be recorded in a graph.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from torchnpn.likelihoods import Likelihood
from torchnpn.priors import Prior, add_kl_gradient_, kl
from torchnpn.training.adversarial import Adversary
from torchnpn.training.epoch import DevicePlan, HostPlan
from torchnpn.training.optimizer import AdamUpdate, TorchUpdate
from torchnpn.training.recipe import Recipe
from torchnpn.training.wide import weighted_loss


class TapeSteps:
    """Steps of any network, in torch's operations.

    Args:
        model: The network.
        likelihood: Of the targets.
        prior: On the weights, or None.
        recipe: Settings.
        plan: The steps of an epoch.

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
        self.model, self.likelihood, self.prior, self.recipe, self.plan = model, likelihood, prior, recipe, plan
        self.forward = torch.compile(model) if recipe.compile else model
        self.parameters = [p for module in (model, likelihood) for p in module.parameters() if p.requires_grad]
        attacked = np.any(recipe.adversarial)
        self.adversary = Adversary(model, likelihood, recipe.adversarial) if attacked else None
        self.update: AdamUpdate | TorchUpdate
        if isinstance(plan, DevicePlan) and recipe.has_default_optimizer:
            self.update = AdamUpdate(self.parameters, plan.now)
        else:
            self.update = TorchUpdate(self.parameters, recipe, plan.steps, isinstance(plan, DevicePlan))

    def begin(self) -> None:
        pass

    def step(self) -> None:
        self.gradient()
        if self.recipe.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip_norm)
        self.update.step()

    def gradient(self) -> None:
        """Leave that of `mean loss of the batch + β/N · KL` in the parameters' `.grad`."""
        for parameter in self.parameters:
            parameter.grad = None
        batch, share = self.plan.next()
        batch = batch if self.adversary is None else self.adversary(batch)
        objective, rows = weighted_loss(self.forward, self.likelihood, batch, share)
        objective.backward()
        if self.prior is not None:
            add_kl_gradient_(self.model, self.prior, self.plan.kl_per_row)
        self.plan.note(rows * share)

    def after(self) -> None:
        """What the host does after each step."""
        self.update.after()

    def divergence(self) -> torch.Tensor | float:
        return 0.0 if self.prior is None else kl(self.model, self.prior).mean()

    def release(self) -> None:
        pass
