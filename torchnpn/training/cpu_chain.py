"""Training steps of Gaussian chains on a CPU: small ones in numpy, several at once; wide ones in torch, one by one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import nn

from torchnpn._torch import has_hooks
from torchnpn.families import Gaussian
from torchnpn.kernels import cpu
from torchnpn.likelihoods import loss_gradient
from torchnpn.moments import Moments
from torchnpn.nn import Linear, MeanAndNoise, ReLU, Sequential, count_replicas
from torchnpn.priors import Prior
from torchnpn.training.adversarial import radius_per_replica
from torchnpn.training.chain import ChainSteps, prior_setting, why_not_trained
from torchnpn.training.epoch import DevicePlan, HostPlan
from torchnpn.training.optimizer_state import Averages, Places
from torchnpn.training.recipe import ADAM
from torchnpn.training.tape import Objective, TorchUpdate, Update

MOST_WEIGHTS = 200_000  # of each network in numpy; above, large products decide, and numpy knows no faster ones


class CpuChain(NamedTuple):
    """The layers of a network that is trained on a CPU without autograd."""

    hidden: list[Linear]  # with a ReLU after each
    heads: list[Linear]  # side by side at the end


def cpu_chain(model: nn.Module) -> CpuChain | str:
    """Gaussian linear layers with one ReLU between each two; else why not, in words."""
    if type(model) is not Sequential or len(model) % 2 == 0:
        return "it is not a Sequential of Linear layers with one ReLU between each two"
    *body, last = model
    hidden, heads = body[::2], [last.mean, last.noise] if type(last) is MeanAndNoise else [last]
    for layer in (*hidden, *heads):
        if type(layer) is not Linear or layer.weight.family is not Gaussian or layer.bias is None:
            return f"{type(layer).__name__} is not a Gaussian Linear layer with a bias"
        if len(layer.replicas) > 1:
            return "it has replicas along several dimensions"
    if other := [type(one).__name__ for one in body[1::2] if type(one) is not ReLU]:
        return f"{other[0]} stands where a ReLU is expected"
    return CpuChain(hidden, heads)  # type: ignore[arg-type]


def why_not_on_cpu(model: nn.Module, prior: Prior | None, device: torch.device) -> str | None:
    """Why a network is trained by neither of the two; None where it is by one of them."""
    if device.type != "cpu":
        return f"it trains on {device.type}"
    if isinstance(chain := cpu_chain(model), str):
        return chain
    if (reason := why_not_trained(model, [*chain.hidden, *chain.heads], prior)) is not None:
        return reason
    return "a hook listens to a module" if any(has_hooks(m) for m in model.modules()) else None


def why_not_numpy(model: nn.Module, prior: Prior | None, device: torch.device) -> str | None:
    """Why a network is not trained by `NumpyChainSteps`; None where it is."""
    if (reason := why_not_on_cpu(model, prior, device)) is not None:
        return reason
    size = sum(p.numel() for p in model.parameters()) // count_replicas(model)
    return None if size <= MOST_WEIGHTS else f"it has {size:,} free numbers, more than {MOST_WEIGHTS:,}"


class CpuChainSteps(ChainSteps):
    """What both have in common: rows as numpy has them, the loss in closed form, Adam by the chain."""

    kind: type[cpu.NumpyChain | cpu.WideChain]
    chain: Any

    def __init__(self, objective: Objective, plan: HostPlan | DevicePlan) -> None:
        super().__init__(objective, plan)
        model, likelihood, prior, recipe = objective
        chain, own, gradient = cpu_chain(model), list(likelihood.parameters()), loss_gradient(likelihood)
        assert isinstance(chain, CpuChain)
        hidden, heads = ([_cpu_layer(layer) for layer in layers] for layers in chain)
        self.operations = self.chain = self.kind(
            hidden, heads, own, prior_setting(prior), self._rows,
            lambda m, s, rows: gradient(m, s, rows.targets, rows.share),
        )  # fmt: skip
        self.parameters = self._learnt()
        self.radius = radius_per_replica(recipe.adversarial, count_replicas(model), self.parameters[0])
        self.update = Update(self._adam, lambda: [Averages(*parts) for parts in self.chain.averages()])
        if not recipe.has_default_optimizer:
            self.update = TorchUpdate(self.parameters, recipe, plan.steps, captured=False)

    def _learnt(self) -> list[Any]:
        """What the optimizer changes."""
        return [*self.chain.parts]

    def _rows(self) -> cpu.Rows:
        batch, share = self.plan.next()
        x = batch.x
        if scipy.sparse.issparse(x):
            x = torch.from_numpy(x.toarray())
        mean, variance = x if isinstance(x, Moments) else (x, None)
        spread = None if variance is None else variance.expand_as(mean).numpy()
        return cpu.Rows(mean.numpy(), spread, batch.y.numpy(), share.numpy(), _numbers(self.plan.kl_per_row))

    def step(self) -> None:
        with np.errstate(all="ignore"):  # a training that diverges is told from what it leaves, once an epoch
            super().step()

    def gradient(self) -> None:
        self.sweep()
        if isinstance(self.plan, HostPlan):
            self.plan.note_total(float(self.chain.row_losses.sum()))
        else:
            self.plan.note(torch.from_numpy(self.chain.row_losses))

    def _adam(self) -> None:
        rate, correction = map(_numbers, self.plan.rates())
        self.chain.adam_(rate, correction, *ADAM[1:])


class NumpyChainSteps(CpuChainSteps):
    """Steps of a small network on a CPU, or of several at once."""

    kind = cpu.NumpyChain

    def _learnt(self) -> list[Any]:
        return [self.chain.flat]

    def gradient(self) -> None:
        super().gradient()
        self.chain.finish_gradient()

    def divergence(self) -> float:
        found: float = self.chain.divergence()
        return found

    def release(self) -> None:
        self.chain.release()

    def places(self) -> Places:
        places = super().places()
        return {**places, id(self.chain.flat): [places[id(parameter)][0] for parameter in self.chain.parts]}


class WideChainSteps(CpuChainSteps):
    """Steps of a wide network on a CPU."""

    kind = cpu.WideChain

    def release(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None


def _numbers(values: Any) -> float | cpu.Array:
    """What a plan says of a step: a number, or an array with one for each replica."""
    return values if isinstance(values, float) else np.asarray(values)


def _cpu_layer(linear: Linear) -> cpu.Layer:
    assert linear.bias is not None
    W_m, *W_log_std = linear.weight.free
    return cpu.Layer(W_m, W_log_std, *linear.bias.free)
