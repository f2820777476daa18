"""Which kernel computes what: `gaussian_layer`, `linear` and `activation` choose one, and nobody else does.

Every "does this fast path apply?" is a function here that says why not, or None.

Kernels are for plain dense tensors. Under `torch.compile`, `torch.func` and autocast, for sparse inputs and for other
types than those named, the maps of `torchnpn.maps` do the work.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from torchnpn._torch import is_transforming
from torchnpn.families import Gaussian
from torchnpn.moments import Moments
from torchnpn.sparse import SparseBatch

COMPILING = "torch.compile traces the plain maps"
_NOT_MOMENTS = "the input is not dense moments"
_TRANSFORMED = "a torch.func transform is at work"
_NO_VARIANCE = "the weights or biases have no variance of their own shape"


@functools.cache
def has_triton() -> bool:
    """Whether Triton is installed; torch's builds for CUDA bring it on Linux."""
    return importlib.util.find_spec("triton") is not None


Kernel = Literal["cpu", "cpu, learning", "triton", "sparse", "plain"]
"""On a CPU, on a CUDA device, of sparse rows, or the plain map; "learning" is for log standard deviations (below)."""


def gaussian_layer(a: Any, W: Sequence[Tensor], b: Sequence[Tensor] | None) -> Kernel:
    """The kernel of a Gaussian linear layer with the free tensors W and b, means and log standard deviations.

    "cpu, learning" has the variances as numbers, in memory that it fills anew in each pass, and gives gradients to the
    log standard deviations. Whoever puts other tensors in the place of parameters may put in several before the
    backward pass, and gets "cpu".
    """
    kernel = linear(a, W, b)
    learns = kernel == "cpu" and torch.is_grad_enabled() and all(type(t) is nn.Parameter for t in W)
    return "cpu, learning" if learns else kernel


def linear(a: Any, W: Sequence[Tensor | None], b: Sequence[Tensor | None] | None) -> Kernel:
    """The kernel of a linear map; what follows the means in W and b are variances, or whatever has their shapes."""
    if isinstance(a, SparseBatch):
        return "sparse"
    if W[0].is_cuda and why_not_triton_linear(a, W, b) is None:  # type: ignore[union-attr]
        return "triton"
    return "cpu" if why_not_cpu_linear(a, W, b) is None else "plain"


def activation(o: Any, on_cpu: bool = False) -> Kernel:
    """The kernel of an activation; `on_cpu` says whether there is one on a CPU."""
    if isinstance(o, Moments) and o.mean.is_cuda:
        return "triton" if why_not_triton_activation(o) is None else "plain"
    return "cpu" if on_cpu and why_not_cpu_relu(o) is None else "plain"


def why_not_cpu_linear(a: Any, W: Sequence[Tensor | None], b: Sequence[Tensor | None] | None) -> str | None:
    """Why `kernels.cpu.linear` does not take these arguments.

    Under autocast products change type, and could not be accumulated in place.
    """
    if torch.compiler.is_compiling():  # first of all: the compiler cannot see through the questions below
        return COMPILING
    if not isinstance(a, Moments) or not isinstance(a.mean, Tensor):
        return _NOT_MOMENTS
    mean, *spread = W
    assert mean is not None
    if a.mean.dim() != 2 or mean.dim() != 2:
        return "the input is not a matrix, or the layer has replicas"
    if torch.is_autocast_enabled("cpu"):
        return "autocast is on"
    if not _are_spreads(spread, mean) or not _are_biases(b, mean):
        return _NO_VARIANCE
    for t in (*a, *W, *(b or ())):
        if t is None:
            continue
        if t.device.type != "cpu" or t.layout != torch.strided:
            return "a tensor is not dense, or not on the CPU"
        if t.dtype != mean.dtype:
            return "tensors are of different types"
    return _TRANSFORMED if is_transforming() else None


def _are_spreads(spread: Sequence[Tensor | None], W: Tensor) -> bool:
    """Whether there is a variance, or its logarithm, for each weight: in one tensor, or as the product of two."""
    (*others, n_out, n_in), shapes = W.shape, [None if t is None else tuple(t.shape) for t in spread]
    return shapes in ([(*others, n_out, n_in)], [(*others, n_out, 1), (*others, 1, n_in)])


