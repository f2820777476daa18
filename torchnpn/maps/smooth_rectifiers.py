"""GELU, SiLU and softplus of a Gaussian variable.

Each is max(0, x) + ρ(|x|): a ReLU plus an even bump that dies out within a few units of zero. So there are two regimes.

Wide (s above a switch): the moments of ReLU are exact, and the bump meets a density that is smooth on its scale; a
fixed Gauss-Legendre rule on the bump's half-line gives I₁ = E ρ, I₂ = E ρ², I₃ = E max(0, x) ρ, and

    a_m = R + I₁,    a_s = V + I₂ - I₁² + 2 (I₃ - R I₁).

Narrow: f itself is smooth on the scale of √s; see `_by_nodes` (softplus, SiLU) and `_by_series` (GELU).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from torchnpn.maps import normal, rules
from torchnpn.maps.elementwise import Pair, Partials, apply, differentiable
from torchnpn.maps.rectifiers import rectified, relu_partials
from torchnpn.maps.select import select, step
from torchnpn.moments import Moments


def softplus(o: Moments) -> Moments:
    """Moments of log(1 + exp(x)) for Gaussian x."""
    return apply("softplus", o, functional.softplus, _softplus)


def silu(o: Moments) -> Moments:
    """Moments of x σ(x), also called swish, for Gaussian x."""
    return apply("silu", o, functional.silu, _silu)


def gelu(o: Moments) -> Moments:
    """Moments of x Φ(x) for Gaussian x; the mean is the closed form m Φ(k) + s φ(k)/√(1+s), k = m/√(1+s)."""
    return apply("gelu", o, functional.gelu, _gelu)


# Wide: ReLU and a bump ------------------------------------------------------------------------------------------


def _bump(rho: Callable[[float], float], reach: float, points: int) -> rules.Rule:
    """Nodes x > 0 with the weights of ρ, ρ² and xρ in an integral over the half-line."""
    nodes = [(reach * t, reach * w) for t, w in rules.legendre(points)]
    return tuple((x, w * rho(x), w * rho(x) ** 2, w * x * rho(x)) for x, w in nodes)


def _wide_values(m: Tensor, s: Tensor, bump: rules.Rule) -> Pair:
    r = rectified(m, s)

    def along(x: Tensor, first: Tensor, second: Tensor, cross: Tensor) -> tuple[Tensor, ...]:
        at = _density(x, m, r.std)[1]
        both = at + _density(-x, m, r.std)[1]
        return first * both, second * both, cross * at

    i_1, i_2, i_3 = rules.total(along, bump, m)
    return r.mean + i_1, (s * r.spread + (i_2 - i_1 * i_1) + 2 * (i_3 - r.mean * i_1)).clamp_min(0.0)  # of rounding


def _wide_partials(m: Tensor, s: Tensor, bump: rules.Rule) -> Partials:
    r = rectified(m, s)

    def along(x: Tensor, first: Tensor, second: Tensor, cross: Tensor) -> tuple[Tensor, ...]:
        z, at = _density(x, m, r.std)
        y, opposite = _density(-x, m, r.std)
        at_m, at_s = at * z, at * (z * z - 1)  # √s ∂N/∂m and 2s ∂N/∂s
        both_m, both_s = at_m + opposite * y, at_s + opposite * (y * y - 1)
        return (
            first * (at + opposite), first * both_m, first * both_s, second * both_m, second * both_s,
            cross * at_m, cross * at_s,
        )  # fmt: skip

    i_1, d1_m, d1_s, d2_m, d2_s, d3_m, d3_s = rules.total(along, bump, m)
    per_m, per_s = 1 / r.std, 0.5 / s
    relu_m_m, relu_m_s, relu_s_m, relu_s_s = relu_partials(m, s)
    gap = i_1 + r.mean
    return (
        relu_m_m + per_m * d1_m,
        relu_m_s + per_s * d1_s,
        relu_s_m + per_m * (d2_m + 2 * d3_m - gap * (2 * d1_m)) - 2 * relu_m_m * i_1,
        relu_s_s + per_s * (d2_s + 2 * d3_s - gap * (2 * d1_s)) - 2 * relu_m_s * i_1,
    )


def _density(x: Tensor, m: Tensor, std: Tensor) -> Pair:
    """z = (x - m)/√s and the density N(x; m, s)."""
    z = ((x - m) / std).clamp(-1e4, 1e4)
    return z, normal.pdf(z) / std


# Narrow: Gauss-Hermite nodes on exact differences (softplus, SiLU) -------------------------------------------------


_HERMITE = {torch.float32: rules.hermite(11), torch.float64: rules.hermite(64)}


class _Nodes(NamedTuple):
    """An activation by its values, and by differences f(m + δ) - f(m) that keep their digits however small δ is."""

    value: Callable[[Tensor], Tensor]
    difference: Callable[[Tensor, Tensor], Tensor]
    slopes: Callable[[Tensor], Pair]  # f', f''

    def values(self, m: Tensor, s: Tensor) -> Pair:
        std = s.sqrt()

        def along(z: Tensor, w: Tensor) -> Pair:
            d = self.difference(m, z * std)
            return w * d, w * d * d

        first, second = rules.total(along, _HERMITE[m.dtype], m)
        return self.value(m) + first, second - first * first

    def partials(self, m: Tensor, s: Tensor) -> Partials:
        std = normal.lifted_root(s)

        def along(z: Tensor, w: Tensor) -> tuple[Tensor, ...]:
            d, (f1, f2) = self.difference(m, z * std), self.slopes(m + z * std)
            return w * d, w * f1, w * f2, w * d * f1, w * d * f2, w * f1 * f1

        d_, f1_, f2_, d_f1, d_f2, f1_f1 = rules.total(along, _HERMITE[m.dtype], m)
        return f1_, 0.5 * f2_, 2 * (d_f1 - d_ * f1_), f1_f1 + d_f2 - d_ * f2_


def _sigmoid_difference(m: Tensor, delta: Tensor) -> Tensor:
    """σ(m + δ) - σ(m) = σ(m) σ(-m) e / (1 + σ(m) e), e = exp(δ) - 1."""
    p, e = torch.sigmoid(m), torch.expm1(delta)
    return p * torch.sigmoid(-m) * e / (1 + p * e)


def _softplus_slopes(x: Tensor) -> Pair:
    p = torch.sigmoid(x)
    return p, p * (1 - p)


def _silu_slopes(x: Tensor) -> Pair:
    p = torch.sigmoid(x)
    q = 1 - p
    return p * (1 + x * q), p * q * (2 + x * (q - p))


_SOFTPLUS = _Nodes(
    lambda m: functional.softplus(m, threshold=40.0),  # torch's 20 shows in float64
    lambda m, delta: torch.log1p(torch.sigmoid(m) * torch.expm1(delta)),
    _softplus_slopes,
)
_SILU = _Nodes(
    functional.silu,
    lambda m, delta: delta * torch.sigmoid(m + delta) + m * _sigmoid_difference(m, delta),
    _silu_slopes,
)


# Narrow: the Hermite series (GELU) --------------------------------------------------------------------------------

_TERMS = {torch.float32: 12, torch.float64: 30}


def _gelu_derivatives(m: Tensor, s: Tensor, count: int) -> list[Tensor]:
    """E f⁽ᵏ⁾(x), k = 0 … count, for f = x Φ(x).

    With ψ(m) = N(m; 0, 1 + s): E f = m Φ(m/√(1+s)) + s ψ, E f' = Φ(m/√(1+s)) - ψ', then E f⁽ᵏ⁾ = ψ⁽ᵏ⁻²⁾ - ψ⁽ᵏ⁾.
    """
    v2 = 1 / (1 + s)
    v = v2.sqrt()
    psi = [v * normal.pdf(m * v)]
    for k in range(count):  # ψ⁽ᵏ⁺¹⁾ = -(m ψ⁽ᵏ⁾ + k ψ⁽ᵏ⁻¹⁾) / (1 + s)
        psi.append(-v2 * (m * psi[k] + (k * psi[k - 1] if k else 0.0)))
    above = normal.cdf(m * v)
    return [m * above + s * psi[0], above - psi[1], *(psi[k - 2] - psi[k] for k in range(2, count + 1))]


def _by_series_values(m: Tensor, s: Tensor) -> Pair:
    """Var f = Σ_{k≥1} sᵏ/k! (E f⁽ᵏ⁾)²: positive terms, which for GELU fall like (s/(1+s))ᵏ."""
    mu = _gelu_derivatives(m, s, _TERMS[m.dtype])
    term, variance = torch.ones_like(s), torch.zeros_like(s)
    for k in range(1, len(mu)):
        term = term * s / k
        variance = variance + term * mu[k] * mu[k]
    return mu[0], variance


def _by_series_partials(m: Tensor, s: Tensor) -> Partials:
    """The series differentiated term by term, with ∂E f⁽ᵏ⁾/∂m = E f⁽ᵏ⁺¹⁾ and ∂E f⁽ᵏ⁾/∂s = ½ E f⁽ᵏ⁺²⁾."""
    mu = _gelu_derivatives(m, s, _TERMS[m.dtype] + 2)
    term, s_m, s_s = torch.ones_like(s), torch.zeros_like(s), torch.zeros_like(s)
    for k in range(1, len(mu) - 2):
        s_s = s_s + term * mu[k] * mu[k]
        term = term * s / k
        s_m, s_s = s_m + 2 * term * mu[k] * mu[k + 1], s_s + term * mu[k] * mu[k + 2]
    return mu[1], 0.5 * mu[2], s_m, s_s


def _gelu_wide_values(m: Tensor, s: Tensor, bump: rules.Rule) -> Pair:
    return _gelu_derivatives(m, s, 2)[0], _wide_values(m, s, bump)[1]


def _gelu_wide_partials(m: Tensor, s: Tensor, bump: rules.Rule) -> Partials:
    _, mean_m, twice_mean_s = _gelu_derivatives(m, s, 2)
    return mean_m, 0.5 * twice_mean_s, *_wide_partials(m, s, bump)[2:]


# The two regimes joined -------------------------------------------------------------------------------------------


def _join(
    narrow: tuple[Callable[..., Pair], Callable[..., Partials]],
    wide: tuple[Callable[..., Pair], Callable[..., Partials]],
    switch: float,
    bumps: dict[torch.dtype, rules.Rule],
) -> Callable[..., Pair]:
    """The map that is `narrow` for s ≤ switch and `wide` above, each evaluated where it is safe."""

    def both(i: int, m: Tensor, s: Tensor) -> tuple[Tensor, ...]:
        is_wide = step(s - switch)
        inner = narrow[i](m, s.clamp_max(switch))
        outer = wide[i](m, s.clamp_min(switch), bumps[m.dtype])
        return tuple(select(is_wide, b, a) for a, b in zip(inner, outer, strict=True))

    return differentiable(lambda m, s: both(0, m, s), lambda m, s: both(1, m, s))  # type: ignore[arg-type, return-value]


def _rules(
    rho: Callable[[float], float], single: tuple[float, int], double: tuple[float, int]
) -> dict[torch.dtype, rules.Rule]:
    return {torch.float32: _bump(rho, *single), torch.float64: _bump(rho, *double)}


_WIDE = (_wide_values, _wide_partials)
_softplus = _join(
    (lambda m, s: _SOFTPLUS.values(m, s), lambda m, s: _SOFTPLUS.partials(m, s)), _WIDE, 1.0,
    _rules(lambda x: math.log1p(math.exp(-x)), (18.0, 24), (42.0, 64)),
)  # fmt: skip
_silu = _join(
    (lambda m, s: _SILU.values(m, s), lambda m, s: _SILU.partials(m, s)), _WIDE, 1.0,
    _rules(lambda x: -x / (1 + math.exp(x)), (18.0, 24), (42.0, 64)),
)  # fmt: skip
_gelu = _join(
    (_by_series_values, _by_series_partials), (_gelu_wide_values, _gelu_wide_partials), 0.5,
    _rules(lambda x: -0.5 * x * math.erfc(x * math.sqrt(0.5)), (6.0, 14), (9.5, 40)),
)  # fmt: skip
