"""ReLU, leaky ReLU and the absolute value of a Gaussian variable: exact, with full relative accuracy in the tails."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from torchnpn.maps import normal
from torchnpn.maps.elementwise import Pair, Partials, apply, differentiable
from torchnpn.maps.select import magnitude, select, step
from torchnpn.moments import Moments


def relu(o: Moments) -> Moments:
    """Moments of max(0, x) for Gaussian x (paper, Section 3.2).

    With h = m/√s and g(h) = φ(h) + h Φ(h):  a_m = √s g(h),  a_s = s (Φ(h) - g(h) g(-h)).
    """
    return apply("relu", o, torch.relu, _relu)


def leaky_relu(o: Moments, slope: float = 0.01) -> Moments:
    """Moments of max(x, 0) + slope · min(x, 0) for Gaussian x.

    With R, V the moments of max(0, x) and a the slope, using Cov(x, max(0, x)) = s Φ(h):
        a_m = a m + (1 - a) R,    a_s = a² s + (1 - a)² V + 2 a (1 - a) s Φ(h).
    """
    if not math.isfinite(slope):
        raise ValueError(f"leaky_relu expects a finite slope, got {slope}.")
    if slope * slope > 1 and isinstance(o, Moments) and o.variance is not None:  # so that slope² cannot overflow
        return leaky_relu(-o, 1 / slope) * -slope
    return apply("leaky_relu", o, functional.leaky_relu, _leaky_relu, slope)


def abs(o: Moments) -> Moments:
    """Moments of |x| for Gaussian x: the leaky ReLU of slope -1."""
    return apply("abs", o, torch.abs, _abs)


class Rectified(NamedTuple):
    """max(0, x) for x ~ N(m, s), and what its derivatives need."""

    mean: Tensor
    spread: Tensor  # its variance, in units of s
    excess: Tensor  # E max(0, x) - max(0, m) ≥ 0, in units of √s
    above: Tensor  # Φ(h) = P(x > 0)
    below: Tensor  # Φ(-h) = P(x < 0)
    pdf: Tensor  # φ(h)
    h: Tensor
    std: Tensor


def rectified(m: Tensor, s: Tensor) -> Rectified:
    """Moments of max(0, x), formed from positive terms: with k = |h|, u = φ A(k), w = φ B(k), the variance is

    s (w - u²) for h < 0 and s (1 - w - 2ku - u²) for h ≥ 0; the smaller of P(x > 0), P(x < 0) is w + ku.
    (In one line: w - u², plus 1 - 2(w + ku) where h ≥ 0.)
    """
    h, std = normal.standardise(m, s)
    k, pdf, positive = magnitude(h), normal.pdf(h), step(h)
    A, B = normal.tails(k)
    u, w = pdf * A, pdf * B
    tail = torch.addcmul(w, k, u)
    rest = 1 - tail
    spread = w - u * u + positive * (rest - tail)
    above, below = select(positive, rest, tail), select(positive, tail, rest)
    return Rectified(torch.addcmul(torch.relu(m), std, u), spread, u, above, below, pdf, h, std)


def slope_in_variance(r: Rectified) -> Tensor:
    """φ(h) / 2√s, the derivative ∂E max(0, x)/∂s: unbounded near (0, 0), and zero by definition at s = 0."""
    floor = torch.finfo(r.std.dtype).tiny ** 0.5
    return 0.5 * r.pdf / r.std.clamp_min(floor) * step(r.std)


def _relu_values(m: Tensor, s: Tensor) -> Pair:
    r = rectified(m, s)
    return r.mean, s * r.spread


def relu_partials(m: Tensor, s: Tensor) -> Partials:
    r = rectified(m, s)
    return r.above, slope_in_variance(r), r.mean * (2 * r.below), _variance_in_variance(r)


def _variance_in_variance(r: Rectified) -> Tensor:
    """∂a_s/∂s = Φ(h) - g(h) φ(h), in [0, 1]."""
    return r.above - (torch.relu(r.h) + r.excess) * r.pdf


def _leaky_values(m: Tensor, s: Tensor, slope: float) -> Pair:
    r, rest = rectified(m, s), 1 - slope
    mean = functional.leaky_relu(m, slope) + rest * r.std * r.excess
    variance = s * (slope**2 + rest**2 * r.spread + 2 * slope * rest * r.above)
    return mean, variance.clamp_min(0.0)  # for slopes below zero denormal numbers can round to less


def _leaky_partials(m: Tensor, s: Tensor, slope: float) -> Partials:
    r, rest = rectified(m, s), 1 - slope
    both = 2 * slope * rest
    return (
        slope + rest * r.above,
        rest * slope_in_variance(r),
        r.mean * (2 * rest**2 * r.below) + both * r.std * r.pdf,
        slope**2 + rest**2 * _variance_in_variance(r) + both * (r.above - 0.5 * r.h * r.pdf),
    )


_relu = differentiable(_relu_values, relu_partials)
_leaky_relu = differentiable(_leaky_values, _leaky_partials)


def _abs(m: Tensor, s: Tensor) -> Pair:
    return _leaky_relu(m, s, -1.0)
