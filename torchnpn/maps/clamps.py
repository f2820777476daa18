"""Activations that clamp a Gaussian variable to an interval (ReLU6, hard tanh), and the step function: all exact."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from torch import Tensor

from torchnpn.maps import normal, rules
from torchnpn.maps.elementwise import Pair, Partials, apply, check_moments, differentiable
from torchnpn.maps.select import magnitude, select, step
from torchnpn.moments import Moments

_ACROSS = rules.legendre(8)  # over an interval narrower than one standard deviation: exact to float64


def relu6(o: Moments) -> Moments:
    """Moments of min(max(0, x), 6) for Gaussian x."""
    return apply("relu6", o, torch.clamp, _clamped, 0.0, 6.0)


def hardtanh(o: Moments, lower: float = -1.0, upper: float = 1.0) -> Moments:
    """Moments of min(max(lower, x), upper) for Gaussian x; bounds beyond the type's largest number are that number."""
    if not lower < upper:
        raise ValueError(f"hardtanh expects lower < upper, got lower={lower} and upper={upper}.")
    check_moments("hardtanh", o)
    largest = torch.finfo(o.mean.dtype if o.variance is None else _wide_type(o.mean, o.variance)).max
    lower, upper = max(lower, -largest), min(upper, largest)
    if not lower < upper:
        raise ValueError(f"hardtanh expects bounds within the range of {o.mean.dtype}, got both beyond {lower:g}.")
    if o.variance is not None and max(-lower, upper) > largest / 16:  # so that sums of bounds do not overflow
        return hardtanh(o * 0.0625, lower / 16, upper / 16) * 16.0
    return apply("hardtanh", o, torch.clamp, _clamped, lower, upper)


def _wide_type(*tensors: Tensor) -> torch.dtype:
    return functools.reduce(torch.promote_types, (tensor.dtype for tensor in tensors), torch.float32)


def heaviside(o: Moments) -> Moments:
    """Moments of the step 1[x > 0] for Gaussian x: a_m = Φ(h), a_s = Φ(h) Φ(-h), with h = m/√s.

    A point exactly at zero counts ½, as in the limit of small variance; its gradients are zero.
    """
    return apply("heaviside", o, _step, _heaviside)


def _step(x: Tensor) -> Tensor:
    return torch.heaviside(x.detach(), torch.full_like(x, 0.5)) + 0 * x  # in the graph, with a slope of zero


class _Clamped(NamedTuple):
    """y = clamp(x, lower, upper) for x ~ N(m, s), and what its derivatives need."""

    mean: Tensor
    variance: Tensor
    drift: Tensor  # E y - m
    rise: Tensor  # E y - lower
    inside: Tensor  # P(lower < x < upper)
    at_lower: Tensor  # φ(α), α = (lower - m)/√s
    at_upper: Tensor  # φ(β), β = (upper - m)/√s
    std: Tensor


