"""Which kernel computes each layer of a network, and why not a faster one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import scipy.sparse
import torch
from torch import nn

from torchnpn.kernels import choose
from torchnpn.nn.activation import ReLU, Sigmoid, Tanh
from torchnpn.nn.layer import as_moments
from torchnpn.nn.linear import Linear
from torchnpn.sparse import SparseBatch


@torch.no_grad()
def kernels_of(model: nn.Module, x: Any) -> dict[str, str]:
    """By place and kind of a linear layer or an activation: the kernel for what reaches it, or why it has none."""
    given: dict[str, Any] = {}
    listened = {name: part for name, part in model.named_modules() if isinstance(part, (Linear, ReLU, Sigmoid, Tanh))}

    def listen(name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        return lambda part, arguments: given.update({name: arguments[0]})

    handles = [part.register_forward_pre_hook(listen(name)) for name, part in listened.items()]
    model.eval()(x)
    for handle in handles:
        handle.remove()
    return {
        f"{name} {type(part).__name__}": _kernel(part, given[name]) for name, part in listened.items() if name in given
    }


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
        W = part.weight.tied_moments if part.posterior == "tied" else part.weight.moments
        b = None if part.bias is None else part.bias.moments
        cpu, triton = choose.why_not_cpu_linear(a, W, b), choose.why_not_triton_linear(a, W, b)
    else:
        cpu, triton = choose.why_not_cpu_relu(a), choose.why_not_triton_activation(a)
    if triton is None:
        return "fused Triton kernel"
    if not isinstance(part, (Linear, ReLU)) or a.mean.device.type != "cpu":
        return f"plain map (no Triton kernel: {triton})"
    return "fused CPU kernel" if cpu is None else f"plain map (no CPU kernel: {cpu})"
