"""Closed forms of losses of proportions."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln

from torchnpn.kernels.cpu.losses.gradient import Array, LossGradient, of_parameter, within
from torchnpn.kernels.cpu.losses.sigmoids import QUADRATURE_MEAN, QUADRATURE_VARIANCE, sigmoid_moments


def beta(m: Array, s: Array, y: Array, share: Array, log_precision: Array, *, limit: float) -> LossGradient | None:
    """In closed form but for P = E σ(o) and V = Var σ(o), which are sums over 32 Gauss-Hermite nodes:

    log p = log Γ(ν) - log Γ(c) - log Γ(d) + (c - 1) log y + (d - 1) log(1 - y),
    ∂c log p = log y + ψ(ν) - ψ(c),    ∂d log p = log(1 - y) + ψ(ν) - ψ(d),    ∂ρ ν = -φ (1 + φ)/(1 + ρ φ)².
    """
    log_precision = log_precision[..., None, :].astype(np.float64)
    if not (within(m, QUADRATURE_MEAN) and within(s, QUADRATURE_VARIANCE) and within(log_precision, limit)):
        return None
    w, y, phi = share[..., None], y.astype(np.float64), np.exp(log_precision)
    P, V, (P_m, P_s), (V_m, V_s) = sigmoid_moments(m, s)
    both = P * (1 - P)
    rho = V / both
    nu = phi * (1 - rho) / (1 + rho * phi)
    c, d = P * nu, (1 - P) * nu
    log_y, log_rest = np.log(y), np.log1p(-y)
    log_prob = gammaln(nu) - gammaln(c) - gammaln(d) + (c - 1) * log_y + (d - 1) * log_rest
    by_c, by_d = log_y + digamma(nu) - digamma(c), log_rest + digamma(nu) - digamma(d)
    by_nu = P * by_c + (1 - P) * by_d
    by_V = -by_nu * phi * (1 + phi) / (1 + rho * phi) ** 2 / both
    by_P = nu * (by_c - by_d) - by_V * rho * (1 - 2 * P)
    by_log_phi = by_nu * phi * (1 - rho) / (1 + rho * phi) ** 2
    return LossGradient(
        -(w * log_prob).sum(-1),
        (-w * (by_P * P_m + by_V * V_m)).astype(np.float32),
        (-w * (by_P * P_s + by_V * V_s)).astype(np.float32),
        [of_parameter(-w * by_log_phi, log_precision.shape[-1])],
    )
