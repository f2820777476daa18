"""A training step by autograd, of any network, for a CUDA graph."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from torchnpn.kernels import adam_
from torchnpn.likelihoods import Likelihood
from torchnpn.priors import Prior, add_kl_gradient_
from torchnpn.training.adversarial import Adversary
from torchnpn.training.device import Feed
from torchnpn.training.optimizer_state import Averages
from torchnpn.training.recipe import ADAM, Recipe, adam, cosine
from torchnpn.training.wide import weighted_loss


class TapedSteps:
    """Gather, forward, loss, KL, backward and optimizer of any network, in torch's operations.

    Raises:
        ValueError: If the optimizer cannot be recorded.
    """

    def __init__(
        self, model: nn.Module, likelihood: Likelihood, prior: Prior | None, recipe: Recipe, feed: Feed
    ) -> None:
        self.model, self.likelihood, self.prior, self.recipe, self.feed = model, likelihood, prior, recipe, feed
        self.forward = torch.compile(model) if recipe.compile else model
        self.parameters = [p for module in (model, likelihood) for p in module.parameters() if p.requires_grad]
        attacked = np.any(recipe.adversarial)
        self.adversary = Adversary(model, likelihood, recipe.adversarial) if attacked else None
        self._both: list[Tensor] = []  # Adam's averages, (2, …) for each parameter
        self.optimizer: Optimizer | None = None
        self.scheduler: LRScheduler | None = None
        if recipe.optimizer is adam and recipe.scheduler in (None, cosine):
            self._both = [p.new_zeros(2, *p.shape) for p in self.parameters]
        else:
            self._make_optimizer(recipe)

    def _make_optimizer(self, recipe: Recipe) -> None:
        if np.ndim(recipe.learning_rate):
            raise ValueError("one learning rate for each replica needs the default optimizer and scheduler")
        self.optimizer = recipe.optimizer(self.parameters, float(recipe.learning_rate))  # type: ignore[arg-type]
        for group in self.optimizer.param_groups:
            if "capturable" not in group:
                raise ValueError(f"{type(self.optimizer).__name__} cannot be recorded in a CUDA graph")
            group["capturable"] = self.feed.device.type == "cuda"
            group["lr"] = torch.tensor(group["lr"], device=self.feed.device)
        if recipe.scheduler is not None:
            self.scheduler = recipe.scheduler(self.optimizer, recipe.epochs * self.feed.steps)

    def begin(self) -> None:
        pass

    def step(self) -> None:
        feed = self.feed
        feed.advance()
        for parameter in self.parameters:
            parameter.grad = None
        share, now = feed.shares(), feed.now()
        batch = feed.rows_of_step()
        batch = batch if self.adversary is None else self.adversary(batch)
        objective, losses = weighted_loss(self.forward, self.likelihood, batch, share)
        objective.backward()
        if self.prior is not None:
            add_kl_gradient_(self.model, self.prior, now[:, 2])
        if self.recipe.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip_norm)
        self._optimize(now)
        feed.note((losses * share).view(feed.replicas, -1))

    @torch.no_grad()
    def _optimize(self, now: Tensor) -> None:
        if self.optimizer is not None:
            self.optimizer.step()
            return
        for parameter, averages in zip(self.parameters, self._both, strict=True):
            if parameter.grad is not None:
                adam_(parameter, parameter.grad, averages, now, *ADAM.betas, ADAM.epsilon)

    def after(self) -> None:
        """What the host does after each step."""
        if self.scheduler is not None:
            self.scheduler.step()

    @property
    def averages(self) -> list[Averages]:
        """Adam's; none where the optimizer is torch's."""
        return [Averages(p, *both) for p, both in zip(self.parameters, self._both, strict=True)] if self._both else []
