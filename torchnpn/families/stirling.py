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
    low, high = torch.where(large, _SWITCH, c), torch.where(large, c, _SWITCH)
    exact = torch.lgamma(low) - (low - 0.5) * torch.log(low) + low - 0.5 * math.log(2 * math.pi)
    return torch.where(large, _horner(_SERIES, high**-2) / high, exact)


def slope(c: Tensor) -> Tensor:
    """μ'(c) = ψ(c) - log c + 1/2c for c > 0."""
    large = c > _SWITCH
    low, high = torch.where(large, _SWITCH, c), torch.where(large, c, _SWITCH)
    series = tuple(-(2 * k + 1) * a for k, a in enumerate(_SERIES))
    return torch.where(large, _horner(series, high**-2) / high**2, torch.digamma(low) - torch.log(low) + 0.5 / low)


def log_rising(n: Tensor, y: Tensor) -> Tensor:
    """log Γ(n + y) / Γ(n) for n > 0, y ≥ 0, with the digits that the difference of two log Γ would lose."""
    return (n - 0.5) * torch.log1p(y / n) + y * (torch.log(n + y) - 1) + remainder(n + y) - remainder(n)


def _horner(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    value = torch.full_like(x, coefficients[-1])
    for a in reversed(coefficients[:-1]):
        value = value * x + a
    return value
