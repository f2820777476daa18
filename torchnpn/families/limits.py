"""How far moments may go before a positive family's parameters leave floating point: used by every `project`.

A network may hand over any finite moments: a variance of zero, a mean that is not positive. The nearest moments whose
parameters, and whose gradients through them, stay finite take their place. With eps the type's rounding unit (float32's
for the half types, whose parameters are computed in float32 and then stored) those are means in [eps², eps⁻²] and
relative variances s/m² in [eps, eps^-½]: beyond 1/eps a gamma shape c = m²/s says nothing more, a point would need ∞.
"""

from __future__ import annotations

import torch
from torch import Tensor

from torchnpn.families.base import zero_if_point
from torchnpn.finite import cast, entering, positive
from torchnpn.moments import Moments


def eps(dtype: torch.dtype) -> float:
    return torch.finfo(torch.promote_types(dtype, torch.float32)).eps


def widened(x: Moments) -> Moments:
    """`x` in at least float32, where it enters a formula: its gradients are finite."""
    parts = (part if part is None or part.dtype == torch.float64 else cast(part, torch.float32) for part in x)
    return Moments(*(part if part is None else entering(part) for part in parts))  # type: ignore[arg-type]


def stored(parameter: Tensor, x: Moments) -> Tensor:
    """A parameter > 0, computed from `widened(x)`, in the type of `x`."""
    return parameter if parameter.dtype == x.mean.dtype else positive(parameter, x.mean.dtype)


def positive_mean(x: Moments) -> Tensor:
    """The mean of `x`, within [eps², eps⁻²], in at least float32."""
    return _positive(widened(x).mean)


def positive_moments(x: Moments) -> tuple[Tensor, Tensor]:
    """The mean of `x` and its relative variance s/m², both within their limits, in at least float32."""
    x = widened(x)
    unit, mean = eps(x.mean.dtype), _positive(x.mean)
    variance = torch.minimum(zero_if_point(x), mean.detach() ** 2 / unit)  # so that the quotient cannot overflow
    return mean, (variance / mean / mean).clamp(unit, unit**-0.5)


def _positive(mean: Tensor) -> Tensor:
    unit = eps(mean.dtype)
    return mean.clamp(unit**2, unit**-2)
