"""Closed forms of losses of positive amounts."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln

from torchnpn.kernels.cpu.losses.gradient import Array, LossGradient, of_parameter, within


def gamma(
    m: Array, s: Array, y: Array, share: Array, log_shape: Array, *, elbo: float, log_mean_limit: float, limit: float
) -> LossGradient | None:
    """With ν = m + s/2, relative variance v, c = 1/v, r = y exp(-m + s/2):

    log p = c (log c - ν) + (c - 1) log y - c y e^-ν - log Γ(c),
    ∂ν log p = c (y e^-ν - 1),    ∂c log p = log c + 1 - ν + log y - y e^-ν - ψ(c),    ∂s v = v + 1;
    and of the ELBO: ∂m = w k (1 - r),  ∂s = ½ w k r,  ∂log k = -w k (log k + 1 - m + log y - r - ψ(k)).
    """
    log_shape = log_shape.astype(np.float64)
    log_mean = m + 0.5 * s.astype(np.float64)
    w, log_y = share[:, None], np.log(y)
    log_relative = log_y - m + 0.5 * s.astype(np.float64)
    limits = ((log_mean, log_mean_limit), (s, limit), (log_shape, limit), (log_relative, log_mean_limit))
    if not all(within(x, most) for x, most in limits):
        return None
    noise = np.exp(s - log_shape)
    v = np.expm1(s, dtype=np.float64) + noise
    c, relative = 1 / v, y * np.exp(-log_mean)
    log_c = np.log(c)
    log_prob = c * (log_c - log_mean - relative) + (c - 1) * log_y - gammaln(c)
    by_v = w * c * c * (log_c + 1 - log_mean + log_y - relative - digamma(c))
    by_m = w * c * (1 - relative)
    by_s, by_log_shape, loss = 0.5 * by_m + by_v * (v + 1), -by_v * noise, -w * log_prob
    if elbo:
        e, k, r = elbo, np.exp(log_shape), np.exp(log_relative)
        bound = k * (m - log_shape + r) - (k - 1) * log_y + gammaln(k)
        by_m, by_s = (1 - e) * by_m + e * w * k * (1 - r), (1 - e) * by_s + 0.5 * e * w * k * r
        by_k = -w * k * (log_shape + 1 - m + log_y - r - digamma(k))
        by_log_shape, loss = (1 - e) * by_log_shape + e * by_k, (1 - e) * loss + e * w * bound
    by_shape = [of_parameter(by_log_shape, log_shape)]
    return LossGradient(float(loss.sum()), by_m.astype(np.float32), by_s.astype(np.float32), by_shape)