def _clamped_at_or_below_centre(m: Tensor, s: Tensor, lower: float, upper: float) -> _Clamped:
    """The clamped variable for m ≤ (lower + upper) / 2, in three regimes, each a sum without bad cancellation.

    With the tails A, B of `normal` and G₂(k) = φ(k) (B(k) + 2k A(k)) = E (Z² - k²)₊ beyond k:
      mean inside:   E(y - m)/√s = φA(|α|) - φA(β),   E(y - m)²/s = 1 - G₂(|α|) - G₂(β);
      mean below:    E(y - lower)/√s = φA(α) - φA(β),  E(y - lower)²/s = φB(α) - φB(β) - 2(β - α) φA(β);
      std > width w: E(y - lower) = w ∫₀¹ P(x > lower + wt) dt,  E(y - lower)² = 2w² ∫₀¹ t P(x > lower + wt) dt.
    """
    width = upper - lower
    alpha, std = normal.standardise(lower - m, s)
    beta, _ = normal.standardise(upper - m, s)
    below = step(alpha)
    a = magnitude(alpha)
    at_lower, at_upper = normal.pdf(alpha), normal.pdf(beta)
    (A_a, B_a), (A_b, B_b) = normal.tails(a), normal.tails(beta)
    u_a, w_a, u_b, w_b = at_lower * A_a, at_lower * B_a, at_upper * A_b, at_upper * B_b
    shift = u_a - u_b
    second = select(below, w_a - w_b - 2 * (beta - a) * u_b, 1 - (w_a + 2 * a * u_a) - (w_b + 2 * beta * u_b))
    tail_a, tail_b = w_a + a * u_a, w_b + beta * u_b
    distance = (lower - m).clamp_max(torch.finfo(m.dtype).max)
    rise, drift = (m - lower).clamp_min(0.0) + std * shift, torch.relu(distance) + std * shift
    mean = m.clamp_min(lower) + std * shift
    variance = s * (second - shift * shift)
    inside = select(below, tail_a - tail_b, 1 - tail_a - tail_b)

    stride = width / std.clamp_min(width)  # at most one
    start = ((m - lower) / std.clamp_min(width)).clamp(-1e4, 1e4)

    def across(t: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        h = start - stride * t
        above = weight * normal.cdf(h)
        return above, 2 * t * above, weight * stride * normal.pdf(h)

    first_wide, second_wide, inside_wide = rules.total(across, _ACROSS, m)
    wide = step(std - width)
    rise = select(wide, width * first_wide, rise)
    drift = select(wide, distance + rise, drift)
    mean = select(wide, lower + rise, mean)
    variance_wide = torch.minimum(width * (width * (second_wide - first_wide * first_wide)), s)  # inf where not wide
    variance = select(wide, variance_wide, variance)
    return _Clamped(mean, variance, drift, rise, select(wide, inside_wide, inside), at_lower, at_upper, std)


def _reflected(m: Tensor, lower: float, upper: float) -> tuple[Tensor, Tensor]:
    """1 where m lies above the centre, -1 below; and m reflected to below the centre."""
    above = step(m - 0.5 * (lower + upper))
    side = 2 * above - 1
    return side, ((lower + upper) * above - side * m).clamp_min(-torch.finfo(m.dtype).max)


def _clamp_values(m: Tensor, s: Tensor, lower: float, upper: float) -> Pair:
    side, n = _reflected(m, lower, upper)
    y = _clamped_at_or_below_centre(n, s, lower, upper)
    return select(step(side), (lower + upper) - y.mean, y.mean), y.variance


def _clamp_partials(m: Tensor, s: Tensor, lower: float, upper: float) -> Partials:
    """f' = 1 inside, f'' = δ(x - lower) - δ(x - upper)."""
    side, n = _reflected(m, lower, upper)
    y = _clamped_at_or_below_centre(n, s, lower, upper)
    std = y.std.clamp_min(torch.finfo(s.dtype).tiny ** 0.5)
    ends = y.at_lower - y.at_upper
    m_s = 0.5 * ends / std * step(y.std)
    s_m = 2 * (y.std * ends - y.drift * y.inside)
    s_s = y.inside - y.rise * (y.at_lower / std) - ((upper - lower) - y.rise) * (y.at_upper / std)
    return y.inside, -side * m_s, -side * s_m, s_s


def _heaviside_values(m: Tensor, s: Tensor) -> Pair:
    h, _ = normal.standardise(m, s)
    return normal.cdf(h), normal.cdf(h) * normal.cdf(-h)


def _heaviside_partials(m: Tensor, s: Tensor) -> Partials:
    h, std = normal.standardise(m, s)
    tiny = torch.finfo(s.dtype).tiny
    pdf = normal.pdf(h) * step(s)
    m_m, m_s = pdf / std.clamp_min(tiny**0.5), -0.5 * h * pdf / s.clamp_min(tiny)
    balance = normal.cdf(-h) - normal.cdf(h)
    return m_m, m_s, balance * m_m, balance * m_s


_clamped = differentiable(_clamp_values, _clamp_partials)
_heaviside = differentiable(_heaviside_values, _heaviside_partials)