def _are_biases(b: Sequence[Tensor | None] | None, W: Tensor) -> bool:
    """Whether b has a mean and a variance, or its logarithm, for each output of W."""
    return b is None or (b[1] is not None and b[1].shape == b[0].shape == W.shape[:-1])  # type: ignore[union-attr]


def why_not_cpu_relu(o: Moments) -> str | None:
    """Why `kernels.cpu.relu` does not take `o`."""
    if torch.compiler.is_compiling():
        return COMPILING
    if not isinstance(o, Moments) or o.variance is None or o.mean.shape != o.variance.shape:
        return "the input has no variance of its own shape"
    dtypes = (torch.float32,) if torch.is_grad_enabled() else (torch.float32, torch.float64)
    for t in o:
        if t.device.type != "cpu" or t.dtype not in dtypes:  # type: ignore[union-attr]
            return "a tensor is not float32, nor float64 without gradients, or not on the CPU"
    return _TRANSFORMED if is_transforming() else None


def why_not_triton(*tensors: Tensor | None) -> str | None:
    """Why kernels in Triton cannot have these tensors."""
    if torch.compiler.is_compiling():
        return COMPILING
    for t in tensors:
        if t is None:
            continue
        if not t.is_cuda:
            return "a tensor is not on a CUDA device"
        if t.dtype != torch.float32 or t.layout != torch.strided or t.numel() == 0:
            return "a tensor is not a dense float32 one with numbers in it"
    if is_transforming():
        return _TRANSFORMED
    return None if has_triton() else "Triton is not installed"


def why_not_triton_linear(a: Any, W: Sequence[Tensor | None], b: Sequence[Tensor | None] | None) -> str | None:
    """Why `kernels.triton.linear` does not take an input, weights and biases.

    Args:
        a: Input, for all replicas or one for each.
        W: Mean, and variance or log standard deviation.
        b: Likewise, or None.
    """
    if torch.compiler.is_compiling():
        return COMPILING
    if not isinstance(a, Moments) or not isinstance(a.mean, Tensor):
        return _NOT_MOMENTS
    if (reason := why_not_triton(*a, *W, *(b or ()))) is not None:
        return reason
    (mean, *spread), shape = W, a.mean.shape
    assert mean is not None
    if not _are_spreads(spread, mean) or not _are_biases(b, mean):
        return _NO_VARIANCE
    if len(shape) < 2 or shape[:-2] not in ((), mean.shape[:-2]) or shape[-1] != mean.shape[-1]:
        return "the input is not a matrix for all replicas, or one for each"
    return "autocast is on" if torch.is_autocast_enabled("cuda") else None


def why_not_triton_activation(o: Any) -> str | None:
    """Why the activations of `kernels.triton` do not take `o`."""
    if not isinstance(o, Moments) or o.variance is None or o.variance.shape != o.mean.shape:
        return "the input has no variance of its own shape"
    return why_not_triton(*o)


def why_not_triton_loss(m: Tensor, s: Tensor, y: Tensor, noise: Tensor) -> str | None:
    """Why `kernels.triton.gaussian_loss` does not take these arguments."""
    if m.shape != s.shape or y.dtype != m.dtype:
        return "means, variances and targets are of different shapes or types"
    return why_not_triton(m, s, y, noise)


def why_not_triton_sparse(x: SparseBatch, W: Tensor) -> str | None:
    """Why `kernels.triton.sparse` does not take sparse rows and weights."""
    if torch.compiler.is_compiling():
        return COMPILING
    if not (x.values.is_cuda and W.is_cuda):
        return "a tensor is not on a CUDA device"
    return None if has_triton() else "Triton is not installed"


def is_plain_gaussian_on_cpu(family: type, free: Sequence[Tensor]) -> bool:
    """Whether free tensors are those of a Gaussian on a CPU, neither traced nor transformed."""
    return (
        not torch.compiler.is_compiling()
        and family is Gaussian
        and all(type(t) is nn.Parameter and t.device.type == "cpu" for t in free)
    )
