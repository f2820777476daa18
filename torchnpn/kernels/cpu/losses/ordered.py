"""Closed forms of losses of classes that have an order."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from torchnpn.kernels.cpu.losses.gradient import Array, LossGradient, within

_MOST, _LEAST_WIDTH = 1e3, 1e-4  # of thresholds in standard deviations, and of what lies between two
_LOG_2PI = math.log(2 * math.pi)


def ordered_classes(
    m: Array, s: Array, y: Array, share: Array, first_and_log_gaps: Array, *, limit: float
) -> LossGradient | None:
    """With c = √(1 + s), a = (t_y-1 - m)/c, b = (t_y - m)/c and P = Φ(b) - Φ(a), of which a = -∞ or b = ∞ at the ends:

    ∂a = w φ(a)/P,  ∂b = -w φ(b)/P,  ∂m = -(∂a + ∂b)/c,  ∂s = -½ (a ∂a + b ∂b)/c²,  ∂t = ∂/c.
    """
    if len(first_and_log_gaps) > 1 and not within(first_and_log_gaps[1:], limit):
        return None
    gaps = np.exp(first_and_log_gaps[1:], dtype=np.float64)
    t = np.concatenate([first_and_log_gaps[:1], gaps]).cumsum()
    c = np.sqrt(1 + s[:, 0].astype(np.float64))
    ends = np.concatenate([[-np.inf], t, [np.inf]])
    a, b = ((ends[y + k] - m[:, 0]) / c for k in (0, 1))
    has_a, has_b = y > 0, y < len(t)
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
    by_t = np.bincount(y, by_b / c, len(t) + 1)[:-1] + np.bincount(y, by_a / c, len(t) + 1)[1:]
    after = by_t[::-1].cumsum()[::-1]  # of a gap: all thresholds from it on
    by_free = np.concatenate([after[:1], gaps * after[1:]]).astype(np.float32)
    by_m, by_s = -(by_a + by_b) / c, -0.5 * (a * by_a + b * by_b) / c**2
    loss = float(-(share * log_p).sum())
    return LossGradient(loss, by_m[:, None].astype(np.float32), by_s[:, None].astype(np.float32), [by_free])
