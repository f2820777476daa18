"""Which kernel computes what: every "does this fast path apply?" is a function here that says why not, or None.

Kernels are for plain dense tensors. Under `torch.compile`, `torch.func` and autocast, for sparse inputs and for other
types than those named, the maps of `torchnpn.maps` do the work.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from torchnpn._torch import is_transformed
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


def why_not_cpu_linear(a: Any, W: Moments, b: Moments | None) -> str | None:
    """Why `kernels.cpu.linear` does not take these arguments.

    Under autocast products change type, and could not be accumulated in place.
    """
    if not isinstance(a, Moments) or not isinstance(a.mean, Tensor):
        return _NOT_MOMENTS
    if a.mean.dim() != 2 or W.mean.dim() != 2:
        return "the input is not a matrix, or the layer has replicas"
    if torch.is_autocast_enabled("cpu"):
        return "autocast is on"
    if W.variance is None or W.variance.shape != W.mean.shape:
        return _NO_VARIANCE
    if b is not None and (b.variance is None or not b.variance.shape == b.mean.shape == W.mean.shape[:1]):
        return _NO_VARIANCE
    for t in (*a, *W, *(b or ())):
        if t is None:
            continue
        if t.device.type != "cpu" or t.layout != torch.strided:
            return "a tensor is not dense, or not on the CPU"
        if t.dtype != W.mean.dtype:
            return "tensors are of different types"
        if is_transformed(t):
            return _TRANSFORMED
    return None


def why_not_log_std(weight: Any) -> str | None:
    """Why the CPU kernel cannot have the variances of a parameter as numbers, and give gradients to ℓ = log std."""
    if not torch.is_grad_enabled():
        return "no gradients are asked for"
    if not weight.is_plain_on_cpu:
        return "the weights are not Gaussian, not on the CPU, or traced"
    return "the layer has replicas" if weight.replicas else None


def why_not_cpu_relu(o: Moments) -> str | None:
    """Why `kernels.cpu.relu` does not take `o`."""
    if not isinstance(o, Moments) or o.variance is None or o.mean.shape != o.variance.shape:
        return "the input has no variance of its own shape"
    for t in o:
        if t.device.type != "cpu" or t.dtype != torch.float32:  # type: ignore[union-attr]
            return "a tensor is not float32, or not on the CPU"
        if is_transformed(t):  # type: ignore[arg-type]
            return _TRANSFORMED
    return None


def why_not_triton(*tensors: Tensor | None) -> str | None:
    """Why kernels in Triton cannot have these tensors."""
    if torch.compiler.is_compiling():  # first of all: the compiler cannot see through the questions below
        return COMPILING
    for t in tensors:
        if t is None:
            continue
        if not t.is_cuda:
            return "a tensor is not on a CUDA device"
        if t.dtype != torch.float32 or t.layout != torch.strided or t.numel() == 0:
            return "a tensor is not a dense float32 one with numbers in it"
        if is_transformed(t):
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
    (mean, spread), shape = W, a.mean.shape
    assert mean is not None
    if spread is None or spread.shape != mean.shape:
        return _NO_VARIANCE
    if b is not None and (b[1] is None or not b[1].shape == b[0].shape == mean.shape[:-1]):  # type: ignore[union-attr]
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
