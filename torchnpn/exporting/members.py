"""P(x ≤ y) of each member of a family by operations that a graph has, at many y at once."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from torchnpn.exporting import distribution_functions
from torchnpn.families import (
    Beta,
    Gamma,
    Gaussian,
    LogNormal,
    NegativeBinomial,
    Parametric,
    StudentT,
    Weibull,
    ZeroInflated,
)

Function = Callable[[Tensor], Tensor]  # (rows, targets, points) -> (rows, targets, members, points)
_LEAST = 1e-300


def distribution_function(each: Parametric, mean: Tensor, std: Tensor) -> Function:
    """From t to P(x ≤ mean + std t) of each member.

    Args:
        each: (members, rows, targets).
        mean: (rows, targets, 1).
        std: Likewise.
    """
    at = _at(each)
    return lambda t: at((mean + std * t).unsqueeze(-2))


def erf_of_gaussians(each: Gaussian, mean: Tensor, std: Tensor) -> Function:
    """The same for Gaussian members, but 2P - 1: in float32, of which a search needs six digits."""
    inverse = math.sqrt(0.5) * std / each.s.sqrt().movedim(0, -1)
    d, steepness = (part.float().unsqueeze(-1) for part in ((each.m.movedim(0, -1) - mean) / std, inverse))
    return lambda t: torch.erf((t.unsqueeze(-2) - d) * steepness)


def _at(each: Parametric) -> Function:
    """From y (rows, targets, 1, points) to P(x ≤ y)."""
    if isinstance(each, ZeroInflated):
        of_base, p = _at(each.base), _beside(each.p)
        return lambda y: torch.where(y < 0, 0.0, p + (1 - p) * of_base(y))
    if isinstance(each, Gamma):
        share, log_rate = distribution_functions.gamma(_beside(each.c)), torch.log(_beside(each.d))
        return lambda y: torch.where(y > 0, share(_log(y) + log_rate), 0.0)
    if isinstance(each, LogNormal):
        m, inverse = _beside(each.m), torch.rsqrt(_beside(each.s)) * math.sqrt(0.5)
        return lambda y: torch.where(y > 0, (0.5 + 0.5 * torch.erf(((_log(y) - m) * inverse).float())).double(), 0.0)
    if isinstance(each, Weibull):
        log_scale, k = torch.log(_beside(each.lam)), _beside(torch.as_tensor(each.shape))
        return lambda y: torch.where(y > 0, -torch.expm1(-torch.exp(k * (_log(y) - log_scale))), 0.0)
    if isinstance(each, Beta):
        share = distribution_functions.beta(_beside(each.c), _beside(each.d))
        return lambda y: torch.where(y > 0, share(_log(y) - _log(1 - y)), 0.0)
    if isinstance(each, NegativeBinomial):
        n, p = _beside(each.n), _beside(each.p)
        odds = torch.log1p(-p) - torch.log(p)

        def counted(y: Tensor) -> Tensor:
            whole = torch.floor(y)
            share = distribution_functions.beta(*torch.broadcast_tensors(n, whole.clamp_min(0.0) + 1))
            return torch.where(whole >= 0, share(odds + torch.zeros_like(whole)), 0.0)

        return counted
    if isinstance(each, StudentT):
        m, inverse, nu = _beside(each.m), torch.rsqrt(_beside(each.s)), _beside(each.nu)
        share, log_nu = distribution_functions.beta(torch.full_like(nu, 0.5), 0.5 * nu), torch.log(nu)

        def two_sided(y: Tensor) -> Tensor:
            z = (y - m) * inverse
            return 0.5 + 0.5 * torch.sign(z) * share(_log(z * z) - log_nu)

        return two_sided
    raise ValueError(
        f"export has no quantiles of {type(each).__name__}. Take levels=(), and a family that has an interval, or "
        "predict in torch."
    )


def _beside(parameter: Tensor) -> Tensor:  # (members, rows, targets) -> (rows, targets, members, 1)
    return parameter.movedim(0, -1).unsqueeze(-1)


def _log(y: Tensor) -> Tensor:
    return torch.log(y.clamp_min(_LEAST))
