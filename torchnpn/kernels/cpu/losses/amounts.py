"""Closed forms of losses of positive amounts."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln

from torchnpn.kernels.cpu.losses.gradient import Array, ClosedForm, LossGradient, of_parameter, within
from torchnpn.kernels.cpu.losses.sigmoids import folded_sigmoid


def gamma(
    m: Array, s: Array, y: Array, share: Array, log_shape: Array, *, elbo: float, log_mean_limit: float, limit: float
) -> LossGradient | None:
    """With ν = m + s/2, relative variance v, c = 1/v, r = y exp(-m + s/2):

    log p = c (log c - ν) + (c - 1) log y - c y e^-ν - log Γ(c),
    ∂ν log p = c (y e^-ν - 1),    ∂c log p = log c + 1 - ν + log y - y e^-ν - ψ(c),    ∂s v = v + 1;
    and of the ELBO: ∂m = w k (1 - r),  ∂s = ½ w k r,  ∂log k = -w k (log k + 1 - m + log y - r - ψ(k)).
    """
    log_shape = log_shape[..., None, :].astype(np.float64)
    log_mean = m + 0.5 * s.astype(np.float64)
    w, log_y = share[..., None], np.log(y)
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
    by_shape = [of_parameter(by_log_shape, log_shape.shape[-1])]
    return LossGradient(loss.sum(-1), by_m.astype(np.float32), by_s.astype(np.float32), by_shape)


def hurdle(closed: ClosedForm) -> ClosedForm:
    """0 with the probability P = E σ(o₂), else amounts whose loss of o₁ is `closed`:

    -log P for y = 0, else -log(1 - P) and that loss; ∂P = -1/P and 1/(1 - P).
    """

    def call(m: Array, s: Array, y: Array, share: Array, *learnt: Array) -> LossGradient | None:
        targets, w, zero = y.shape[-1], share[..., None], y == 0
        P, P_m, P_s = folded_sigmoid(m[..., targets:].astype(np.float64), s[..., targets:].astype(np.float64))
        rows = -(w * np.where(zero, np.log(P), np.log1p(-P))).sum(-1)
        by_P = w * np.where(zero, -1 / P, 1 / (1 - P))
        none = np.zeros_like(by_P)
        by_m, by_s = (np.concatenate([none, by_P * slope], -1).astype(np.float32) for slope in (P_m, P_s))
        by_learnt = [np.zeros_like(number) for number in learnt]
        amounts = np.where(zero, np.float32(1), y)
        for k in range(targets):  # rows with an amount differ from one target to the next
            column = np.s_[..., k : k + 1]
            own = [column if number.shape[-1] > 1 else np.s_[...] for number in learnt]
            numbers = (number[part] for number, part in zip(learnt, own, strict=True))
            found = closed(m[column], s[column], amounts[column], share * ~zero[..., k], *numbers)
            if found is None:
                return None
            rows += found.rows
            by_m[column], by_s[column] = found.by_mean, found.by_variance
            for total, part, gradient in zip(by_learnt, own, found.by_parameters, strict=True):
                total[part] += gradient
        return LossGradient(rows, by_m, by_s, by_learnt)

    return call
