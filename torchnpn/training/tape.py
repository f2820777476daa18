"""A training step: what all ways to compute one have in common, and the one by autograd, for any network.

A step is a gradient and an update: Adam or AdaDelta with its rates on the device, or any optimizer of torch. On a CUDA
device, with a `DevicePlan`, such a step can be recorded in a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from torchnpn.kernels import step_
from torchnpn.likelihoods import Likelihood
from torchnpn.priors import Prior, add_kl_gradient_, kl
from torchnpn.training.adversarial import Adversary
from torchnpn.training.epoch import DevicePlan, HostPlan
from torchnpn.training.optimizer_state import (
    AVERAGES,
    Averages,
    OptimizerState,
    Places,
    load_torch_,
    places_of,
    state_of_torch,
    stored_tensor,
    words_of,
)
from torchnpn.training.recipe import Recipe, Rule
from torchnpn.training.wide import weighted_loss


class Objective(NamedTuple):
    """What a training minimises, `mean loss of rows + (β/N) · KL`, and how."""

    model: nn.Module
    likelihood: Likelihood
    prior: Prior | None
    recipe: Recipe

    @property
    def learnt(self) -> nn.Module:
        """All parameters and buffers."""
        return nn.ModuleDict({"model": self.model, "likelihood": self.likelihood})


class Update:
    """Changes parameters by the gradients that lie with them, as an engine computes it, which has the averages."""

    scheduler: LRScheduler | None = None  # which the host steps

    def __init__(
        self, step: Callable[[], Any], averages: Callable[[], list[Averages]], words: tuple[str, str] = AVERAGES
    ) -> None:
        self.step, self.averages, self.words = step, averages, words

    def state(self, places: Places) -> OptimizerState:
        """What a checkpoint holds of it."""
        named = {places[id(one.parameter)][0].name: one for one in self.averages()}
        return OptimizerState(
            {f"{name}/{word}": x for name, one in named.items() for word, x in zip(self.words, one[1:], strict=True)}
        )

    def load_(self, state: OptimizerState, places: Places, taken: int, total: int) -> None:
        """Take up such a state, of an update of whatever kind, after `taken` of `total` steps.

        Raises:
            ValueError: If the state is that of another optimizer or of other parameters.
        """
        for one in self.averages():
            for word, average in zip(self.words, one[1:], strict=True):
                average.copy_(stored_tensor(state.tensors, places[id(one.parameter)][0], word))


class RuleUpdate(Update):
    """The same with one rate for each replica, in a way that a CUDA graph can hold; see `kernels.step_`."""

    def __init__(self, parameters: Sequence[Tensor], now: Callable[[], Tensor], rule: Rule) -> None:
        self.parameters, self._now, self._rule = list(parameters), now, rule
        self._both = [p.new_zeros(2, *p.shape) for p in self.parameters]
        super().__init__(
            lambda: self.apply([p.grad for p in self.parameters]),
            lambda: [Averages(p, *both) for p, both in zip(self.parameters, self._both, strict=True)],
            words_of(rule),
        )

    @torch.no_grad()
    def apply(self, gradients: Sequence[Tensor | None]) -> None:
        """One step by these gradients; a parameter without one stays as it is."""
        now = self._now()
        for parameter, gradient, averages in zip(self.parameters, gradients, self._both, strict=True):
            if gradient is not None:
                step_(parameter, gradient, averages, now, self._rule)


class TorchUpdate(Update):
    """The recipe's optimizer and scheduler, for epochs of so many steps.

    Raises:
        ValueError: If a CUDA graph is to hold the step, and cannot.
    """

    def __init__(self, parameters: Sequence[Tensor], recipe: Recipe, steps: int, captured: bool) -> None:
        if np.ndim(recipe.learning_rate):
            raise ValueError("one learning rate for each replica needs the default optimizer and scheduler")
        self.optimizer = optimizer = recipe.optimizer(parameters, float(recipe.learning_rate))  # type: ignore[arg-type]
        if captured:
            _make_capturable_(optimizer, parameters[0].device)
        self.scheduler = None if recipe.scheduler is None else recipe.scheduler(optimizer, recipe.epochs * steps)
        super().__init__(optimizer.step, list)

    def state(self, places: Places) -> OptimizerState:
        return state_of_torch(self.optimizer, self.scheduler, places)

    def load_(self, state: OptimizerState, places: Places, taken: int, total: int) -> None:
        load_torch_(self.optimizer, self.scheduler, state, places, taken, total)


def _make_capturable_(optimizer: Optimizer, device: torch.device) -> None:
    for group in optimizer.param_groups:
        if "capturable" not in group:
            raise ValueError(f"{type(optimizer).__name__} cannot be recorded in a CUDA graph")
        group["capturable"] = device.type == "cuda"
        group["lr"] = torch.tensor(group["lr"], device=device)


class Steps:
    """The training steps of a network, one after the other as a plan of an epoch has them."""

    update: Update  # changes the parameters, and has the state of the optimizer
    parameters: list[Any]  # that a step changes

    def __init__(self, objective: Objective, plan: HostPlan | DevicePlan) -> None:
        self.objective, self.plan = objective, plan
        self.model, self.likelihood, self.prior, self.recipe = objective

    def begin(self) -> None:
        """Whatever is to be done at the beginning of an epoch."""

    def step(self) -> None:
        """One step: the gradient, its sum over all processes, and the update."""
        self.gradient()
        self.plan.processes.sum_([p.grad for p in self.parameters if p.grad is not None])
        if self.recipe.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip_norm)
        self.update.step()

    def gradient(self) -> None:
        """Leave that of `mean loss of the batch + β/N · KL` in the parameters' `.grad`, and the loss with the plan."""
        raise NotImplementedError(f"{type(self).__name__} has no gradient of its own.")

    def divergence(self) -> Tensor | float:
        """The KL as it is now, the mean over replicas; on the device: a CUDA graph holds no copy from the host."""
        return torch.zeros((), device=self.plan.device) if self.prior is None else kl(self.model, self.prior).mean()

    def release(self) -> None:
        """Give modules their own memory back, where it was borrowed."""

    def places(self) -> Places:
        """The parameters of network and likelihood by what is optimized."""
        return places_of(self.objective.learnt)

    def optimizer_state(self) -> OptimizerState:
        """What a checkpoint holds of the optimizer."""
        return self.update.state(self.places())

    def load_optimizer_(self, state: OptimizerState, taken: int, total: int) -> None:
        """Go on from such a state, of whatever engine, after `taken` of `total` steps."""
        self.update.load_(state, self.places(), taken, total)


class TapeSteps(Steps):
    """Steps of any network, by autograd.

    Raises:
        ValueError: If the optimizer cannot be recorded, where the plan is one for a device.
    """

    def __init__(self, objective: Objective, plan: HostPlan | DevicePlan) -> None:
        super().__init__(objective, plan)
        model, likelihood, _, recipe = objective
        self.forward = torch.compile(model) if recipe.compile else model
        self.parameters = [p for p in objective.learnt.parameters() if p.requires_grad]
        attacked = np.any(recipe.adversarial)
        self.adversary = Adversary(model, likelihood, recipe.adversarial) if attacked else None
        if isinstance(plan, DevicePlan) and recipe.rule is not None:
            self.update = RuleUpdate(self.parameters, plan.now, recipe.rule)
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
