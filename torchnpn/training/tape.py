"""A training step: what all ways to compute one have in common, and the one by autograd, for any network.

On a CUDA device, with a `DevicePlan`, such a step can be recorded in a graph.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from torchnpn.likelihoods import Likelihood
from torchnpn.priors import Prior, add_kl_gradient_, kl
from torchnpn.training.adversarial import Adversary
from torchnpn.training.epoch import DevicePlan, HostPlan
from torchnpn.training.optimizer import AdamUpdate, TorchUpdate, Update
from torchnpn.training.optimizer_state import OptimizerState, Places, load_, places_of, state_of
from torchnpn.training.recipe import Recipe
from torchnpn.training.wide import weighted_loss


class Steps:
    """The training steps of a network, one after the other as a plan has them.

    Args:
        model: The network.
        likelihood: Of the targets.
        prior: On the weights, or None.
        recipe: Settings.
        plan: The steps of an epoch.
    """

    update: Update  # changes the parameters, and has the state of the optimizer
    parameters: list[Any]  # that a step changes

    def __init__(
        self,
        model: nn.Module,
        likelihood: Likelihood,
        prior: Prior | None,
        recipe: Recipe,
        plan: HostPlan | DevicePlan,
    ) -> None:
        self.model, self.likelihood, self.prior, self.recipe, self.plan = model, likelihood, prior, recipe, plan

    def begin(self) -> None:
        """Whatever is to be done at the beginning of an epoch."""

    def step(self) -> None:
        """One step: the gradient, then the update. Several processes would sum their gradients between the two."""
        self.gradient()
        if self.recipe.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip_norm)
        self.update.step()

    def gradient(self) -> None:
        """Leave that of `mean loss of the batch + β/N · KL` in the parameters' `.grad`, and the loss with the plan."""
        raise NotImplementedError(f"{type(self).__name__} has no gradient of its own.")

    def divergence(self) -> Tensor | float:
        """The KL as it is now, the mean over replicas."""
        return 0.0 if self.prior is None else kl(self.model, self.prior).mean()

    def release(self) -> None:
        """Give modules their own memory back, where it was borrowed."""

    def places(self) -> Places:
        """The parameters of network and likelihood by what is optimized."""
        return places_of(model=self.model, likelihood=self.likelihood)

    def optimizer_state(self) -> OptimizerState:
        """What a checkpoint holds of the optimizer."""
        return state_of(self.update, self.places())

    def load_optimizer_(self, state: OptimizerState, taken: int, total: int) -> None:
        """Go on from such a state, of whatever engine, after `taken` of `total` steps."""
        load_(self.update, state, self.places(), taken, total)


class TapeSteps(Steps):
    """Steps of any network, by autograd.

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
