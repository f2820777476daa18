"""Moments of the activations and their partial derivatives, as functions that every other kernel calls.

The formulas are those of `maps.rectifiers`, `maps.sigmoids` and `maps.saturating` for gamma neurons, in float32; here
they are straight-line code on registers. `ACT` is "none", "relu", "sigmoid", "tanh" or "gamma".
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from torchnpn.families import eps
from torchnpn.maps import normal, sigmoids

_EPS = eps(normal.torch.float32)
EPS, EPS2 = tl.constexpr(_EPS), tl.constexpr(_EPS**2)
LARGEST_MEAN, LARGEST_RATIO = tl.constexpr(_EPS**-2), tl.constexpr(_EPS**-0.5)
A0, A1, A2, A3, A4, A5, A6, A7, A8, A9 = (tl.constexpr(c) for c in normal.A32)
B0, B1, B2, B3, B4, B5, B6, B7, B8, B9 = (tl.constexpr(c) for c in normal.B32)
_ACCURACY = sigmoids.DEFAULT[normal.torch.float32]
(T0, P0), (T1, P1), (T2, P2), (T3, P3) = ((tl.constexpr(t), tl.constexpr(p)) for t, p in _ACCURACY.mixture)
SWITCH = tl.constexpr(_ACCURACY.switch)
(Z0, W0), (Z1, W1), (Z2, W2), (Z3, W3), (Z4, W4), (Z5, W5), (Z6, W6) = (
    (tl.constexpr(z), tl.constexpr(w)) for z, w in _ACCURACY.nodes
)
LARGEST = tl.constexpr(3.3895313892515355e38)  # of bfloat16
FLOOR = tl.constexpr(1.0842021724855044e-19)  # √ of the smallest normal number


@triton.jit
def finite(x):
    """`x`, with ±inf as the largest numbers that bfloat16 has too; NaN stays NaN, which `tl.minimum` would lose."""
    return tl.where(x > LARGEST, LARGEST, tl.where(x < -LARGEST, -LARGEST, x))


@triton.jit
def values(m, s, tau, r, q, ACT: tl.constexpr):
    """Mean and variance of the activation of a neuron with mean m and variance s; sums that overflowed are finite."""
    m, s = finite(m), finite(s)
    if ACT == "relu":
        return _relu_values(m, s)
    elif ACT == "sigmoid":
        lower, _, variance = _sigmoid_values(-tl.abs(m), s)
        return tl.where(m > 0, 1 - lower, lower), variance
    elif ACT == "tanh":
        m, s = _quartered(m, s)
        _, centre, variance = _sigmoid_values(-2 * tl.abs(m), 4 * s)
        return 2 * tl.where(m > 0, centre, -centre), 4 * variance
    elif ACT == "gamma":
        return _gamma_values(m, s, tau, r, q)
    else:
        return m, s


@triton.jit
def gradients(m, s, by_mean, by_variance, tau, r, q, ACT: tl.constexpr):
    """Gradients by m and s, from those by the mean and the variance of the activation."""
    if ACT == "none":
        return finite(by_mean), finite(by_variance)
    m, s, by_mean, by_variance = finite(m), finite(s), finite(by_mean), finite(by_variance)
    if ACT == "relu":
        m_m, m_s, s_m, s_s = _relu_partials(m, s)
    elif ACT == "sigmoid":
        m_m, m_s, s_m, s_s = _signed_partials(m, s)
    elif ACT == "tanh":
        m, s = _quartered(m, s)
        m_m, m_s, s_m, s_s = _signed_partials(2 * m, 4 * s)
        m_m, m_s, s_m, s_s = 4 * m_m, 8 * m_s, 8 * s_m, 16 * s_s
    else:
        m_m, m_s, s_m, s_s = _gamma_partials(m, s, tau, r, q)
    by_m = finite(by_mean * m_m) + finite(by_variance * s_m)
    return finite(by_m), finite(finite(by_mean * m_s) + finite(by_variance * s_s))


@triton.jit
def _quartered(m, s):
    """A variance of at most a quarter of the largest number, and the mean in the same ratio to its root."""
    most = 0.25 * LARGEST
    m = m * tl.sqrt(most / tl.maximum(s, most))
    return tl.where(m > most, most, tl.where(m < -most, -most, m)), tl.where(s > most, most, s)


# The normal distribution ---------------------------------------------------------------------------------------------


@triton.jit
def _density(h):
    return 0.3989422804014327 * tl.exp(-0.5 * h * h)


@triton.jit
def _tails(k):
    """A(k), B(k) of `maps.normal` for k ≥ 0."""
    t = 1.0 / (1.0 + 0.3 * k)
    x = 2.0 * t - 1.0
    a = A5 + x * (A6 + x * (A7 + x * (A8 + x * A9)))
    a = A0 + x * (A1 + x * (A2 + x * (A3 + x * (A4 + x * a))))
    b = B5 + x * (B6 + x * (B7 + x * (B8 + x * B9)))
    b = B0 + x * (B1 + x * (B2 + x * (B3 + x * (B4 + x * b))))
    return t * t * a, t * t * t * b


@triton.jit
def _cdf(h, density):
    k = tl.abs(h)
    a, b = _tails(k)
    tail = density * (b + k * a)
    return tl.where(h > 0, 1 - tail, tail)


@triton.jit
def _limited(x):
    return tl.where(x > 1e4, 1e4, tl.where(x < -1e4, -1e4, x))


# ReLU ----------------------------------------------------------------------------------------------------------------


@triton.jit
def _rectified(m, s):
    std = tl.sqrt(s)
    h = _limited(m / tl.maximum(std, FLOOR))
    density = _density(h)
    k = tl.abs(h)
    a, b = _tails(k)
    u, w = density * a, density * b
    return std, h, density, u, w, w + k * u


@triton.jit
def _relu_values(m, s):
    std, h, _, u, w, tail = _rectified(m, s)
    return tl.maximum(m, 0.0) + std * u, s * (w - u * u + tl.where(h > 0, 1 - 2 * tail, 0.0))


@triton.jit
def _relu_partials(m, s):
    std, h, density, u, _, tail = _rectified(m, s)
    mean = tl.maximum(m, 0.0) + std * u
    above, below = tl.where(h > 0, 1 - tail, tail), tl.where(h > 0, tail, 1 - tail)
    slope = tl.where(std > 0, 0.5 * density / tl.maximum(std, FLOOR), 0.0)
    return above, slope, mean * (2 * below), above - (tl.maximum(h, 0.0) + u) * density


# Sigmoid and tanh ----------------------------------------------------------------------------------------------------


@triton.jit
def _expm1(x):
    """exp(x) - 1, to 4e-7 relative."""
    near = tl.where(tl.abs(x) < 0.35, x, 0.0)
    series = 1 + near * (0.5 + near * (1 / 6 + near * (1 / 24 + near * (1 / 120 + near * (1 / 720 + near / 5040)))))
    return tl.where(tl.abs(x) < 0.35, near * series, tl.exp(x) - 1)


@triton.jit
def _difference(p, q, delta):
    """(σ(n + δ) - p)/p for p = σ(n), q = 1 - p."""
    e = _expm1(delta)
    return q * e / (1 + p * e)


@triton.jit
def _add_node(p, q, std, z, w, first, second):
    d = _difference(p, q, std * z)
    return first + d * w, second + d * d * w


@triton.jit
def _add_component(m, s, t, p, P, P_1, P_2, P_3):
    a = 1 / tl.sqrt(s + 1 / (t * t))
    y = _limited(a * m)
    density = _density(y)
    slope = a * density * p
    return P + _cdf(y, density) * p, P_1 + slope, P_2 - slope * a * y, P_3 + slope * a * a * (y * y - 1)


@triton.jit
def _mixture(m, s):
    P, P_1, P_2, P_3 = tl.zeros_like(m), tl.zeros_like(m), tl.zeros_like(m), tl.zeros_like(m)
    P, P_1, P_2, P_3 = _add_component(m, s, T0, P0, P, P_1, P_2, P_3)
    P, P_1, P_2, P_3 = _add_component(m, s, T1, P1, P, P_1, P_2, P_3)
    P, P_1, P_2, P_3 = _add_component(m, s, T2, P2, P, P_1, P_2, P_3)
    P, P_1, P_2, P_3 = _add_component(m, s, T3, P3, P, P_1, P_2, P_3)
    return P, P_1, P_2, P_3


@triton.jit
def _erf_component(n, s, t, p):
    return tl.erf(-0.7071067811865476 * n / tl.sqrt(s + 1 / (t * t))) * (0.5 * p)


@triton.jit
def _sigmoid_values(n, s):
    """E σ, ½ - E σ and Var σ for n ≤ 0."""
    s_narrow, s_wide = tl.where(s > SWITCH, SWITCH, s), tl.where(s < SWITCH, SWITCH, s)  # NaN stays NaN in both
    e = tl.exp(n)
    p, q, std = e / (1 + e), 1 / (1 + e), tl.sqrt(s_narrow)
    first, second = tl.zeros_like(n), tl.zeros_like(n)
    first, second = _add_node(p, q, std, Z0, W0, first, second)
    first, second = _add_node(p, q, std, Z1, W1, first, second)
    first, second = _add_node(p, q, std, Z2, W2, first, second)
    first, second = _add_node(p, q, std, Z4, W4, first, second)  # d = 0 at the middle node
    first, second = _add_node(p, q, std, Z5, W5, first, second)
    first, second = _add_node(p, q, std, Z6, W6, first, second)
    half = -0.5 * _expm1(n) / (1 + e)  # ½ - σ(n)

    tail = n < -s_wide
    P, P_1, _, _ = _mixture(tl.where(tail, -n - s_wide, n), s_wide)
    Q, Q_1, _, _ = _mixture(-n - 2 * s_wide, s_wide)
    T = tl.exp(tl.where(tail, n + 0.5 * s_wide, 0.0))
    U = tl.exp(tl.where(tail, 2 * (n + s_wide), 0.0))
    lower = T * P
    centre = _erf_component(n, s_wide, T0, P0) + _erf_component(n, s_wide, T1, P1)
    centre += _erf_component(n, s_wide, T2, P2) + _erf_component(n, s_wide, T3, P3)
    variance = tl.where(tail, U * (Q - Q_1) - lower * lower, P * (1 - P) - P_1)

    wide, square = s > SWITCH, second - first * first
    return (
        tl.where(wide, lower, p * (1 + first)),
        tl.where(wide, tl.where(tail, 0.5 - lower, centre), half - p * first),
        tl.where(wide, tl.where(variance < 0, 0.0, variance), p * p * tl.where(square < 0, 0.0, square)),
    )


@triton.jit
def _add_node_slopes(p, q, std, z, w, d_, f1_, f2_, d_f1, d_f2, f1_f1):
    d = _difference(p, q, std * z)
    above, below = p * (1 + d), q - p * d
    f1 = above * below
    f2 = f1 * (below - above)
    return d_ + d * w, f1_ + f1 * w, f2_ + f2 * w, d_f1 + d * f1 * w, d_f2 + d * f2 * w, f1_f1 + f1 * f1 * w


@triton.jit
def _sigmoid_partials(n, s):
    """The four partial derivatives of E σ and Var σ for n ≤ 0."""
    s_narrow, s_wide = tl.where(s > SWITCH, SWITCH, s), tl.where(s < SWITCH, SWITCH, s)  # NaN stays NaN in both
    e = tl.exp(n)
    p, q, std = e / (1 + e), 1 / (1 + e), tl.sqrt(s_narrow)
    o = tl.zeros_like(n)
    d, f1, f2, d_f1, d_f2, f1_f1 = _add_node_slopes(p, q, std, Z0, W0, o, o, o, o, o, o)
    d, f1, f2, d_f1, d_f2, f1_f1 = _add_node_slopes(p, q, std, Z1, W1, d, f1, f2, d_f1, d_f2, f1_f1)
    d, f1, f2, d_f1, d_f2, f1_f1 = _add_node_slopes(p, q, std, Z2, W2, d, f1, f2, d_f1, d_f2, f1_f1)
    d, f1, f2, d_f1, d_f2, f1_f1 = _add_node_slopes(p, q, std, Z3, W3, d, f1, f2, d_f1, d_f2, f1_f1)
    d, f1, f2, d_f1, d_f2, f1_f1 = _add_node_slopes(p, q, std, Z4, W4, d, f1, f2, d_f1, d_f2, f1_f1)
    d, f1, f2, d_f1, d_f2, f1_f1 = _add_node_slopes(p, q, std, Z5, W5, d, f1, f2, d_f1, d_f2, f1_f1)
    d, f1, f2, d_f1, d_f2, f1_f1 = _add_node_slopes(p, q, std, Z6, W6, d, f1, f2, d_f1, d_f2, f1_f1)

    tail, wide = n < -s_wide, s > SWITCH
    P, P_1, P_2, P_3 = _mixture(tl.where(tail, -n - s_wide, n), s_wide)
    Q, Q_1, Q_2, Q_3 = _mixture(-n - 2 * s_wide, s_wide)
    T = tl.exp(tl.where(tail, n + 0.5 * s_wide, 0.0))
    U = tl.exp(tl.where(tail, 2 * (n + s_wide), 0.0))
    q_0, q_1, q_2 = Q - Q_1, Q_1 - Q_2, Q_2 - Q_3
    t_m, t_s = T * (P - P_1), T * (0.5 * P - P_1 + 0.5 * P_2)
    v_m = U * (2 * q_0 - q_1) - 2 * T * P * t_m
    v_s = U * (2 * q_0 - 2 * q_1 + 0.5 * q_2) - 2 * T * P * t_s
    return (
        tl.where(wide, tl.where(tail, t_m, P_1), f1),
        tl.where(wide, tl.where(tail, t_s, 0.5 * P_2), 0.5 * f2),
        tl.where(wide, tl.where(tail, v_m, (P_1 - P_2) - 2 * P * P_1), 2 * p * (d_f1 - d * f1)),
        tl.where(wide, tl.where(tail, v_s, 0.5 * (P_2 - P_3) - P * P_2), f1_f1 + p * (d_f2 - d * f2)),
    )


@triton.jit
def _signed_partials(m, s):
    """The same for every m, by symmetry."""
    m_m, m_s, s_m, s_s = _sigmoid_partials(-tl.abs(m), s)
    side = tl.where(m > 0, -1.0, tl.where(m < 0, 1.0, 0.0))
    return m_m, side * m_s, side * s_m, s_s


# Theorem 1 for gamma neurons: v(x) = r - q exp(-τ x) ------------------------------------------------------------------


@triton.jit
def _log1p(x):
    """log(1 + x) for x ≥ 0; the quotient makes up for what 1 + x lost."""
    u = 1 + x
    return tl.where(u == 1, x, tl.log(u) * (x / tl.where(u == 1, 1.0, u - 1)))


@triton.jit
def _gamma_start(m, s):
    """The mean and the relative variance within `families.limits`."""
    mean = tl.minimum(tl.maximum(m, EPS2), LARGEST_MEAN)
    ratio = tl.minimum(s, mean * mean / EPS) / mean / mean
    return mean, tl.minimum(tl.maximum(ratio, EPS), LARGEST_RATIO)


@triton.jit
def _gamma_exponents(mean, v, tau):
    """x = τ v m, Δ₁ = -log(1 + x)/v and δ = Δ₂ - 2Δ₁ = log(1 + x²/(1 + 2x))/v."""
    x = tau * v * mean
    return x, -_log1p(x) / v, _log1p(x * (x / (1 + 2 * x))) / v


@triton.jit
def _gamma_values(m, s, tau, r, q):
    mean, v = _gamma_start(m, s)
    _, once, gap = _gamma_exponents(mean, v, tau)
    a_s = q * q * tl.exp(2 * once + gap) * -_expm1(-gap)
    a_m = tl.where(tl.abs(r) < tl.abs(r - q), r - q * tl.exp(once), (r - q) - q * _expm1(once))  # as `maps.saturating`
    return a_m, a_s


@triton.jit
def _gamma_partials(m, s, tau, r, q):
    mean, v = _gamma_start(m, s)
    x, once, gap = _gamma_exponents(mean, v, tau)
    y = x / (1 + x)
    near = tl.where(y < 0.1, y, 0.0)
    series = near * near * (0.5 + near * (1 / 3 + near * (0.25 + near * (0.2 + near * (1 / 6 + near / 7)))))
    once_v = tl.where(y < 0.1, series, _log1p(x) - y) / v / v
    once_m = -tau / (1 + x)
    pull = 2 * x / ((1 + 2 * x) * (1 + x))
    gap_m = tau * pull
    gap_v = (x * pull - _log1p(x * (x / (1 + 2 * x)))) / v / v
    slope, height, share = -q * tl.exp(once), q * q * tl.exp(2 * once + gap), -_expm1(-gap)
    inside_m = (m > EPS2) & (m < LARGEST_MEAN)
    inside_v = (v > EPS) & (v < LARGEST_RATIO)
    v_s = tl.where(inside_v, 1 / mean / mean, 0.0)
    v_m = tl.where(inside_v, -2 * v / mean, 0.0)
    a_m_v, a_s_v = slope * once_v, height * (2 * share * once_v + gap_v)
    a_m_m = slope * once_m + a_m_v * v_m
    a_s_m = height * (2 * share * once_m + gap_m) + a_s_v * v_m
    return tl.where(inside_m, a_m_m, 0.0), a_m_v * v_s, tl.where(inside_m, a_s_m, 0.0), a_s_v * v_s
