"""ELU and SELU of a Gaussian variable: exact closed forms, arranged so that nothing cancels.

Both are f = λ max(0, x) + α n with n = exp(min(x, 0)) - 1. The two parts are never non-zero together, so with R, V the
moments of max(0, x) and N, V_n those of n:

    a_m = λ R + α N,    a_s = λ² V + α² V_n - 2 λ α R N    (every term ≥ 0, as N ≤ 0).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from torchnpn.maps import normal, rules
from torchnpn.maps.elementwise import Pair, Partials, apply, differentiable
from torchnpn.maps.rectifiers import rectified, slope_in_variance
from torchnpn.maps.select import magnitude, select, step
from torchnpn.moments import Moments

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805  # torch.nn.functional.selu's constants
_WIDE = 1.0  # the variance above which the plain closed forms no longer cancel


def elu(o: Moments, alpha: float = 1.0) -> Moments:
    """Moments of x for x > 0 and α (exp(x) - 1) for x ≤ 0, for Gaussian x."""
    if not 0 <= alpha < math.inf:
        raise ValueError(f"elu expects a finite alpha ≥ 0, got {alpha}.")
    if alpha > 1 and isinstance(o, Moments) and o.variance is not None:  # so that alpha² cannot overflow
        return apply("elu", o, functional.elu, _elu, 1 / alpha, 1.0) * alpha
    return apply("elu", o, lambda x, *_: functional.elu(x, alpha), _elu, 1.0, alpha)


def selu(o: Moments) -> Moments:
    """Moments of the self-normalising ELU, λ · elu(x, α) with the usual constants, for Gaussian x."""
    return apply("selu", o, lambda x, *_: functional.selu(x), _elu, SELU_SCALE, SELU_SCALE * SELU_ALPHA)


_RULE = {torch.float32: rules.legendre(4), torch.float64: rules.legendre(12)}


def _negative_part(m: Tensor, s: Tensor, below: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """N and V_n, the moments of n = exp(min(x, 0)) - 1, and e_j = E[e^{jx}; x < 0], j = 1, 2, given P(x < 0).

    Each regime is evaluated on arguments that are safe for it.
    """
    wide, right, s_narrow = step(s - _WIDE), step(m), s.clamp_max(_WIDE)
    left_values = _narrow_left(m.clamp_max(0.0), s_narrow)
    right_values = _narrow_right(m.clamp_min(0.0), s_narrow)
    N, V_n = (select(right, b, a) for a, b in zip(left_values, right_values, strict=True))
    e_1 = N + below
    narrow_values = N, V_n, e_1, V_n + N * N + N + e_1
    N, V_n, e_1, e_2 = (select(wide, b, a) for a, b in zip(narrow_values, _wide(m, s.clamp_min(_WIDE)), strict=True))
    return N, V_n, e_1, e_2


def _narrow_right(m: Tensor, s: Tensor) -> Pair:
    """m ≥ 0: as e^x - 1 = ∫₀¹ x e^{wx} dw, E n and E n² are integrals of positive tails φ(h) A, φ(h) B at h + w√s."""
    h, std = normal.standardise(m, s)

    def along(w: Tensor, weight: Tensor) -> Pair:
        A, B = normal.tails(h + w * std)
        return weight * A, weight * (w * B + (1 - w) * normal.tails(h + (1 + w) * std)[1])

    first, second = rules.total(along, _RULE[m.dtype], m)
    pdf = normal.pdf(h)
    mean = -std * pdf * first
    return mean, s * pdf * second - mean * mean


def _narrow_left(m: Tensor, s: Tensor) -> Pair:
    """m < 0: n + 1 = e^m (1 + y), y = exp(√s min(z, a)) - 1 with a = -m/√s, and the same integrals over z < a."""
    h, std = normal.standardise(m, s)
    a = -h

    def along(w: Tensor, weight: Tensor) -> Pair:
        first, second = _tilted(a, w * std)
        return weight * first, weight * (w * second + (1 - w) * _tilted(a, (1 + w) * std)[1])

    first, second = rules.total(along, _RULE[m.dtype], m)
    beyond, top = normal.cdf(h), torch.expm1((-m).clamp_max(20.0))  # P(z > a) is nothing long before e^20
    mean = std * first + top * beyond
    variance = s * second + top * top * beyond - mean * mean
    return torch.expm1(m) + torch.exp(m) * mean, torch.exp(2 * m) * variance


def _tilted(a: Tensor, mu: Tensor) -> Pair:
    """E[z e^{μz}; z < a] and E[z² e^{μz}; z < a] for standard normal z."""
    weight, below, pdf = torch.exp(0.5 * mu * mu), normal.cdf(a - mu), normal.pdf(a - mu)
    return weight * (mu * below - pdf), weight * ((1 + mu * mu) * below - (a + mu) * pdf)


def _wide(m: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """s > 1: N = e₁ - Q and E n² from e_j; V_n about the likelier of the two levels 0 and -1."""
    h, std = normal.standardise(m, s)
    e_1, e_2 = _exponential_below_zero(m, s, h, std, 1), _exponential_below_zero(m, s, h, std, 2)
    above, below = normal.cdf(h), normal.cdf(-h)
    mean = e_1 - below
    level = e_1 + above
    variance = select(step(m), e_2 - 2 * e_1 + below - mean * mean, e_2 + above - level * level)
    return mean, variance, e_1, e_2


def _exponential_below_zero(m: Tensor, s: Tensor, h: Tensor, std: Tensor, j: int) -> Tensor:
    """e_j = E[e^{jx}; x < 0] = φ(h) M(h + j√s) = e^{jm + j²s/2} Φ(-h - j√s), with Mills' ratio M = B + kA."""
    k = h + j * std
    size = magnitude(k)
    A, B = normal.tails(size)
    mills = B + size * A
    growth = j * (m + 0.5 * j * s).clamp_max(0.0)  # negative wherever it is used: where k < 0
    return select(step(-k), torch.exp(growth) * (1 - normal.pdf(k) * mills), normal.pdf(h) * mills)


def _elu_values(m: Tensor, s: Tensor, scale: float, alpha: float) -> Pair:
    r = rectified(m, s)
    N, V_n, _, _ = _negative_part(m, s, r.below)
    variance = scale**2 * (s * r.spread) + alpha**2 * V_n - r.mean * (2 * scale * alpha * N)
    return scale * r.mean + alpha * N, variance


def _elu_partials(m: Tensor, s: Tensor, scale: float, alpha: float) -> Partials:
    """f' = λ 1[x > 0] + α e^x 1[x < 0],  f'' = α e^x 1[x < 0] + (λ - α) δ(x)."""
    r = rectified(m, s)
    N, V_n, e_1, e_2 = _negative_part(m, s, r.below)
    jump = scale - alpha
    density = 2 * slope_in_variance(r)  # of x at 0
    at_zero = scale * (r.mean * density) + alpha * (N * density)  # E f(x) times the density
    covariance = -scale * (r.mean * e_1) + alpha * (V_n + N * r.above)  # Cov(f, e^x 1[x < 0])
    return (
        scale * r.above + alpha * e_1,
        0.5 * (alpha * e_1 + jump * density),
        r.mean * (2 * scale * (scale * r.below - alpha * e_1)) + 2 * alpha * (alpha * V_n - jump * N * r.above),
        scale**2 * r.above + alpha**2 * e_2 + alpha * covariance - jump * at_zero,
    )


_elu = differentiable(_elu_values, _elu_partials)
