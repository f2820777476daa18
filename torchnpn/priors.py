"""Priors on weights, and the divergence of a network's weights from them.

The objective of training is `mean over rows of loss + (β/N) · KL`; `kl(model, prior)` is this KL.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from torchnpn import families
from torchnpn.families import ExponentialFamily, Gaussian, GaussianScaleMixture
from torchnpn.nn import RandomParameter


class Place(NamedTuple):
    """Where in a network a random parameter stands."""

    first: bool  # the weights of the first layer
    bias: bool  # no input is multiplied by it


class Prior(Protocol):
    """Anything with a divergence of a parameter from it: element by element, or in other parts that add up to it."""

    def divergence(self, parameter: RandomParameter, place: Place) -> Tensor: ...


def kl(model: nn.Module, prior: Prior) -> Tensor:
    """Σ KL(weight ‖ prior) over all random parameters of `model`, in nats; one value for each replica, if any."""
    total: Tensor | None = None
    for parameter, place in _placed(model):
        each = _total(prior, parameter, place)
        total = each if total is None else total + each
    if total is None:
        raise ValueError("kl expects a model with random parameters, such as npn.nn.Linear layers; found none.")
    return total


def add_kl_gradient_(model: nn.Module, prior: Prior, weight: float | NDArray[Any] | Tensor) -> None:
    """Add `weight`, one number or one for each replica, times the gradient of `kl(model, prior)` to the `.grad`.

    What `(weight * kl(model, prior)).sum().backward()` does; but that of Gaussian weights is written straight into the
    memory of the one that is there, for such a step is bound by memory.
    """
    for parameter, place in _placed(model):
        reference = parameter.free[0]
        each = torch.as_tensor(weight, dtype=reference.dtype, device=reference.device)
        direct = parameter.family is Gaussian and parameter.coordinates == "usual"
        if direct and isinstance(prior, (IsotropicGaussian, EmpiricalBayes)):
            several = each.numel() > 1
            each = each.view(-1, *[1] * parameter.event_dims) if several else each.view(())
            _add_gaussian_gradient_(parameter, prior.precision_of(parameter, place), each)
        else:
            (each * _total(prior, parameter, place)).sum().backward()


@torch.no_grad()
def _add_gaussian_gradient_(parameter: RandomParameter, precision: Tensor | float, weight: Tensor) -> None:
    """∂m = λ m and ∂ℓ = λ s - 1; for tied ℓ_ij = ℓ_i + ℓ_j the sums of it over j and over i, with s_ij = r_i c_j."""
    scale = weight * precision
    if parameter.posterior == "tied":
        m, r, c = parameter.tied_moments
        n_out, n_in = m.shape[-2:]
        _add_(parameter.free[0], m, scale)
        _add_(parameter.free[1], r * (scale * c).sum(-1, keepdim=True) - n_in * weight)
        _add_(parameter.free[2], scale * c * r.sum(-2, keepdim=True) - n_out * weight)
        return
    m, log_std = parameter.free
    s = parameter.detached_moments.variance if parameter.is_plain_on_cpu else torch.exp(2 * log_std)
    assert s is not None
    _add_(m, m, scale)
    _add_(log_std, s, scale)
    if log_std.requires_grad:
        log_std.grad.sub_(weight)  # type: ignore[union-attr]


def _add_(free: Tensor, slope: Tensor, scale: Tensor | None = None) -> None:
    """Add scale · slope, or the slope itself, to the gradient that is there.

    No number becomes a tensor here: that would be a copy to the GPU, which a CUDA graph cannot record.
    """
    if free.requires_grad:
        free.grad = torch.zeros_like(free) if free.grad is None else free.grad
        free.grad = free.grad.add_(slope) if scale is None else free.grad.addcmul_(slope, scale)


def _total(prior: Prior, parameter: RandomParameter, place: Place) -> Tensor:
    """The divergence summed over the elements of one network."""
    return prior.divergence(parameter, place).sum(tuple(range(-parameter.event_dims, 0)))


def _placed(model: nn.Module) -> Iterator[tuple[RandomParameter, Place]]:
    first = True
    for module in model.modules():
        if isinstance(module, RandomParameter):
            bias = module.in_dims == 0
            yield module, Place(first and not bias, bias)
            first = first and bias


@dataclass(frozen=True)
class IsotropicGaussian:
    """N(0, 1/λ) on every weight: the paper's prior, for Gaussian and gamma weights."""

    precision: float = 1.0

    def __post_init__(self) -> None:
        if not self.precision > 0:
            raise ValueError(f"IsotropicGaussian expects precision > 0, got {self.precision}.")

    def precision_of(self, parameter: RandomParameter, place: Place) -> float:
        return self.precision

    def divergence(self, parameter: RandomParameter, place: Place) -> Tensor:
        if parameter.family is Gaussian:
            return gaussian_divergence(parameter.free, self.precision_of(parameter, place))
        reference = parameter.free[0]
        return families.kl(
            parameter.distribution,
            Gaussian.unchecked(torch.zeros_like(reference), torch.full_like(reference, 1 / self.precision)),
        )


