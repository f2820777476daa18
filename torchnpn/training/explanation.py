"""Which engine trains a network, which kernels compute its layers, and why not the faster ones."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from torchnpn.likelihoods import Likelihood
from torchnpn.nn import kernels_of
from torchnpn.priors import Prior
from torchnpn.training.chain import TritonChainSteps, why_not_triton
from torchnpn.training.cpu_chain import NumpyChainSteps, WideChainSteps
from torchnpn.training.data import Rows, as_batches
from torchnpn.training.distributed import join
from torchnpn.training.engine import Engine, host_steps, recorded_engine, resolve_device, why_not_cpu_chain
from torchnpn.training.recipe import Recipe
from torchnpn.training.tape import Objective

_ROWS = 8  # that pass through the network, to see what its layers are given
_CPU, _TRITON, _GRAPH = "a Gaussian chain on a CPU", "a Gaussian chain in Triton", "a CUDA graph"
_KINDS = {NumpyChainSteps: "a Gaussian chain in numpy", WideChainSteps: "a Gaussian chain in torch"}


@dataclass(frozen=True, repr=False)
class Explanation:
    """What `explain` found; its text is what `print` shows."""

    device: str
    engine: str  # that computes training steps
    why_not: dict[str, str]  # faster engines that do not apply, and the reasons
    layers: dict[str, str]  # by place and kind of a layer: its kernel, or why it has none

    def __str__(self) -> str:
        lines = [f"device: {self.device}", f"training steps: {self.engine}"]
        lines += [f"  not {name}: {reason}" for name, reason in self.why_not.items()]
        return "\n".join([*lines, "layers:", *(f"  {place}: {text}" for place, text in self.layers.items())])

    __repr__ = __str__


def explain(
    model: nn.Module,
    data: Any,
    likelihood: Likelihood | None = None,
    prior: Prior | None = None,
    recipe: Recipe | None = None,
    *,
    device: str | torch.device = "auto",
    strategy: str = "auto",
) -> Explanation:
    """Which engine and which kernels a network gets on a device, and why not faster ones.

    >>> import torch, torchnpn as npn
    >>> x, y = torch.zeros(500, 10), torch.zeros(500, 1)
    >>> npn.explain(npn.nn.mlp([10, 50, 1], activation="tanh"), (x, y), device="cpu")
    device: cpu
    training steps: autograd, step by step
      not a Gaussian chain on a CPU: Tanh stands where a ReLU is expected
      not a Gaussian chain in Triton: there is no CUDA device, or no Triton
    layers:
      0 Linear: fused CPU kernel
      1 Tanh: plain map (no Triton kernel: a tensor is not on a CUDA device)
      2 Linear: fused CPU kernel

    Args:
        model: The network; a copy is made, and it is not changed.
        data: As for `train`; a few of its rows pass through the network.
        likelihood: As for `train`, if it is known already.
        prior: As for `train`.
        recipe: As for `train`.
        device: As for `train`.
        strategy: As for `train`.
    """
    processes = join(strategy)
    place, recipe = resolve_device(device), Recipe() if recipe is None else recipe
    model, likelihood = copy.deepcopy((model, Likelihood() if likelihood is None else likelihood))
    model, likelihood = model.to(place), likelihood.to(place)
    rows = as_batches(data, place, next((p.dtype for p in model.parameters()), torch.get_default_dtype()))
    layers = kernels_of(model, next(iter(rows.batches(_ROWS))).x)
    objective = Objective(model, likelihood, prior, recipe)
    on_cpu = why_not_cpu_chain(objective, rows, place)
    triton: str | None = "the rows do not lie in memory"
    if isinstance(rows, Rows):
        triton = why_not_triton(model, rows, prior, recipe, place.type == "cuda", processes)
    recorded = recorded_engine(objective, rows, place, processes)
    steps = type(recorded.stepper) if isinstance(recorded, Engine) else host_steps(objective, rows, place)
    if steps in _KINDS:
        engine, reasons = _KINDS[steps], {}
    elif isinstance(recorded, Engine):
        kind = _TRITON if steps is TritonChainSteps else "autograd"
        engine, reasons = f"{kind}, in {_GRAPH}" if place.type == "cuda" else kind, {_TRITON: triton}
    else:
        graph = recorded if place.type == "cuda" else None
        engine, reasons = "autograd, step by step", {_CPU: on_cpu, _TRITON: triton, _GRAPH: graph}
    return Explanation(str(place), engine, {k: reason for k, reason in reasons.items() if reason is not None}, layers)
