"""Closed forms of losses of durations, and of ranges in which the logarithm of an amount lies."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from torchnpn.kernels.cpu.losses.gradient import Array, ClosedForm, LossGradient, if_finite, of_parameter, within

GUMBEL = 6 / math.pi**2  # over the variance of a Gumbel variable of scale 1
_LEAST_WIDTH, _MOST = 1e-4, 1e3  # of a range, and of its ends, in standard deviations
_LOG_2PI = math.log(2 * math.pi)


class WeibullLimits(NamedTuple):
    """What `likelihoods.WeibullDurations` draws back to."""

    log_mean: float
    log_variance: float
    log_shape: tuple[float, float]  # the middle of its range, and how far that reaches


def censored(closed: ClosedForm, interval: ClosedForm) -> ClosedForm:
    """The loss `closed` of targets (lower, upper) that are known, lower = upper, and `interval` of others."""

    def call(m: Array, s: Array, y: Array, share: Array, *learnt: Array) -> LossGradient | None:
        lower, upper = y[..., :1], y[..., 1:]
        exact = lower == upper
        one, other = exact[..., 0], ~exact[..., 0]
        known = closed(m, s, np.where(exact, lower, np.float32(1)), share * one, *learnt)
        with np.errstate(divide="ignore"):
            ends = np.log(np.where(exact, 1.0, lower)), np.log(np.where(exact, np.inf, upper))
        ranges = interval(m, s, np.concatenate(ends, -1), share * other, *learnt)
        if known is None or ranges is None:
            return None
        rows, by_m, by_s = (a + b for a, b in zip(known[:3], ranges[:3], strict=True))
        of_learnt = [a + b for a, b in zip(known.by_parameters, ranges.by_parameters, strict=True)]
        return LossGradient(rows, by_m, by_s, of_learnt)

    return call


def normal_interval(
    m: Array, s: Array, ends: Array, share: Array, log_noise: Array, *, log_mean_limit: float, limit: float
) -> LossGradient | None:
    """Of log y with Gaussian noise: with t = s + σ², a and b = (ends - m)/√t, P = Φ(b) - Φ(a):

    ∂a = w φ(a)/P,  ∂b = -w φ(b)/P,  ∂m = -(∂a + ∂b)/√t,  ∂t = -½ (a ∂a + b ∂b)/t.
    """
    if not within(log_noise, limit):
        return None
    log_noise = log_noise[..., None, :].astype(np.float64)
    noise = np.exp(log_noise)
    found = _of_normal(m, s + noise, ends, share)
    if found is None or not (within(m, log_mean_limit) and within(s + noise, limit)):
        return None
    rows, by_m, by_t = found
    by_noise = of_parameter(by_t * noise, log_noise.shape[-1])
    return if_finite(LossGradient(rows, by_m.astype(np.float32), by_t.astype(np.float32), [by_noise]))


def varying_normal_interval(
    m: Array, s: Array, ends: Array, share: Array, log_noise: Array, *, log_mean_limit: float, limit: float
) -> LossGradient | None:
    """o₁ and σ² as in `normal_interval`; for o₂, n = σ² E exp(o₂) takes the place of σ²: ∂m₂ = n ∂t, ∂s₂ = ½ n ∂t."""
    even = normal_interval(m[..., :1], s[..., :1], ends, share, log_noise, log_mean_limit=log_mean_limit, limit=limit)
    level = log_noise[..., None, :] + m[..., 1:].astype(np.float64)
    if even is None or not within(np.abs(level) + 0.5 * s[..., 1:], limit):
        return None
    noise = np.exp(level + 0.5 * s[..., 1:])
    found = _of_normal(m[..., :1], s[..., :1] + noise, ends, share)
    if found is None or not within(s[..., :1] + noise, limit):
        return None
    by_level = (noise * found[2]).astype(np.float32)
    return if_finite(
        LossGradient(
            found[0],
            np.concatenate([even.by_mean, by_level], -1),
            np.concatenate([even.by_variance, 0.5 * by_level], -1),
            even.by_parameters,
        )
    )


def _of_normal(m: Array, t: Array, ends: Array, share: Array) -> tuple[Array, Array, Array] | None:
    """Share · loss of rows (…, batch), and its derivatives by the mean and the variance of log y (…, batch, 1)."""
    root, w = np.sqrt(t), share[..., None]
    a, b = (ends[..., :1] - m) / root, (ends[..., 1:] - m) / root
    has_a, has_b = np.isfinite(a), np.isfinite(b)
    a, b = np.where(has_a, a, b - 1), np.where(has_b, b, a + 1)
    if not (within(a, _MOST) and within(b, _MOST)) or (b - a).min() < _LEAST_WIDTH:
        return None
    above = a + b > 0
    near, far = np.where(above, -a, b), np.where(above, -b, a)
    one_sided = np.where(has_a, -a, b)
    log_near = log_ndtr(near)
    inner = log_near + np.log(-np.expm1(log_ndtr(far) - log_near))
    log_p = np.where(has_a & has_b, inner, log_ndtr(one_sided))
    by_a = np.where(has_a, w * np.exp(-0.5 * (a * a + _LOG_2PI) - log_p), 0.0)
    by_b = np.where(has_b, -w * np.exp(-0.5 * (b * b + _LOG_2PI) - log_p), 0.0)
    return -(w * log_p).sum(-1), -(by_a + by_b) / root, -0.5 * (a * by_a + b * by_b) / t


class _Weibull(NamedTuple):
    """σ and the scale τ and location of log y, with ∂τ/∂s and ∂τ/∂σ."""

    sigma: Array
    tau: Array
    location: Array
    by_s: Array
    by_sigma: Array

    def gradient(self, rows: Array, by_z: Array, by_tau: Array, by_sigma: Array) -> LossGradient:
        """That by what z = (log y - location)/τ, τ beside it and σ beside both are made of; `by_z` is weighted."""
        by_location = -by_z / self.tau
        by_tau = by_tau + np.euler_gamma * by_location
        of_sigma = by_sigma + by_tau * self.by_sigma - np.euler_gamma * by_location
        return LossGradient(
            rows,
            by_location.astype(np.float32),
            (by_tau * self.by_s).astype(np.float32),
            [of_parameter(-self.sigma * of_sigma, self.sigma.shape[-1])],
        )


def _weibull(m: Array, s: Array, log_shape: Array, limits: WeibullLimits) -> _Weibull | None:
    middle, reach = limits.log_shape
    if not (within(log_shape - middle, reach) and within(s, limits.log_variance)):
        return None
    sigma = np.exp(-log_shape[..., None, :].astype(np.float64))
    tau = np.sqrt(sigma**2 + GUMBEL * s)
    return _Weibull(sigma, tau, m + np.euler_gamma * (tau - sigma), 0.5 * GUMBEL / tau, sigma / tau)


def weibull(
    m: Array, s: Array, y: Array, share: Array, log_shape: Array, *, elbo: float, limits: WeibullLimits
) -> LossGradient | None:
    """With z = (log y - location)/τ, u = (log y - m)/σ and r = exp(u + s/2σ²):

    (1 - e) (log τ - z + e^z) + e (log σ - u + r) + log y.
    """
    parts = _weibull(m, s, log_shape, limits)
    if parts is None:
        return None
    sigma, w, log_y = parts.sigma, share[..., None], np.log(y.astype(np.float64))
    z, u = (log_y - parts.location) / parts.tau, (log_y - m) / sigma
    log_r = u + 0.5 * s / sigma**2
    if max(z.max(), log_r.max()) > limits.log_mean:
        return None
    Z, r, e = np.exp(z), np.exp(log_r), elbo
    loss = (1 - e) * (np.log(parts.tau) - z + Z) + e * (np.log(sigma) - u + r) + log_y
    by_z = (1 - e) * w * (Z - 1)
    by_tau = (1 - e) * w / parts.tau - by_z * z / parts.tau
    by_sigma = e * w * (1 + u - r * (u + s / sigma**2)) / sigma
    found = parts.gradient((w * loss).sum(-1), by_z, by_tau, by_sigma)
    by_m, by_s = e * w * (1 - r) / sigma, 0.5 * e * w * r / sigma**2
    return if_finite(
        found._replace(
            by_mean=found.by_mean + by_m.astype(np.float32),
            by_variance=found.by_variance + by_s.astype(np.float32),
        )
    )


def weibull_interval(
    m: Array, s: Array, ends: Array, share: Array, log_shape: Array, *, limits: WeibullLimits
) -> LossGradient | None:
    """With A and B = exp z of both ends and h = 1/(e^(B - A) - 1):  A - log(1 - e^(A - B)),  ∂A = 1 + h,  ∂B = -h."""
    parts = _weibull(m, s, log_shape, limits)
    if parts is None:
        return None
    w = share[..., None]
    z = [(end - parts.location) / parts.tau for end in (ends[..., :1], ends[..., 1:])]
    has_a, has_b = (np.isfinite(end) for end in z)
    low, high = np.where(has_a, z[0], 0.0), np.where(has_b, z[1], 0.0)
    if max(low.max(), high.max()) > limits.log_mean:
        return None
    A, B = np.where(has_a, np.exp(low), 0.0), np.exp(high)
    width = np.where(has_b, B - A, 1.0)
    if width.min() <= 0:
        return None
    h = np.where(has_b, 1 / np.expm1(np.minimum(width, 700.0)), 0.0)
    by_a, by_b = w * A * (1 + h), -w * B * h
    loss = A - np.where(has_b, np.log(-np.expm1(-width)), 0.0)
    none = np.zeros_like(by_a)
    return if_finite(parts.gradient((w * loss).sum(-1), by_a + by_b, -(low * by_a + high * by_b) / parts.tau, none))
