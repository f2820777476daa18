"""The larger of two independent Gaussian variables: exact (Clark 1961; paper, Section 3.2)."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from torchnpn.finite import broadcast, cast
from torchnpn.maps.elementwise import Pair, Partials, check_moments, check_together, differentiable
from torchnpn.maps.rectifiers import rectified, slope_in_variance
from torchnpn.maps.select import magnitude, select, step
from torchnpn.moments import Moments


def max2(a: Moments, b: Moments) -> Moments:
    """Moments of max(x, y) for independent Gaussian x ~ a, y ~ b; fold it for a maximum over more.

    With θ² = s₁ + s₂, h = (m₁ - m₂)/θ and g(h) = φ(h) + h Φ(h):
        mean = m₁ Φ(h) + m₂ Φ(-h) + θ φ(h),    variance = s₁ Φ(h) + s₂ Φ(-h) - θ² g(h) g(-h).
    """
    check_moments("max2", a)
    check_moments("max2", b)
    check_together("max2", a, b)
    if a.variance is None and b.variance is None:
        return Moments(torch.maximum(a.mean, b.mean))
    parts = [part for x in (a, b) for part in (x.mean, torch.zeros_like(x.mean) if x.variance is None else x.variance)]
    dtype = functools.reduce(torch.promote_types, (part.dtype for part in parts))
    wide = torch.promote_types(dtype, torch.float32)
    mean, variance = _max2(*broadcast(*(cast(part, wide) for part in parts)))
    return Moments(cast(mean, dtype), cast(variance, dtype))


def _half_difference(m_1: Tensor, s_1: Tensor, m_2: Tensor, s_2: Tensor) -> Pair:
    """Moments of (x - y)/2, which exist where those of x - y overflow."""
    return 0.5 * m_1 - 0.5 * m_2, 0.25 * s_1 + 0.25 * s_2


def _values(m_1: Tensor, s_1: Tensor, m_2: Tensor, s_2: Tensor) -> Pair:
    """max = the likelier one plus the rectified difference, so that both terms of the variance are positive."""
    d, v = _half_difference(m_1, s_1, m_2, s_2)
    r = rectified(-d.abs(), v)
    s_likelier = select(step(d), s_1, s_2)
    return torch.maximum(m_1, m_2) + 2 * r.std * r.excess, 4 * (v * r.spread) + s_likelier * (r.below - r.above)


def _partials(m_1: Tensor, s_1: Tensor, m_2: Tensor, s_2: Tensor) -> Partials:
    r = rectified(*_half_difference(m_1, s_1, m_2, s_2))
    theta = (2 * r.std).clamp_min(torch.finfo(r.std.dtype).tiny ** 0.5)
    k, u = magnitude(r.h), r.excess
    tilt = (s_1 / theta - s_2 / theta) / theta * r.pdf - r.pdf * (r.above - r.below) + 2 * r.h * r.above * r.below
    by_mean = theta * tilt
    by_variance = -u * (k + u) - 0.5 * r.h * tilt
    slope = 0.5 * slope_in_variance(r)
    return r.above, slope, r.below, slope, by_mean, r.above + by_variance, -by_mean, r.below + by_variance


_max2 = differentiable(_values, _partials, inputs=4)
