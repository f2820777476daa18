"""Elementary functions of a Gaussian variable with plain closed forms, through which autograd goes safely."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torchnpn.maps import rules
from torchnpn.maps.elementwise import Pair, Partials, apply, differentiable
from torchnpn.moments import Moments


def exp(o: Moments) -> Moments:
    """Moments of exp(x) for Gaussian x: a_m = exp(m + s/2), a_s = exp(2m + s) (exp(s) - 1)."""
    return apply("exp", o, torch.exp, _exp)


def sin(o: Moments) -> Moments:
    """Moments of sin(x) for Gaussian x: a_m = e^{-s/2} sin m, a_s = ω (ω/2 + (1 - ω) cos² m) with ω = 1 - e^{-s}."""
    return apply("sin", o, torch.sin, _sin)


def cos(o: Moments) -> Moments:
    """Moments of cos(x) for Gaussian x: a_m = e^{-s/2} cos m, a_s = ω (ω/2 + (1 - ω) sin² m) with ω = 1 - e^{-s}."""
    return apply("cos", o, torch.cos, _cos)


def square(o: Moments) -> Moments:
    """Moments of x² for Gaussian x: a_m = m² + s, a_s = 2s² + 4m²s."""
    return apply("square", o, torch.square, _square)


def erf(o: Moments) -> Moments:
    """Moments of erf(x) for Gaussian x, with k = √2 m/√(1 + 2s) and sin Θ = 2s/(1 + 2s):

    a_m = 2Φ(k) - 1 = erf(m/√(1 + 2s)),    a_s = (2/π) ∫₀^Θ exp(-k²/(1 + sin θ)) dθ    (Gauss-Legendre, positive terms).
    """
    return apply("erf", o, torch.erf, _erf)


def _exp_values(m: Tensor, s: Tensor) -> Pair:
    """With a_s = exp(2m + 2s) (1 - exp(-s)): inf where it overflows, but never 0 · inf."""
    grown = torch.where(s > 0, torch.exp(m + s), 0.0)  # the variance of a point is zero, however large the point
    return torch.exp(m + 0.5 * s), grown * (grown * -torch.expm1(-s))


def _exp_partials(m: Tensor, s: Tensor) -> Partials:
    """Finite at least: an infinite slope times a gradient of zero would be NaN."""
    a_m, a_s = _exp_values(m, s)
    slopes = a_m, 0.5 * a_m, 2 * a_s, torch.exp(2 * (m + s)) * (2 - torch.exp(-s))
    return tuple(slope.clamp_max(torch.finfo(m.dtype).max) for slope in slopes)


_exp = differentiable(_exp_values, _exp_partials)


def _sin(m: Tensor, s: Tensor) -> Pair:
    return torch.exp(-0.5 * s) * torch.sin(m), _wave_variance(torch.cos(m), s)


def _cos(m: Tensor, s: Tensor) -> Pair:
    return torch.exp(-0.5 * s) * torch.cos(m), _wave_variance(torch.sin(m), s)


def _wave_variance(slope: Tensor, s: Tensor) -> Tensor:
    lost = -torch.expm1(-s)
    return lost * (0.5 * lost + torch.exp(-s) * slope * slope)


def _square(m: Tensor, s: Tensor) -> Pair:
    return m * m + s, 2 * s * s + 4 * m * (m * s)


_ARC = {torch.float32: rules.legendre(6), torch.float64: rules.legendre(14)}


def _erf(m: Tensor, s: Tensor) -> Pair:
    scaled = m * torch.rsqrt(1 + 2 * s)
    k2 = 2 * scaled.clamp(-1e3, 1e3) ** 2
    end = torch.atan2(2 * s, torch.sqrt(1 + 4 * s))  # Θ, without the loss of arcsin near one
    (integral,) = rules.total(lambda t, w: (w * torch.exp(-k2 / (1 + torch.sin(t * end))),), _ARC[m.dtype], m)
    return torch.erf(scaled), (2 / math.pi) * end * integral
