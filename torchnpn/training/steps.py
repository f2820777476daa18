"""What all ways to compute a training step have in common."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from torchnpn.likelihoods import Likelihood
from torchnpn.priors import Prior, kl
from torchnpn.training.epoch import DevicePlan, HostPlan
from torchnpn.training.optimizer import Update
from torchnpn.training.recipe import Recipe


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

    def after(self) -> None:
        """Whatever the host does after each step."""
        self.update.after()

    def divergence(self) -> Tensor | float:
        """The KL as it is now, the mean over replicas."""
        return 0.0 if self.prior is None else kl(self.model, self.prior).mean()

    def release(self) -> None:
        """Give modules their own memory back, where it was borrowed."""
