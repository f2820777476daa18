"""The prior of weights in probabilistic back-propagation: N(0, 1/λ) with a gamma posterior of λ, by EP.

The prior's factor of each weight is approximated by a Gaussian of the weight and a gamma distribution of λ. A sweep
takes each factor out, forms the moments of what is left times the true factor, and puts the factor back in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

SHAPE = 6.0  # of both gamma distributions before any data; their rates are the same number
_WIDEST = 1e6  # a cavity with a larger variance says nothing: its factor stays as it is


def gamma_update(shape: Tensor, rate: Tensor, log_z: Tensor, log_z1: Tensor, log_z2: Tensor) -> tuple[Tensor, Tensor]:
    """Shape and rate that match the first two moments of a precision after a factor.

    With Z, Z₁, Z₂ the evidence for the shapes α, α + 1, α + 2 and the same rate β:
        E λ = Z₁ α / (Z β),    E λ² = Z₂ α (α + 1) / (Z β²),
        α' = 1 / (E λ² / (E λ)² - 1),    β' = α' / E λ.
    An update that would not leave a distribution with a mean of 1/λ (α' ≤ 1, say) is not made.
    """
    ratio = torch.exp(log_z2 - 2 * log_z1 + log_z) * (shape + 1) / shape
    new_shape = 1 / (ratio - 1)
    new_rate = new_shape * rate / shape * torch.exp(log_z - log_z1)
    sound = (new_shape > 1) & (new_rate > 0) & new_shape.isfinite() & new_rate.isfinite()
    return torch.where(sound, new_shape, shape), torch.where(sound, new_rate, rate)


@dataclass
class PriorFactors:
    """The factors of all weights, in natural parameters, and the gamma posterior of λ.

    Attributes:
        precision: 1/v of each weight's factor (weights, networks).
        shift: m/v of the same.
        shape: What the factor adds to λ's shape (weights, networks).
        rate: What it adds to λ's rate.
        total_shape: λ's shape (networks,).
        total_rate: λ's rate.
    """

    precision: Tensor
    shift: Tensor
    shape: Tensor
    rate: Tensor
    total_shape: Tensor
    total_rate: Tensor

    @classmethod
    def initial(cls, means: list[Tensor]) -> PriorFactors:
        """Factors N(0, rate/(shape - 1)) of the weights that say nothing on λ."""
        zeros = torch.zeros_like(_joined(means))
        whole = torch.full_like(zeros[0], SHAPE)
        gaussian = torch.full_like(zeros, (SHAPE - 1) / SHAPE)
        return cls(gaussian, zeros.clone(), zeros.clone(), zeros.clone(), whole, whole.clone())

    @torch.no_grad()
    def refine(self, means: list[Tensor], variances: list[Tensor]) -> None:
        """One sweep over the weights, in their order; it changes the weights' moments in place."""
        m, v = _joined(means), _joined(variances)
        for number in range(len(m)):
            m[number], v[number] = self._refine_one(number, m[number], v[number])
        for parts, joined in ((means, m), (variances, v)):
            split = joined.split([math.prod(part.shape[-2:]) for part in parts])
            for part, values in zip(parts, split, strict=True):
                part.copy_(values.T.reshape(part.shape))

    def _refine_one(self, number: int, m: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        left_precision = 1 / v - self.precision[number]
        cavity_v = 1 / left_precision
        cavity_m = (m / v - self.shift[number]) * cavity_v
        shape, rate = self.total_shape - self.shape[number], self.total_rate - self.rate[number]
        totals = [cavity_v + rate / (shape + more - 1) for more in range(3)]
        log_z = [-0.5 * (total.log() + cavity_m**2 / total) for total in totals]
        by_m, by_v = -cavity_m / totals[0], 0.5 * (cavity_m**2 / totals[0] - 1) / totals[0]
        new_m, new_v = cavity_m + cavity_v * by_m, cavity_v - cavity_v**2 * (by_m**2 - 2 * by_v)
        new_shape, new_rate = gamma_update(shape, rate, *log_z)
        sound = (cavity_v > 0) & (cavity_v < _WIDEST) & (shape > 1) & (rate > 0) & (new_v > 0) & new_m.isfinite()

        def keep(place: Tensor, value: Tensor) -> None:
            place.copy_(torch.where(sound, value, place))

        keep(self.precision[number], 1 / new_v - left_precision)
        keep(self.shift[number], new_m / new_v - cavity_m * left_precision)
        keep(self.shape[number], new_shape - shape)
        keep(self.rate[number], new_rate - rate)
        keep(self.total_shape, new_shape)
        keep(self.total_rate, new_rate)
        return torch.where(sound, new_m, m), torch.where(sound, new_v, v)


def _joined(parts: list[Tensor]) -> Tensor:  # each (..., out, in) -> (weights, networks), on the CPU
    """All weights in a row, one column for each network; the sweep is sequential, so it runs on the host."""
    return torch.cat([part.detach().reshape(math.prod(part.shape[:-2]), -1).T.cpu() for part in parts]).clone()
