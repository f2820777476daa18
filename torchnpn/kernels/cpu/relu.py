"""ReLU's moments on a CPU as one autograd function: `maps.relu`, whose backward pass finds what the forward pass knew.

Written for few passes over memory: buffers are reused in place, and nothing is computed that is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torchnpn.finite import entering, finite
from torchnpn.maps import check_moments, normal, relu_partials, select
from torchnpn.moments import Moments


def relu(o: Moments) -> Moments:
    """See `maps.relu`."""
    check_moments("relu", o)
    return Moments(*_ReLU.apply(*o))


class _ReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, m: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        mean, variance, known = forward(m, s)
        ctx.save_for_backward(m, s, *known)
        return mean, variance

    @staticmethod
    def backward(ctx: Any, g_m: Tensor, g_s: Tensor) -> tuple[Tensor, Tensor]:
        m, s, *known = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return backward(known, g_m, g_s)
        m, s, g_m, g_s = (entering(x) for x in (m, s, g_m, g_s))
        m_m, m_s, s_m, s_s = relu_partials(m, s)  # through which autograd can go
        return finite(g_m * m_m + finite(g_s * s_m)), finite(finite(g_m * m_s) + g_s * s_s)


def forward(m: Tensor, s: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Mean and variance, and what `backward` wants to know."""
    h, std = normal.standardise(m, s)
    pdf = normal.pdf(h)
    k = h.abs()
    u, w = _tails(k)
    u.mul_(pdf)  # φ A
    w.mul_(pdf)  # φ B
    tail = torch.addcmul(w, k, u)  # the smaller of P(x > 0), P(x < 0)
    positive = select.step(h)
    variance = w.addcmul_(u, u, value=-1).add_(positive).addcmul_(positive, tail, value=-2).mul_(s)
    mean = torch.relu(m).addcmul_(std, u)
    return mean, variance, (mean, h, std, pdf, u, tail, positive)


def backward(known: Sequence[Tensor], g_m: Tensor, g_s: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients by m and s, from those by the mean and the variance."""
    mean, h, std, pdf, u, tail, positive = known
    above = torch.addcmul(tail, positive, tail, value=-2).add_(positive)
    slope = pdf / std.clamp_min(torch.finfo(std.dtype).tiny ** 0.5)  # 2 ∂a_m/∂s; 0 by definition at s = 0
    slope.mul_(select.step(std))
    by_m = (g_m * above).addcmul_((1 - above).mul_(mean), g_s, value=2)
    by_s = above.addcmul_(torch.relu(h).add_(u), pdf, value=-1).mul_(g_s).addcmul_(g_m, slope, value=0.5)
    return by_m.clamp_(-_LARGEST, _LARGEST), by_s.clamp_(-_LARGEST, _LARGEST)


_LARGEST = torch.finfo(torch.float32).max
_COEFFICIENTS = torch.tensor([normal.A32, normal.B32]).T.contiguous().unbind()  # lowest power first, each (2,)


def _tails(k: Tensor) -> tuple[Tensor, Tensor]:
    """`normal.tails` in float32, both polynomials in one Horner's scheme."""
    t = (k * 0.3).add_(1.0).reciprocal_()
    x = (t * 2.0).sub_(1.0)
    *lower, last, first = (c.view(2, *[1] * k.dim()) for c in _COEFFICIENTS)
    value = torch.addcmul(last, first, x)
    for coefficient in reversed(lower):
        torch.addcmul(coefficient, value, x, out=value)
    value.mul_(t * t)
    return value[0], value[1].mul_(t)
