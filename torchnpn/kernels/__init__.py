"""Fused twins of the maps, with the same signatures; `choose` says which of them applies.

On a CPU those of `kernels.cpu`, on a CUDA device those of `kernels.triton`, and the plain maps everywhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torchnpn import families, maps
from torchnpn.families import ExponentialFamily
from torchnpn.finite import entering
from torchnpn.kernels.choose import has_triton
from torchnpn.kernels.cpu import gaussian_linear
from torchnpn.kernels.cpu import linear as cpu_linear
from torchnpn.kernels.cpu import relu as cpu_relu
from torchnpn.kernels.cpu import tied as cpu_tied
from torchnpn.kernels.precision import current, precision, tf32
from torchnpn.maps import check_linear, plain_linear
from torchnpn.moments import Moments, TiedMoments, check_variance
from torchnpn.sparse import SparseBatch

__all__ = [
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
    "step_",
    "tanh",
    "tf32",
]

# For other packages of torchnpn:
from torchnpn.kernels import choose as choose
from torchnpn.kernels import cpu as cpu
from torchnpn.kernels import sparse as sparse
from torchnpn.kernels.precision import checked_precision as checked_precision

# Layers of random parameters, `nn.RandomParameter` -------------------------------------------------------------------

Random = Any  # from a package above: its family, its free tensors, their moments, and its cache


def layer(a: Moments | SparseBatch, weight: Random, bias: Random | None, averages: bool = False) -> Moments:
    """a Wᵀ + b for random parameters W and b; with `averages`, each row of W is divided by the sum of its means."""
    if weight.family is not families.Gaussian:
        return linear(a, _moments(weight, averages), None if bias is None else bias.moments)
    if weight.posterior == "tied":
        return linear(a, weight.tied_moments, None if bias is None else bias.moments)
    W, b = weight.free, None if bias is None else bias.free
    kernel = choose.gaussian_layer(a, W, b)
    if kernel == "sparse":
        return sparse.gaussian_linear(a, W[0], W[1], None if bias is None else bias.moments)  # type: ignore[arg-type]
    if kernel == "triton":
        return _by_triton(a, W, b, log_std=True)  # type: ignore[arg-type]
    if kernel == "cpu, learning":
        variances = weight.detached_moments, None if bias is None else bias.detached_moments
        return gaussian_linear(a, variances[0], W[1], variances[1], None if b is None else b[1])  # type: ignore[arg-type]
    return _linear(kernel, a, weight.moments, None if bias is None else bias.moments)


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
    log_std = weight.family is families.Gaussian
    W = weight.free if log_std else _moments(weight, averages)
    b = None if bias is None else bias.free if log_std else bias.moments
    if choose.why_not_triton_linear(a, W, b) is not None:
        return None
    return _by_triton(a, W, b, activation, constants, log_std)  # type: ignore[arg-type]


def network(
    a: Moments, layers: Sequence[tuple[Random, Random, str]], beside: Sequence[tuple[Random, Random, str]] = ()
) -> Moments | None:
    """All layers of a Gaussian network, without gradients; None where there are no kernels for it.

    Args:
        a: Input.
        layers: Weight, bias and activation of each. What the kernels make of the weights is cached with them.
        beside: Others that take what the last of them takes; their outputs stand after its own.
    """
    if choose.why_not_triton_linear(a, layers[0][0].free, layers[0][1].free) is not None:
        return None
    triton = _triton()
    return triton.linear.network(a, layers, triton.PRECISIONS[current()], beside)  # type: ignore[no-any-return]


def _moments(weight: Random, averages: bool) -> Moments:
    moments: Moments = weight.moments
    if not averages:
        return moments
    least = torch.finfo(moments.mean.dtype).smallest_normal  # of a sum whose terms are all too small for the type
    return moments * (1 / entering(moments.mean).sum(-1, keepdim=True).clamp_min(least))


# Twins of the maps ---------------------------------------------------------------------------------------------------


def linear(a: Moments | SparseBatch, W: Moments | TiedMoments, b: Moments | None = None) -> Moments:
    """`maps.linear`; also of sparse rows."""
    return _linear(choose.linear(a, W, b), a, W, b)


def _linear(kernel: choose.Kernel, a: Any, W: Moments | TiedMoments, b: Moments | None) -> Moments:
    if kernel == "sparse":
        return sparse.linear(a, W, b)
    if kernel == "cpu":
        return cpu_tied.linear(a, W, b) if isinstance(W, TiedMoments) else cpu_linear.linear(a, W, b)
    if kernel == "triton":
        return _by_triton(a, W, b)
    if not isinstance(a, Moments):  # sparse rows of scipy
        return maps.linear(a, W, b)
    check_linear(a, W, b)
    return plain_linear(a, W, b)


def relu(o: Moments) -> Moments:
    """`maps.relu`."""
    kernel = choose.activation(o, on_cpu=True)
    if kernel == "cpu":
        return cpu_relu.relu(o)
    return _activated(o, "relu") if kernel == "triton" else maps.relu(o)


def sigmoid(o: Moments) -> Moments:
    """`maps.sigmoid`."""
    return _activated(o, "sigmoid") if choose.activation(o) == "triton" else maps.sigmoid(o)


def tanh(o: Moments) -> Moments:
    """`maps.tanh`."""
    return _activated(o, "tanh") if choose.activation(o) == "triton" else maps.tanh(o)


def saturating(
    family: type[ExponentialFamily],
    o: Moments,
    tau: float,
    r: float,
    q: float | None,
    statistic: int | None = None,
) -> Moments:
    """`maps.saturating` of the member of `family` with moments `o`."""
    if family is families.Gamma and statistic is None and choose.activation(o) == "triton":
        return _activated(o, "gamma", tau, r, r if q is None else q)
    check_variance("saturating", o)
    return maps.saturating(family.project(o), tau, r, q, statistic)


def gaussian_loss(m: Tensor, s: Tensor, y: Tensor, noise: Tensor, elbo: float) -> Tensor | None:
    """The rows' loss of `likelihoods.GaussianNoise` in one kernel; None where there is none for these arguments."""
    if choose.why_not_triton_loss(m, s, y, noise) is not None:
        return None
    return _triton().gaussian_loss.rows(m, s, y, noise, elbo)  # type: ignore[no-any-return]


