"""Fused twins of the maps, with the same signatures; `choose` says which of them applies.

On a CPU those of `kernels.cpu`, on a CUDA device those of `kernels.triton`, and the plain maps everywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from torchnpn import families, maps
from torchnpn.families import ExponentialFamily
from torchnpn.finite import entering
from torchnpn.kernels.adam import adam_
from torchnpn.kernels.choose import has_triton
from torchnpn.kernels.cpu import gaussian_linear
from torchnpn.kernels.cpu import linear as cpu_linear
from torchnpn.kernels.cpu import relu as cpu_relu
from torchnpn.kernels.precision import current, precision, tf32
from torchnpn.maps import check_linear, plain_linear
from torchnpn.moments import Moments, check_variance
from torchnpn.sparse import SparseBatch

__all__ = [
    "adam_",
    "gaussian_linear",
    "gaussian_loss",
    "has_triton",
    "layer",
    "layer_with_activation",
    "linear",
    "network",
    "precision",
    "relu",
    "saturating",
    "sigmoid",
    "tanh",
    "tf32",
]

# For other packages of torchnpn:
from torchnpn.kernels import choose as choose
from torchnpn.kernels import cpu as cpu
from torchnpn.kernels import sparse as sparse
from torchnpn.kernels.precision import checked_precision as checked_precision


class Random(Protocol):
    """A random parameter: see `nn.RandomParameter`."""

    family: type[ExponentialFamily]

    @property
    def free(self) -> list[Tensor]: ...

    @property
    def moments(self) -> Moments: ...

    @property
    def detached_moments(self) -> Moments: ...

    def cached(self, name: str, compute: Callable[[], Any]) -> Any: ...

    def workspace(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor: ...


# Layers of random parameters -----------------------------------------------------------------------------------------


def layer(a: Moments | SparseBatch, weight: Random, bias: Random | None, averages: bool = False) -> Moments:
    """a Wᵀ + b for random parameters W and b; with `averages`, each row of W is divided by the sum of its means."""
    if isinstance(a, SparseBatch) and weight.family is families.Gaussian:
        mean, log_std = weight.free
        return sparse.gaussian_linear(a, mean, log_std, None if bias is None else bias.moments)
    if (o := layer_with_activation(a, weight, bias, averages)) is not None:
        return o
    if choose.why_not_log_std(weight) is None:
        W, b = weight.detached_moments, None if bias is None else bias.detached_moments
        if choose.why_not_cpu_linear(a, W, b) is None:
            return gaussian_linear(a, W, weight.free[1], b, None if bias is None else bias.free[1])  # type: ignore[arg-type]
    return linear(a, _moments(weight, averages), None if bias is None else bias.moments)


def layer_with_activation(
    a: Moments | SparseBatch,
    weight: Random,
    bias: Random | None,
    averages: bool = False,
    activation: str = "none",
    *constants: float,
) -> Moments | None:
    """f(a Wᵀ + b) in one kernel on a CUDA device; None where there is no such kernel for these arguments.

    Args:
        a: Input.
        weight: Of the layer.
        bias: Of the layer.
        averages: See `layer`.
        activation: "none", "relu", "sigmoid", "tanh" or "gamma", the last with its `constants` τ, r, q.
        constants: Of the activation.
    """
    if not weight.free[0].is_cuda:
        return None
    if weight.family is families.Gaussian:
        return _by_triton(a, weight.free, None if bias is None else bias.free, activation, constants, log_std=True)
    return _by_triton(a, _moments(weight, averages), None if bias is None else bias.moments, activation, constants)


def network(a: Moments, layers: Sequence[tuple[Random, Random, str]]) -> Moments | None:
    """All layers of a Gaussian network, without gradients; None where there are no kernels for it.

    Args:
        a: Input.
        layers: Weight, bias and activation of each. What the kernels make of the weights is cached with them.
    """
    if choose.why_not_triton_linear(a, layers[0][0].free, layers[0][1].free) is not None:
        return None
    from torchnpn.kernels import triton  # only here: it is not installed everywhere
    from torchnpn.kernels.triton import linear as fused

    return fused.network(a, layers, triton.PRECISIONS[current()])


def _moments(weight: Random, averages: bool) -> Moments:
    moments = weight.moments
    if not averages:
        return moments
    least = torch.finfo(moments.mean.dtype).smallest_normal  # of a sum whose terms are all too small for the type
    return moments * (1 / entering(moments.mean).sum(-1, keepdim=True).clamp_min(least))


# Twins of the maps ---------------------------------------------------------------------------------------------------


def linear(a: Moments | SparseBatch, W: Moments, b: Moments | None = None) -> Moments:
    """`maps.linear`; also of sparse rows."""
    if isinstance(a, SparseBatch):
        return sparse.linear(a, W, b)
    if torch.compiler.is_compiling() or not isinstance(a, Moments):
        return maps.linear(a, W, b)
    if choose.why_not_cpu_linear(a, W, b) is None:
        return cpu_linear.linear(a, W, b)
    if (o := _by_triton(a, W, b)) is not None:
        return o
    check_linear(a, W, b)
    return plain_linear(a, W, b)


def relu(o: Moments) -> Moments:
    """`maps.relu`."""
    if not torch.compiler.is_compiling() and choose.why_not_cpu_relu(o) is None:
        return cpu_relu.relu(o)
    return maps.relu(o) if (a := _activated(o, "relu")) is None else a


def sigmoid(o: Moments) -> Moments:
    """`maps.sigmoid`."""
    return maps.sigmoid(o) if (a := _activated(o, "sigmoid")) is None else a


def tanh(o: Moments) -> Moments:
    """`maps.tanh`."""
    return maps.tanh(o) if (a := _activated(o, "tanh")) is None else a


def saturating(family: type[ExponentialFamily], o: Moments, tau: float, r: float, q: float | None) -> Moments:
    """`maps.saturating` of the member of `family` with moments `o`."""
    a = _activated(o, "gamma", tau, r, r if q is None else q) if family is families.Gamma else None
    if a is not None:
        return a
    check_variance("saturating", o)
    return maps.saturating(family.project(o), tau, r, q)


def gaussian_loss(m: Tensor, s: Tensor, y: Tensor, noise: Tensor, elbo: float) -> Tensor | None:
    """The rows' loss of `likelihoods.GaussianNoise` in one kernel; None where there is none for these arguments."""
    if choose.why_not_triton_loss(m, s, y, noise) is not None:
        return None
    from torchnpn.kernels.triton import gaussian_loss as fused

    return fused.rows(m, s, y, noise, elbo)


def _by_triton(
    a: Moments | SparseBatch,
    W: Sequence[Tensor | None],
    b: Sequence[Tensor | None] | None,
    activation: str = "none",
    constants: Sequence[float] = (),
    log_std: bool = False,
) -> Moments | None:
    """f(a Wᵀ + b); the second tensors of W and b are variances, or log standard deviations."""
    if choose.why_not_triton_linear(a, W, b) is not None:
        return None
    from torchnpn.kernels import triton
    from torchnpn.kernels.triton import linear as fused

    act, precision = triton.Activation(activation, *constants), triton.PRECISIONS[current()]
    return fused.linear(a, W, b, act, precision, log_std)  # type: ignore[arg-type]  # dense, as `choose` says


def _activated(o: Moments, name: str, *constants: float) -> Moments | None:
    if choose.why_not_triton_activation(o) is not None:
        return None
    from torchnpn.kernels import triton
    from torchnpn.kernels.triton import linear as fused

    return fused.activate(o, triton.Activation(name, *constants))
