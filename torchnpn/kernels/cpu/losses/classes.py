"""Closed forms of losses of classes, without an order and with one."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from torchnpn.kernels.cpu.losses.gradient import Array, LossGradient, within

_FAR = 1e30  # logits beyond are taken as this, as by `likelihoods.ScaledSoftmax`
_MOST, _LEAST_WIDTH = 1e3, 1e-4  # of thresholds in standard deviations, and of what lies between two
_LOG_2PI = math.log(2 * math.pi)


def scaled_softmax(m: Array, s: Array, y: Array, share: Array) -> LossGradient:
    """With k = (1 + π s/8)^-½, for the logits z = k m:

    ∂z = w (p - 1{class = y}),    ∂m = k ∂z,    ∂s = -π/16 k³ m ∂z.
    """
    k = 1 / np.sqrt(1 + np.float32(math.pi / 8) * s)
    z = np.clip(k * m, -_FAR, _FAR)
    z -= z.max(-1, keepdims=True)
    p = np.exp(z)
    total = p.sum(-1, keepdims=True)
    each = np.arange(y.size), y.reshape(-1)  # the class of each row, in arrays (rows of all replicas, classes)
    losses = np.log(total[..., 0]) - z.reshape(-1, z.shape[-1])[each].reshape(y.shape)
    p /= total
    p.reshape(-1, p.shape[-1])[each] -= 1
    by_m = k * (share[..., None] * p)
    return LossGradient(share * losses, by_m, np.float32(-math.pi / 16) * k * k * m * by_m, [])


def ordered_classes(
    m: Array, s: Array, y: Array, share: Array, first_and_log_gaps: Array, *, limit: float
) -> LossGradient | None:
    """With c = √(1 + s), a = (t_y-1 - m)/c, b = (t_y - m)/c and P = Φ(b) - Φ(a), of which a = -∞ or b = ∞ at the ends:

    ∂a = w φ(a)/P,  ∂b = -w φ(b)/P,  ∂m = -(∂a + ∂b)/c,  ∂s = -½ (a ∂a + b ∂b)/c²,  ∂t = ∂/c.
    """
    gaps, first = first_and_log_gaps[..., 1:].astype(np.float64), first_and_log_gaps[..., :1]
    if gaps.size and not within(gaps, limit):
        return None
    gaps = np.exp(gaps)
    t = np.concatenate([first, gaps], -1).cumsum(-1)  # (*replicas, K - 1)
    m, c = m[..., 0], np.sqrt(1 + s[..., 0].astype(np.float64))  # (*replicas, batch)
    y = np.broadcast_to(y, m.shape)
    end = np.full_like(first, np.inf, np.float64)
    ends = np.concatenate([-end, t, end], -1)
    a, b = ((np.take_along_axis(ends, y + k, -1) - m) / c for k in (0, 1))
    has_a, has_b = y > 0, y < t.shape[-1]
    a, b = np.where(has_a, a, b - 1), np.where(has_b, b, a + 1)
    if not (within(a, _MOST) and within(b, _MOST)) or (b - a).min() < _LEAST_WIDTH:
        return None
    above = a + b > 0
    near, far = np.where(above, -a, b), np.where(above, -b, a)
    log_near = log_ndtr(np.where(has_a & has_b, near, np.where(has_a, -a, b)))
    inner = log_near + np.log(-np.expm1(log_ndtr(np.where(has_a & has_b, far, near - 1)) - log_ndtr(near)))
    log_p = np.where(has_a & has_b, inner, log_near)
    by_a = np.where(has_a, share * np.exp(-0.5 * (a * a + _LOG_2PI) - log_p), 0.0)
    by_b = np.where(has_b, -share * np.exp(-0.5 * (b * b + _LOG_2PI) - log_p), 0.0)
    below, above_it = (y[..., None] == np.arange(t.shape[-1]) + k for k in (1, 0))  # whose a, whose b is t_k
    by_t = ((by_a / c)[..., None] * below + (by_b / c)[..., None] * above_it).sum(-2)
    after = by_t[..., ::-1].cumsum(-1)[..., ::-1]  # of a gap: all thresholds from it on
    by_free = np.concatenate([after[..., :1], gaps * after[..., 1:]], -1).astype(np.float32)
    by_m, by_s = -(by_a + by_b) / c, -0.5 * (a * by_a + b * by_b) / c**2
    by_mean, by_variance = (by[..., None].astype(np.float32) for by in (by_m, by_s))
    return LossGradient(-(share * log_p), by_mean, by_variance, [by_free])