def _by_triton(
    a: Moments,
    W: Sequence[Tensor | None],
    b: Sequence[Tensor | None] | None,
    activation: str = "none",
    constants: Sequence[float] = (),
    log_std: bool = False,
) -> Moments:
    """f(a Wᵀ + b); the second tensors of W and b are variances, or log standard deviations."""
    triton = _triton()
    act, precision = triton.Activation(activation, *constants), triton.PRECISIONS[current()]
    return triton.linear.linear(a, W, b, act, precision, log_std)  # type: ignore[no-any-return]


def _activated(o: Moments, name: str, *constants: float) -> Moments:
    triton = _triton()
    return triton.linear.activate(o, triton.Activation(name, *constants))  # type: ignore[no-any-return]


def _triton() -> Any:
    """`kernels.triton`, imported where one of its kernels is used: Triton is not installed everywhere."""
    from torchnpn.kernels import triton

    return triton


# The optimizer --------------------------------------------------------------------------------------------------------


def step_(x: Tensor, gradient: Tensor, averages: Tensor, now: Tensor, rule: tuple[str, float, float, float]) -> None:
    """One step of an optimizer on `x`, in place, by the gradient g and two averages, a and b, that begin at zero.

    "adam": a ← β₁ a + (1-β₁) g, b ← β₂ b + (1-β₂) g², x ← x - rate · a/(√b · correction + ε).
    "adadelta": b as above, d = √(a+ε)/√(b+ε) · g, a ← β₁ a + (1-β₁) d², x ← x - rate · d.

    Args:
        x: The numbers, (replicas, …), or of any shape where there are none.
        gradient: Of the same shape.
        averages: (2, …): a and b.
        now: (replicas, 3) or (1, 3), on the device for a graph: the rate and the correction; Adam's rate is divided by
            1 - β₁ᵗ, and its correction is 1/√(1 - β₂ᵗ).
        rule: One of the two names, β₁, β₂ and ε.
    """
    if x.is_cuda:
        _triton().optimizer.step_(x, gradient, averages, now, rule)
        return
    shape = (-1, *[1] * (x.dim() - 1)) if len(now) > 1 else (1,) * x.dim()
    rate, correction = (now[:, i].view(shape) for i in range(2))
    (first, second), (kind, b1, b2, epsilon) = averages, rule
    second.mul_(b2).addcmul_(gradient, gradient, value=1 - b2)
    if kind == "adam":
        first.mul_(b1).add_(gradient, alpha=1 - b1)
        x.sub_(rate * first / (second.sqrt().mul_(correction).add_(epsilon)))
    else:
        change = (first + epsilon).sqrt_().div_((second + epsilon).sqrt_()).mul_(gradient)
        first.mul_(b1).addcmul_(change, change, value=1 - b1)
        x.sub_(rate * change)
