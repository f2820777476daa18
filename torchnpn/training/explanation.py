"""Which engine trains a network, which kernels compute its layers, and why not the faster ones."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import scipy.sparse
import torch
from torch import nn

from torchnpn.kernels import choose
from torchnpn.likelihoods import Likelihood
from torchnpn.nn import Linear, ReLU, Sigmoid, Tanh, as_moments
from torchnpn.priors import Prior
from torchnpn.sparse import SparseBatch
from torchnpn.training.chain import TritonChainSteps, why_not_triton
from torchnpn.training.data import Rows, as_batches
from torchnpn.training.engine import Engine, recorded_engine, resolve_device, why_not_numpy_training
from torchnpn.training.recipe import Recipe
from torchnpn.training.tape import Objective

_ROWS = 8  # that pass through the network, to see what its layers are given
_NUMPY, _TRITON, _GRAPH = "a Gaussian chain in numpy", "a Gaussian chain in Triton", "a CUDA graph"


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
) -> Explanation:
    """Which engine and which kernels a network gets on a device, and why not faster ones.

    >>> import torch, torchnpn as npn
    >>> x, y = torch.zeros(500, 10), torch.zeros(500, 1)
    >>> npn.explain(npn.nn.mlp([10, 50, 1], activation="tanh"), (x, y), device="cpu")
    device: cpu
    training steps: autograd, step by step
      not a Gaussian chain in numpy: Tanh stands where a ReLU is expected
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
    """
    place, recipe = resolve_device(device), Recipe() if recipe is None else recipe
    model, likelihood = copy.deepcopy((model, Likelihood() if likelihood is None else likelihood))
    model, likelihood = model.to(place), likelihood.to(place)
    rows = as_batches(data, place, next((p.dtype for p in model.parameters()), torch.get_default_dtype()))
    layers = dict(_kernels(model, next(iter(rows.batches(_ROWS))).x))
    objective = Objective(model, likelihood, prior, recipe)
    numpy = why_not_numpy_training(objective, rows, place)
    triton: str | None = "the data are a DataLoader"
    if isinstance(rows, Rows):
        triton = why_not_triton(model, rows, prior, recipe, place.type == "cuda")
    recorded = recorded_engine(objective, rows, place)
    if isinstance(recorded, Engine):
        kind = _TRITON if isinstance(recorded.stepper, TritonChainSteps) else "autograd"
        engine, reasons = f"{kind}, in {_GRAPH}" if place.type == "cuda" else kind, {_TRITON: triton}
    elif numpy is None:
        engine, reasons = _NUMPY, {}
    else:
        graph = recorded if place.type == "cuda" else None
        engine, reasons = "autograd, step by step", {_NUMPY: numpy, _TRITON: triton, _GRAPH: graph}
    return Explanation(str(place), engine, {k: reason for k, reason in reasons.items() if reason is not None}, layers)


@torch.no_grad()
def _kernels(model: nn.Module, x: Any) -> Iterator[tuple[str, str]]:
    """What computes each linear layer and activation that has a kernel somewhere, by what reaches it."""
    given: dict[str, Any] = {}
    listened = {name: part for name, part in model.named_modules() if isinstance(part, (Linear, ReLU, Sigmoid, Tanh))}

    def listen(name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        return lambda part, arguments: given.update({name: arguments[0]})

    handles = [part.register_forward_pre_hook(listen(name)) for name, part in listened.items()]
    model.eval()(x)
    for handle in handles:
        handle.remove()
    for name, part in listened.items():
        if name in given:
            yield f"{name} {type(part).__name__}", _kernel(part, given[name])


def _kernel(part: nn.Module, a: Any) -> str:
    """The kernel of a layer for an input, where gradients are asked for."""
    if isinstance(a, SparseBatch):
        assert isinstance(part, Linear)
        reason = choose.why_not_triton_sparse(a, part.weight.free[0])
        return "sparse Triton kernel" if reason is None else f"sparse products (no Triton kernel: {reason})"
    if scipy.sparse.issparse(a):
        return "sparse products of scipy"
    a = as_moments(a)
    if isinstance(part, Linear):
        W, b = part.weight.moments, None if part.bias is None else part.bias.moments
        cpu, triton = choose.why_not_cpu_linear(a, W, b), choose.why_not_triton_linear(a, W, b)
    else:
        cpu, triton = choose.why_not_cpu_relu(a), choose.why_not_triton_activation(a)
    if triton is None:
        return "fused Triton kernel"
    if not isinstance(part, (Linear, ReLU)) or a.mean.device.type != "cpu":
        return f"plain map (no Triton kernel: {triton})"
    return "fused CPU kernel" if cpu is None else f"plain map (no CPU kernel: {cpu})"
