"""Elementary functions of a Gaussian variable with plain closed forms, through which autograd goes safely."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torchnpn.finite import finite
from torchnpn.maps import rules
from torchnpn.maps.elementwise import Pair, Partials, apply, by_autograd, differentiable
from torchnpn.moments import Moments


def exp(o: Moments) -> Moments:
    """Moments of exp(x) for Gaussian x: a_m = exp(m + s/2), a_s = exp(2m + s) (exp(s) - 1).

    They grow fast; what is beyond the type's largest number is that number.
    """
    return apply("exp", o, lambda x: _exp(x, torch.zeros_like(x))[0], _exp)


def sin(o: Moments) -> Moments:
    """Moments of sin(x) for Gaussian x: a_m = e^{-s/2} sin m, a_s = ω (ω/2 + (1 - ω) cos² m) with ω = 1 - e^{-s}."""
    return apply("sin", o, torch.sin, _sin)


def cos(o: Moments) -> Moments:
    """Moments of cos(x) for Gaussian x: a_m = e^{-s/2} cos m, a_s = ω (ω/2 + (1 - ω) sin² m) with ω = 1 - e^{-s}."""
    return apply("cos", o, torch.cos, _cos)


def square(o: Moments) -> Moments:
    """Moments of x² for Gaussian x: a_m = m² + s, a_s = 2s² + 4m²s."""
    return apply("square", o, lambda x: _square(x, torch.zeros_like(x))[0], _square)


def erf(o: Moments) -> Moments:
    """Moments of erf(x) for Gaussian x, with k = √2 m/√(1 + 2s) and sin Θ = 2s/(1 + 2s):

    a_m = 2Φ(k) - 1 = erf(m/√(1 + 2s)),    a_s = (2/π) ∫₀^Θ exp(-k²/(1 + sin θ)) dθ    (Gauss-Legendre, positive terms).
    """
    return apply("erf", o, torch.erf, _erf)


def _exp_values(m: Tensor, s: Tensor) -> Pair:
    """With a_s = exp(2m + 2s) (1 - exp(-s)), multiplied from the small factor on: it overflows only where a_s does."""
    root, a_s = finite(torch.exp(0.5 * (m + s))), -torch.expm1(-s)  # zero for a point, however large the point
    for _ in range(4):
        a_s = a_s * root
    return torch.exp(m + 0.5 * s), a_s


def _exp_partials(m: Tensor, s: Tensor) -> Partials:
    a_m, a_s = _exp_values(m, s)
    return a_m, 0.5 * a_m, 2 * a_s, torch.exp(2 * (m + s)) * (2 - torch.exp(-s))


_exp = differentiable(_exp_values, _exp_partials)


@by_autograd
def _sin(m: Tensor, s: Tensor) -> Pair:
    return torch.exp(-0.5 * s) * torch.sin(m), _wave_variance(torch.cos(m), s)


@by_autograd
def _cos(m: Tensor, s: Tensor) -> Pair:
    return torch.exp(-0.5 * s) * torch.cos(m), _wave_variance(torch.sin(m), s)


def _wave_variance(slope: Tensor, s: Tensor) -> Tensor:
    lost = -torch.expm1(-s)
    return lost * (0.5 * lost + torch.exp(-s) * slope * slope)


def _square_values(m: Tensor, s: Tensor) -> Pair:
    return m * m + s, 2 * (s * s) + 4 * (m * (m * s))


def _square_partials(m: Tensor, s: Tensor) -> Partials:
    return 2 * m, torch.ones_like(s), 8 * (m * s), 4 * (m * m + s)


_square = differentiable(_square_values, _square_partials)


_ARC = {torch.float32: rules.legendre(6), torch.float64: rules.legendre(14)}


@by_autograd
def _erf(m: Tensor, s: Tensor) -> Pair:
    scaled = m * torch.rsqrt(0.5 + s) * math.sqrt(0.5)
    k2 = 2 * scaled.clamp(-1e3, 1e3) ** 2
    end = torch.atan2(s, torch.sqrt(0.25 + s))  # Θ, without the loss of arcsin near one
    (integral,) = rules.total(lambda t, w: (w * torch.exp(-k2 / (1 + torch.sin(t * end))),), _ARC[m.dtype], m)
    return torch.erf(scaled), (2 / math.pi) * end * integral
