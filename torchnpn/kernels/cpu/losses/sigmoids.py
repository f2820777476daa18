"""Moments of the sigmoid of a Gaussian logit, as sums over Gauss-Hermite nodes, and their derivatives."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from torchnpn.kernels.cpu.losses.gradient import Array, drawn_back

QUADRATURE_MEAN, QUADRATURE_VARIANCE = 15.0, 4.0  # within, 32 nodes are right to 1e-7
_FOLDED_SCALE = 3.0  # of `likelihoods.guards.folded`
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS /= _WEIGHTS.sum()


def sigmoid_moments(m: Array, s: Array) -> tuple[Array, Array, tuple[Array, Array], tuple[Array, Array]]:
    """Mean P and variance V of σ(x) for Gaussian x, and the derivatives of each by m and s.

    With f = σ(x), f₁ = f (1 - f), f₂ = f₁ (1 - 2f):  ∂m P = E f₁,  ∂s P = ½ E f₂,
    ∂m V = 2 E f f₁ - 2 P ∂m P,  ∂s V = E (f₁² + f f₂) - 2 P ∂s P.
    """
    f = expit(m[..., None] + np.sqrt(s, dtype=np.float64)[..., None] * _NODES)
    f1 = f * (1 - f)
    f2 = f1 * (1 - 2 * f)
    P, P_m, P_s = f @ _WEIGHTS, f1 @ _WEIGHTS, 0.5 * (f2 @ _WEIGHTS)
    V = (f - P[..., None]) ** 2 @ _WEIGHTS
    V_m, V_s = 2 * ((f * f1) @ _WEIGHTS - P * P_m), (f1 * f1 + f * f2) @ _WEIGHTS - 2 * P * P_s
    return P, V, (P_m, P_s), (V_m, V_s)


def folded_sigmoid(m: Array, s: Array) -> tuple[Array, Array, Array]:
    """P = E σ(x) of the logit N(m, s) as `likelihoods.guards.folded` has it, and its derivatives by m and s."""
    excess = np.maximum(s - QUADRATURE_VARIANCE, 0.0)
    total = QUADRATURE_VARIANCE + _FOLDED_SCALE + excess
    shrink = np.sqrt((QUADRATURE_VARIANCE + _FOLDED_SCALE) / total)
    inner, slope = drawn_back(m * shrink, QUADRATURE_MEAN)
    P, _, (P_m, P_s), _ = sigmoid_moments(inner, s - excess)
    by_inner = P_m * slope * shrink
    return P, by_inner, np.where(excess > 0, -0.5 * by_inner * m / total, P_s)
