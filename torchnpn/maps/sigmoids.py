"""Sigmoid and tanh of a Gaussian variable, to a chosen accuracy, for every mean and variance.

By symmetry only n = -|m| is treated: L = E σ(x) for x ~ N(n, s) and the variance. tanh is a sigmoid of 2x; the factor,
`scale` below, is applied where no number of the type overflows. Three regimes, written here for a scale of one:

- Narrow (s ≤ switch): Gauss-Hermite nodes z_i on d_i = (σ(n + √s z_i) - p)/p = q e_i/(1 + p e_i), with p = σ(n),
  q = 1 - p, e_i = exp(√s z_i) - 1. So L = p (1 + E d) and Var = p² Var d keep their digits in the tail and at s = 0.
- Central: σ(x) ≈ Σ p_i Φ(t_i x), hence P = E σ = Σ p_i Φ(a_i n) with a_i = t_i/√(1 + t_i² s), its derivatives P₁, P₂,
  P₃ in n by hand, and Var = P (1 - P) - P₁, because σ² = σ - σ'.
- Tail (n < -s): the exact tilts E σ = e^{n + s/2} P(-n - s), E σ² = e^{2n + 2s} (P - P₁)(-n - 2s).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from torchnpn.maps import normal, rules
from torchnpn.maps.elementwise import Pair, Partials, apply, differentiable
from torchnpn.maps.select import select, step
from torchnpn.moments import Moments


class Accuracy(NamedTuple):
    """How finely σ is resolved: the normal mixture Σ p_i Φ(t_i x), the Hermite nodes, and the variance between them."""

    mixture: rules.Rule  # pairs (t_i, p_i)
    nodes: rules.Rule
    switch: float


# Mixtures fitted in the minimax sense: largest error of σ 4.7e-6, 8.4e-8 and 1.3e-8.
_MIXTURE_4 = (
    (0.321069718389218, 0.0609570219521891),
    (0.475129624633293, 0.374179282505813),
    (0.698768349918389, 0.458354314570577),
    (1.0231210493248, 0.10650938097142),
)
_MIXTURE_6 = (
    (0.269450502575018, 0.00906953712891111),
    (0.366668493358779, 0.108859611322214),
    (0.495503120067598, 0.316918589798703),
    (0.668285209376882, 0.37395056865448),
    (0.897285242660486, 0.172741865029095),
    (1.21118676673646, 0.0184598280665971),
)
_MIXTURE_7 = (
    (0.252189393951938, 0.00359287725882914),
    (0.334069398240058, 0.0555290178346284),
    (0.438591899611379, 0.209851490146504),
    (0.57547380498847, 0.345535364109099),
    (0.752807708653064, 0.281955711778237),
    (0.981984868415742, 0.0958303837282185),
    (1.29161851098821, 0.00770515514448325),
)

ACCURATE = {
    torch.float32: Accuracy(_MIXTURE_6, rules.hermite(11), 0.8),
    torch.float64: Accuracy(_MIXTURE_7, rules.hermite(15), 0.6),
}
DEFAULT = {torch.float32: Accuracy(_MIXTURE_4, rules.hermite(7), 0.5), torch.float64: ACCURATE[torch.float64]}


def sigmoid(o: Moments) -> Moments:
    """Moments of σ(x) = 1/(1 + exp(-x)) for Gaussian x, to 2e-6 in float32 and 1e-7 in float64."""
    return apply("sigmoid", o, torch.sigmoid, _sigmoid)


def tanh(o: Moments) -> Moments:
    """Moments of tanh(x) = 2σ(2x) - 1 for Gaussian x, to 4e-6 in float32 and 4e-7 in float64."""
    return apply("tanh", o, torch.tanh, _tanh)


def make(accuracy: dict[torch.dtype, Accuracy]) -> tuple[Callable[..., Pair], Callable[..., Pair]]:
    """Differentiable sigmoid and tanh (m, s) -> (a_m, a_s) of the given accuracy."""

    def sigmoid_values(m: Tensor, s: Tensor) -> Pair:
        _, n = _reflected(m)
        lower, _, variance = _values(n, s, accuracy[m.dtype], 1.0)
        return select(step(m), 1 - lower, lower), variance

    def sigmoid_partials(m: Tensor, s: Tensor) -> Partials:
        return partials(m, s, 1.0)

    def tanh_values(m: Tensor, s: Tensor) -> Pair:
        side, n = _reflected(m)
        _, centre, variance = _values(n, s, accuracy[m.dtype], 2.0)
        return 2 * side * centre, 4 * variance

    def tanh_partials(m: Tensor, s: Tensor) -> Partials:
        m_m, m_s, s_m, s_s = partials(m, s, 2.0)
        return 4 * m_m, 8 * m_s, 8 * s_m, 16 * s_s

    def partials(m: Tensor, s: Tensor, scale: float) -> Partials:
        side, n = _reflected(m)
        m_m, m_s, s_m, s_s = _partials(n, s, accuracy[m.dtype], scale)
        return m_m, -side * m_s, -side * s_m, s_s

    return differentiable(sigmoid_values, sigmoid_partials), differentiable(tanh_values, tanh_partials)


def _reflected(m: Tensor) -> Pair:
    """The side of zero on which m lies, ±1, and n = -|m|; no further out than a factor of eight can follow."""
    side = 2 * step(m) - 1
    return side, (-side * m).clamp_min(-torch.finfo(m.dtype).max / 8)


def _values(n: Tensor, s: Tensor, accuracy: Accuracy, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """L = E σ(x) ≤ ½, the centred ½ - L ≥ 0 with its own digits, and Var σ(x), for n ≤ 0 and x scaled."""
    wide, tail, s_narrow, s_wide = _regimes(n, s, accuracy, scale)

    p, q, std = torch.sigmoid(scale * n), torch.sigmoid(-scale * n), scale * s_narrow.sqrt()

    def along(z: Tensor, w: Tensor) -> Pair:
        d = _relative_difference(p, q, z * std)
        return w * d, w * d * d

    first, second = rules.total(along, accuracy.nodes, n)
    lower_narrow, variance_narrow = p * (1 + first), p * p * (second - first * first)
    centre_narrow = -0.5 * torch.tanh(0.5 * scale * n) - p * first

    once, twice = _tilted(n, s_wide, tail, scale)
    P, P_1 = _mixture(once, s_wide, accuracy, scale, 1)
    Q, Q_1 = _mixture(twice, s_wide, accuracy, scale, 1)
    T, U = _tilts(n, s_wide, tail, scale)
    lower_wide = T * P
    variance_wide = select(tail, U * (Q - Q_1) - lower_wide * lower_wide, P * (1 - P) - P_1)
    centre_wide = select(tail, 0.5 - lower_wide, _centre(n, s_wide, accuracy, scale))

    return (
        select(wide, lower_wide, lower_narrow),
        select(wide, centre_wide, centre_narrow),
        select(wide, variance_wide, variance_narrow),
    )


def _partials(n: Tensor, s: Tensor, accuracy: Accuracy, scale: float) -> Partials:
    """By the mean and the variance of the scaled x."""
    wide, tail, s_narrow, s_wide = _regimes(n, s, accuracy, scale)

    p, q, std = torch.sigmoid(scale * n), torch.sigmoid(-scale * n), scale * normal.lifted_root(s_narrow)

    def along(z: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        d = _relative_difference(p, q, z * std)
        above, below = p * (1 + d), q - p * d  # σ and 1 - σ at the node
        f1 = above * below
        f2 = f1 * (below - above)
        return w * d, w * f1, w * f2, w * d * f1, w * d * f2, w * f1 * f1

    d_, f1_, f2_, d_f1, d_f2, f1_f1 = rules.total(along, accuracy.nodes, n)
    inner = f1_, 0.5 * f2_, 2 * p * (d_f1 - d_ * f1_), f1_f1 + p * (d_f2 - d_ * f2_)

    once, twice = _tilted(n, s_wide, tail, scale)
    P, P_1, P_2, P_3 = _mixture(once, s_wide, accuracy, scale, 3)
    Q, Q_1, Q_2, Q_3 = _mixture(twice, s_wide, accuracy, scale, 3)
    T, U = _tilts(n, s_wide, tail, scale)
    q_0, q_1, q_2 = Q - Q_1, Q_1 - Q_2, Q_2 - Q_3
    m_m, m_s = T * (P - P_1), T * (0.5 * P - P_1 + 0.5 * P_2)
    outer_tail = m_m, m_s, U * (2 * q_0 - q_1) - 2 * T * P * m_m, U * (2 * q_0 - 2 * q_1 + 0.5 * q_2) - 2 * T * P * m_s
    outer = P_1, 0.5 * P_2, (P_1 - P_2) - 2 * P * P_1, 0.5 * (P_2 - P_3) - P * P_2
    parts = zip(inner, outer_tail, outer, strict=True)
    m_m, m_s, s_m, s_s = (select(wide, select(tail, b, c), a) for a, b, c in parts)
    return m_m, m_s, s_m, s_s


def _regimes(n: Tensor, s: Tensor, accuracy: Accuracy, scale: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Steps that say which regime holds, and variances at which the narrow and the wide forms are safe to evaluate."""
    switch = accuracy.switch / scale**2
    s_wide = s.clamp_min(switch)
    return step(s - switch), step(-n - scale * s_wide), s.clamp_max(switch), s_wide


