"""The paper's closed forms evaluated as printed, in whatever type comes: what a direct transcription gives.

All are exact in exact arithmetic but sigmoid and tanh, which are approximations. `torchnpn.maps.paper` has those two as
well, but keeps rounding from making their variance negative; here nothing is kept.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torchnpn import families
from torchnpn.moments import Moments


def relu(o: Moments) -> Moments:
    """Supplement, ReLU activation, last form: E v² - (E v)² with Φ and φ (Clark 1961)."""
    m, s = o.mean, o.variance
    above, bell = torch.special.ndtr(m / s.sqrt()), torch.exp(-(m**2) / (2 * s)) * s.sqrt() / math.sqrt(2 * math.pi)
    a_m = above * m + bell
    return Moments(a_m, above * (m**2 + s) + m * bell - a_m**2)


def sigmoid(o: Moments) -> Moments:
    """Eqs. 6 and 7, with α = 4 - 2√2, β = -log(√2 + 1), ζ² = π/8."""
    alpha, beta, zeta2 = 4 - 2 * math.sqrt(2), -math.log(math.sqrt(2) + 1), math.pi / 8
    a_m = torch.sigmoid(o.mean / torch.sqrt(1 + zeta2 * o.variance))
    second = torch.sigmoid(alpha * (o.mean + beta) / torch.sqrt(1 + zeta2 * alpha**2 * o.variance))
    return Moments(a_m, second - a_m**2)


def tanh(o: Moments) -> Moments:
    """Supplement, hyperbolic tangent: 4σ(…) - a_m² - 2a_m - 1, with α = 8 - 4√2, β = -½ log(√2 + 1)."""
    alpha, beta, zeta2 = 8 - 4 * math.sqrt(2), -0.5 * math.log(math.sqrt(2) + 1), math.pi / 8
    a_m = 2 * torch.sigmoid(o.mean / torch.sqrt(0.25 + zeta2 * o.variance)) - 1
    second = torch.sigmoid(alpha * (o.mean + beta) / torch.sqrt(1 + zeta2 * alpha**2 * o.variance))
    return Moments(a_m, 4 * second - a_m**2 - 2 * a_m - 1)


def gamma(p: families.Gamma, tau: float) -> Moments:
    """Section 3.1: 1 - (d/(d+τ))^c and (d/(d+2τ))^c - (d/(d+τ))^2c."""
    once, twice = p.d / (p.d + tau), p.d / (p.d + 2 * tau)
    return Moments(1 - once**p.c, twice**p.c - once ** (2 * p.c))


def poisson(p: families.Poisson, tau: float) -> Moments:
    """Section 3.3: 1 - exp((e^-τ - 1) c) and exp((e^-2τ - 1) c) - exp(2 (e^-τ - 1) c)."""
    once, twice = math.exp(-tau) - 1, math.exp(-2 * tau) - 1
    return Moments(1 - torch.exp(once * p.c), torch.exp(twice * p.c) - torch.exp(2 * once * p.c))


def rayleigh(p: families.Rayleigh, tau: float) -> Moments:
    """Theorem 1 with g(η) = -2η = 1/σ²."""
    g = 1 / p.sigma2
    return _theorem_1(g / (g + 2 * tau), g / (g + 4 * tau))


def beta(p: families.Beta, tau: float) -> Moments:
    """Theorem 1 with g(η) = Γ(c+d)/Γ(c)Γ(d) and v = 1 - x^τ; the gammas by their logarithms."""

    def log_g(c: Tensor) -> Tensor:
        return torch.lgamma(c + p.d) - torch.lgamma(c) - torch.lgamma(p.d)

    ratios = (torch.exp(log_g(p.c) - log_g(p.c + k * tau)) for k in (1, 2))
    return _theorem_1(*ratios)


def _theorem_1(once: Tensor, twice: Tensor) -> Moments:
    """Section 2.2 with r = q = 1: E v = 1 - g(η)/g(η̃), then E v² - (E v)² with E v² = 1 - 2 g(η)/g(η̃) + g(η)/g(η̂)."""
    a_m = 1 - once
    return Moments(a_m, 1 - 2 * once + twice - a_m**2)


GAUSSIAN = {"relu": relu, "sigmoid": sigmoid, "tanh": tanh}
FAMILIES = {"gamma": gamma, "poisson": poisson, "rayleigh": rayleigh, "beta": beta}