@dataclass(frozen=True)
class ScaleMixture:
    """π N(0, v₁) + (1 - π) N(0, v₂), a broad and a narrow Gaussian (Blundell et al. 2015); an upper bound of the KL."""

    weight: float = 0.5
    variances: tuple[float, float] = (1.0, math.exp(-12.0))

    def divergence(self, parameter: RandomParameter, place: Place) -> Tensor:
        weights, variances = torch.tensor([self.weight, 1 - self.weight]), torch.tensor(self.variances)
        return families.kl(parameter.distribution, GaussianScaleMixture(weights, variances))


@dataclass(frozen=True)
class EmpiricalBayes:
    """N(0, v) with v learnt in closed form: the v that makes the KL smallest, v = mean(m² + s).

    One v for each input of the first layer, so that useless inputs are pruned; one for each later layer; biases are
    N(0, 1). No gradient passes through v: at the minimum its derivative is zero.
    """

    def precision_of(self, parameter: RandomParameter, place: Place) -> Tensor | float:
        """1/v, of a shape that broadcasts against the parameter."""
        if parameter.family is not Gaussian:
            raise TypeError(f"EmpiricalBayes expects Gaussian weights, got {parameter.family.__name__}.")
        if place.bias:
            return 1.0
        with torch.no_grad():
            m, *log_stds = parameter.free
            stop = -parameter.in_dims if place.first else 0  # over outputs, or over all weights
            over = tuple(range(-parameter.event_dims, stop))
            s: Tensor | float = 1.0
            for log_std in log_stds:  # the mean of an outer product is that of the means
                s = s * torch.exp(2 * log_std).mean(over, keepdim=True)
            return 1 / (m.square().mean(over, keepdim=True) + s)

    def divergence(self, parameter: RandomParameter, place: Place) -> Tensor:
        return gaussian_divergence(parameter.free, self.precision_of(parameter, place))


@dataclass(frozen=True)
class Member:
    """A member of the weights' own family as the prior, for example `Member(Beta(2.0, 2.0))`."""

    member: ExponentialFamily

    def divergence(self, parameter: RandomParameter, place: Place) -> Tensor:
        return families.kl(parameter.distribution, self.member.to(parameter.free[0]))


@dataclass(frozen=True)
class Quadratic:
    """½ λ m² + ½ λ_d (s - h)²: the paper's stand-in for the KL (supplement), which keeps variances near h."""

    precision: float = 1.0
    variance_weight: float = 1.0
    variance: float = 0.01

    def divergence(self, parameter: RandomParameter, place: Place) -> Tensor:
        m, s = parameter.moments
        assert s is not None
        return 0.5 * self.precision * m**2 + 0.5 * self.variance_weight * (s - self.variance) ** 2


def gaussian_divergence(free: Sequence[Tensor], precision: Tensor | float) -> Tensor:
    """KL(N(m, e^{2ℓ}) ‖ N(0, 1/λ)) = ½ (λ (m² + e^{2ℓ}) - 1 - log λ) - ℓ, from the free tensors m, ℓ themselves.

    Where standard deviations are tied, ℓ_ij = ℓ_i + ℓ_j, it is summed over outputs, one number for each input j:

        ½ (λ_j (Σ_i m_ij² + e^{2ℓ_j} Σ_i e^{2ℓ_i}) - n (1 + log λ_j)) - Σ_i ℓ_i - n ℓ_j.
    """
    log_precision = precision.log() if isinstance(precision, Tensor) else math.log(precision)
    if len(free) == 3:
        mean, by_output, by_input = free
        n = mean.shape[-2]
        s = torch.exp(2 * by_input) * torch.exp(2 * by_output).sum(-2, keepdim=True)
        second = precision * ((mean * mean).sum(-2, keepdim=True) + s) - n * (1 + log_precision)
        return 0.5 * second - by_output.sum(-2, keepdim=True) - n * by_input
    mean, log_std = free
    return 0.5 * (precision * (mean * mean + torch.exp(2 * log_std)) - 1 - log_precision) - log_std