def _tilted(n: Tensor, s: Tensor, tail: Tensor, scale: float) -> Pair:
    """The means at which the mixture is wanted: -n - s in the tail and n elsewhere; -n - 2s in the tail."""
    once, twice = (-n - scale * s).clamp_min(0.0), (-n - 2 * scale * s).clamp_min(-torch.finfo(n.dtype).max)
    return select(tail, once, n), twice


def _relative_difference(p: Tensor, q: Tensor, delta: Tensor) -> Tensor:
    """(σ(n + δ) - p)/p for p = σ(n), q = 1 - p, exact however small δ is."""
    e = torch.expm1(delta)
    return q * e / (1 + p * e)


def _mixture(m: Tensor, s: Tensor, accuracy: Accuracy, scale: float, order: int) -> tuple[Tensor, ...]:
    """P = Σ p_i Φ(a_i m) and its derivatives in the scaled m up to `order` (1 or 3)."""

    def component(t: Tensor, p: Tensor) -> tuple[Tensor, ...]:
        a = torch.rsqrt(s + (scale * t) ** -2)
        y = (a * m).clamp(-1e4, 1e4)
        a = a if scale == 1 else a * (1 / scale)
        slope = p * a * normal.pdf(y)
        if order == 1:
            return p * normal.cdf(y), slope
        return p * normal.cdf(y), slope, -slope * a * y, slope * a * a * (y * y - 1)

    return rules.total(component, accuracy.mixture, m)


def _centre(n: Tensor, s: Tensor, accuracy: Accuracy, scale: float) -> Tensor:
    """½ - P, without the difference: Σ p_i ½ erf(-a_i n / √2)."""

    def component(t: Tensor, p: Tensor) -> tuple[Tensor]:
        return (0.5 * p * torch.erf(-math.sqrt(0.5) * n * torch.rsqrt(s + (scale * t) ** -2)),)

    return rules.total(component, accuracy.mixture, n)[0]


def _tilts(n: Tensor, s: Tensor, tail: Tensor, scale: float) -> Pair:
    """T = e^{n + s/2} and U = e^{2n + 2s}: at most one where n < -s, and taken as one elsewhere."""
    once, twice = n + 0.5 * scale * s, (n + scale * s).clamp_max(0.0)
    return torch.exp(tail * (scale * once.clamp_max(0.0))), torch.exp(tail * (2 * scale * twice))


_sigmoid, _tanh = make(DEFAULT)
