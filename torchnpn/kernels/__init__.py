"""Fused twins of the maps, with the same signatures; this file is the one place that chooses between them.

On a CPU `cpu_linear` and `cpu_relu`, on a CUDA device the kernels of `triton`, and the plain maps everywhere else: for
other types than float32, under `torch.compile`, `torch.func` or autocast, and for sparse inputs.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from torchnpn import families, maps
from torchnpn._torch import is_transformed
from torchnpn.families import ExponentialFamily
from torchnpn.kernels import sparse as sparse_linear
from torchnpn.kernels.adam import adam_
from torchnpn.kernels.cpu import linear as cpu_linear
from torchnpn.kernels.cpu import relu as cpu_relu
from torchnpn.kernels.cpu.linear import gaussian_linear
from torchnpn.kernels.precision import current, precision
from torchnpn.moments import Moments

__all__ = [
    "adam_",
    "gaussian_linear",
    "gaussian_loss",
    "has_triton",
    "linear",
    "linear_activation",
    "network",
    "precision",
    "relu",
    "saturating",
    "sigmoid",
    "takes_log_std",
    "tanh",
]


def linear(a: Moments, W: Moments, b: Moments | None = None) -> Moments:
    """`maps.linear`; sparse rows by `sparse_linear`."""
    if sparse_linear.takes(a):
        return sparse_linear.linear(a, W, b)  # type: ignore[arg-type]
    if torch.compiler.is_compiling():
        return maps.linear(a, W, b)
    if cpu_linear.takes(a, W, b):
        return cpu_linear.linear(a, W, b)
    return maps.linear(a, W, b) if (o := linear_activation(a, W, b)) is None else o


def takes_log_std(a: Moments, W: Moments, b: Moments | None) -> bool:
    """Whether `gaussian_linear` handles these arguments."""
    return cpu_linear.takes(a, W, b)


def linear_activation(
    a: Moments, W: Moments, b: Moments | None, activation: str = "none", *constants: float, log_std: bool = False
) -> Moments | None:
    """f(a Wᵀ + b) in one kernel on a CUDA device; None where there is no such kernel for these arguments.

    Args:
        a: Input.
        W: Weights; with `log_std`, mean and log standard deviation.
        b: Biases, likewise.
        activation: "none", "relu", "sigmoid", "tanh" or "gamma", the last with its `constants` τ, r, q.
        constants: Of the activation.
        log_std: What the second tensors of W and b are.
    """
    if not _is_for_triton(a, W, b):
        return None
    from torchnpn.kernels import triton  # only here: it is not installed everywhere
    from torchnpn.kernels.triton import linear as fused

    return fused.linear(a, W, b, triton.Activation(activation, *constants), triton.PRECISIONS[current()], log_std)


class Random(Protocol):
    """A Gaussian parameter: see `nn.RandomParameter`."""

    @property
    def free(self) -> list[Tensor]: ...

    def kept(self, name: str, compute: Callable[[], Any]) -> Any: ...

    def room(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor: ...


def network(a: Moments, layers: Sequence[tuple[Random, Random, str]]) -> Moments | None:
    """All layers of a Gaussian network, without gradients; None where there are no kernels for it.

    Args:
        a: Input.
        layers: Weight, bias and activation of each. What the kernels make of the weights is kept with them.
    """
    W, b = layers[0][0].free, layers[0][1].free
    if not _is_for_triton(a, Moments(*W), Moments(*b)):
        return None
    from torchnpn.kernels import triton
    from torchnpn.kernels.triton import linear as fused

    return fused.network(a, layers, triton.PRECISIONS[current()])


def relu(o: Moments) -> Moments:
    """`maps.relu`."""
    if not torch.compiler.is_compiling() and cpu_relu.takes(o):
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
    return maps.saturating(family.project(o), tau, r, q) if a is None else a


def gaussian_loss(m: Tensor, s: Tensor, y: Tensor, noise: Tensor, elbo: float) -> Tensor | None:
    """The rows' loss of `likelihoods.GaussianNoise` in one kernel; None where there is none for these arguments."""
    if not (m.shape == s.shape and y.dtype == m.dtype and _are_plain(m, s, y, noise)):
        return None
    from torchnpn.kernels.triton import gaussian_loss as fused

    return fused.rows(m, s, y, noise, elbo)


def _activated(o: Moments, name: str, *constants: float) -> Moments | None:
    if not isinstance(o, Moments) or o.variance is None or o.variance.shape != o.mean.shape:
        return None
    if not _are_plain(o.mean, o.variance):
        return None
    from torchnpn.kernels import triton
    from torchnpn.kernels.triton import linear as fused

    return fused.activate(o, triton.Activation(name, *constants))


def _is_for_triton(a: Moments, W: Moments, b: Moments | None) -> bool:
    """Dense float32 tensors on a CUDA device; random weights; an input for all replicas or one for each."""
    if torch.compiler.is_compiling() or not isinstance(a, Moments) or not isinstance(a.mean, Tensor):
        return False
    tensors = [*a, *W, *(() if b is None else b)]
    return (
        W.variance is not None
        and W.variance.shape == W.mean.shape
        and a.mean.dim() >= 2
        and a.mean.shape[:-2] in ((), W.mean.shape[:-2])
        and a.mean.shape[-1] == W.mean.shape[-1]
        and (b is None or (b.variance is not None and b.variance.shape == b.mean.shape == W.mean.shape[:-1]))
        and not torch.is_autocast_enabled("cuda")
        and _are_plain(*(t for t in tensors if t is not None))
    )


def _are_plain(*tensors: Tensor) -> bool:
    if torch.compiler.is_compiling():  # first of all: the compiler cannot see through the questions below
        return False
    return has_triton() and all(
        t.is_cuda and t.dtype == torch.float32 and t.layout == torch.strided and t.numel() > 0 and not is_transformed(t)
        for t in tensors
    )


@functools.cache
def has_triton() -> bool:
    """Whether Triton is installed; torch's builds for CUDA bring it on Linux."""
    return importlib.util.find_spec("triton") is not None
