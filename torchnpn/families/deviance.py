"""F(x) = x - 1 - log x ≥ 0 and the deviance D(a, b) = a F(b/a) = b - a + a log(a/b) ≥ 0, formed without cancellation.

Log densities and divergences are built from them: where log Γ(c), c log c and c are large and nearly cancel, D has all
its digits (Loader, 2000). With μ of `stirling`, the gamma density for example is

    log p(y) = -D(c, d y) - μ(c) + ½ log(c/2π) - log y.
"""

from __future__ import annotations

import torch
from torch import Tensor

_NEAR = 0.3  # of |x - 1|, within which the series holds
_TERMS = 11


def excess(d: Tensor, x: Tensor) -> Tensor:
    """F(x) for x > 0, given d = x - 1 too: near 1 by the series of log x = 2 artanh y, y = d/(2 + d)."""
    near = d.abs() < _NEAR
    return torch.where(near, _series(torch.where(near, d, 0.0)), d - torch.log(torch.where(near, 1.0, x)))


def excess_of_ratio(a: Tensor, b: Tensor) -> Tensor:
    """F(a/b) for a ≥ 0, b > 0; a ratio that is too small or too large for the type still has its logarithm."""
    near = (a - b).abs() < _NEAR * b
    far = a / b - 1 - _log_quotient(a, b, torch.log(torch.where(near, 1.0, a)))
    return torch.where(near, _series(_part(near, a - b, b)), far)


def deviance(a: Tensor, b: Tensor, log_b: Tensor | None = None, gap: Tensor | None = None) -> Tensor:
    """D(a, b) for a > 0 and b ≥ 0, given log b too where b may underflow, and b - a where it has digits of its own."""
    gap = b - a if gap is None else gap
    near = gap.abs() < _NEAR * a
    series = a * _series(_part(near, gap, a))
    log_b = torch.log(torch.where(near, 1.0, b)) if log_b is None else log_b
    return torch.where(near, series, gap - a * _log_quotient(b, a, log_b))


def log_ratio(a: Tensor, b: Tensor) -> Tensor:
    """log(a/b) for a, b > 0, which for near neighbours keeps the digits of their difference."""
    near = (a - b).abs() < _NEAR * b
    return torch.where(near, torch.log1p(_part(near, a - b, b)), _log_quotient(a, b, torch.log(a)))


def _log_quotient(a: Tensor, b: Tensor, log_a: Tensor) -> Tensor:
    """log(a/b) with the digits of the quotient where that is in the range of the type; its slopes are 1/a and -1/b."""
    apart, x = log_a - torch.log(b), (a / b).detach()
    ordinary = (x > torch.finfo(x.dtype).tiny) & x.isfinite()
    return apart + torch.where(ordinary, torch.log(x) - apart.detach(), 0.0)


def _part(near: Tensor, gap: Tensor, a: Tensor) -> Tensor:
    """gap/a where near, else 0, without the slope of a quotient that is not taken, which may overflow."""
    return torch.where(near, gap, 0.0) / torch.where(near, a, 1.0)


def _series(d: Tensor) -> Tensor:
    """F(1 + d) for |d| < 0.3."""
    y = d / (2 + d)
    y2 = y**2
    tail = torch.zeros_like(y)
    for k in range(_TERMS, 0, -1):
        tail = tail * y2 + 1 / (2 * k + 1)
    return y * d - 2 * y * y2 * tail
