"""What Stirling's formula leaves over: μ(c) = log Γ(c) - (c - ½) log c + c - ½ log 2π, convex and falling to zero.

Differences of log Γ at large arguments are formed from it, because there log Γ itself has no digits left to lose.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_SWITCH = 8.0  # from here on the series is good to 1e-15
_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)


def remainder(c: Tensor) -> Tensor:
    """μ(c) for c > 0."""
    large = c > _SWITCH
    low, inverse = torch.where(large, _SWITCH, c), 1 / torch.where(large, c, _SWITCH)  # c² may overflow
    exact = torch.lgamma(low) - (low - 0.5) * torch.log(low) + low - 0.5 * math.log(2 * math.pi)
    return torch.where(large, _horner(_SERIES, inverse**2) * inverse, exact)


def slope(c: Tensor) -> Tensor:
    """μ'(c) = ψ(c) - log c + 1/2c for c > 0."""
    large = c > _SWITCH
    low, inverse = torch.where(large, _SWITCH, c), 1 / torch.where(large, c, _SWITCH)
    series = tuple(-(2 * k + 1) * a for k, a in enumerate(_SERIES))
    exact = torch.digamma(low + 1) - torch.log(low) - 0.5 / low  # ψ(c) = ψ(c + 1) - 1/c, which is -∞ at once for tiny c
    return torch.where(large, _horner(series, inverse**2) * inverse**2, exact)


def tangent(c: Tensor, step: Tensor) -> Tensor:
    """μ'(c) · step, for a step of the size of c also where μ'(c) overflows."""
    small = c < 1e-3
    low = torch.where(small, c, 1.0)
    near_zero = (step / low) * (low * (torch.digamma(low + 1) - torch.log(low)) - 0.5)
    return torch.where(small, near_zero, step * slope(torch.where(small, 1.0, c)))


def _horner(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    value = torch.full_like(x, coefficients[-1])
    for a in reversed(coefficients[:-1]):
        value = value * x + a
    return value
