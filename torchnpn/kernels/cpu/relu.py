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
    if torch.is_grad_enabled():
        return Moments(*_ReLU.apply(*o))
    assert o.variance is not None  # or there is no kernel
    mean, variance, _ = forward(o.mean, o.variance, learning=False)
    return Moments(mean, variance)


class _ReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, m: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        mean, variance, known = forward(m, s, learning=any(ctx.needs_input_grad))
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


def forward(m: Tensor, s: Tensor, learning: bool = True) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Mean and variance; and, for `backward`, what they change by.

    With P the probability of x > 0 and φ, A, B as in `maps.normal`, at k = |h|, h = m/√s:

        a_m = max(0, m) + √s φA,    a_s = s (φB - (φA)² + [h > 0] (1 - 2 Q)),    Q = φ (B + k A).
    """
    std, smallest = s.sqrt(), torch.finfo(s.dtype).tiny ** 0.5
    h = (m / std.clamp_min(smallest)).clamp_(-1e4, 1e4)
    pdf = normal.pdf(h)
    k = h.abs()
    u, w = _tails(k)
    u.mul_(pdf)  # φ A
    w.mul_(pdf)  # φ B
    positive = select.step(h)
    tail = k.mul_(u).add_(w)  # Q, the smaller of P(x > 0), P(x < 0)
    outside = (positive * tail).mul_(-2).add_(positive)  # [h > 0] (1 - 2 Q)
    variance = w.addcmul_(u, u, value=-1).add_(outside).mul_(s)
    mean = torch.relu(m).addcmul_(std, u)
    if not learning:
        return mean, variance, ()
    above = tail.add_(outside)  # P
    curve = h.clamp_min_(0).add_(u).mul_(pdf)  # ∂a_s/∂s = P - φ (max(0, h) + φA)
    torch.sub(above, curve, out=curve)
    slope = pdf.div_(std.clamp_min(smallest)).mul_(select.step(std))  # 2 ∂a_m/∂s; 0 by definition at s = 0
    return mean, variance, (mean, above, slope, curve)


def backward(known: Sequence[Tensor], g_m: Tensor, g_s: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients by m and s, from those by the mean and the variance; ∂a_s/∂m = 2 a_m (1 - P)."""
    mean, above, slope, curve = known
    by_m = (1 - above).mul_(mean).mul_(g_s).mul_(2).addcmul_(g_m, above)
    by_s = (g_s * curve).addcmul_(g_m, slope, value=0.5)
    return by_m.clamp_(-_LARGEST, _LARGEST), by_s.clamp_(-_LARGEST, _LARGEST)


_LARGEST = torch.finfo(torch.float32).max
_COEFFICIENTS = {
    dtype: [torch.tensor(numbers, dtype=dtype).unbind() for numbers in both]
    for dtype, both in ((torch.float32, (normal.A32, normal.B32)), (torch.float64, (normal.A64, normal.B64)))
}


def _tails(k: Tensor) -> tuple[Tensor, Tensor]:
    """`normal.tails`."""
    t = (k * 0.3).add_(1.0).reciprocal_()
    x = (t * 2.0).sub_(1.0)
    a, b = (_polynomial(coefficients, x) for coefficients in _COEFFICIENTS[k.dtype])
    square = torch.mul(t, t, out=x)
    return a.mul_(square), b.mul_(square).mul_(t)


def _polynomial(coefficients: Sequence[Tensor], x: Tensor) -> Tensor:
    """Horner's scheme, lowest power first."""
    *lower, last, first = coefficients
    value = (x * first).add_(last)
    for coefficient in reversed(lower):
        torch.addcmul(coefficient, value, x, out=value)
    return value
