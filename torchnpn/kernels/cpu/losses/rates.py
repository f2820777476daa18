"""Closed forms of losses of counts, with zeros of another sort or without, and of rates that an exposure multiplies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln, xlogy

from torchnpn.kernels.cpu.losses.gradient import Array, ClosedForm, LossGradient, drawn_back, of_parameter, within
from torchnpn.kernels.cpu.losses.sigmoids import folded_sigmoid

_CANCELS = 1e-5  # below, two large terms of a gradient leave fewer digits than their limit has
_MOST_COUNT = 1e15  # for larger counts the closed form of the gradient has no digits left


class CountLimits(NamedTuple):
    """What `likelihoods.PoissonCounts` draws back to, and the relative variance that it adds to all rates."""

    log_mean: float
    log_overdispersion: float
    rate_variance: float
    added_variance: float


def counts(
    m: Array, s: Array, y: Array, share: Array, *log_overdispersion: Array, elbo: float, limits: CountLimits
) -> LossGradient | None:
    """With μ = exp(m + s/2) and the relative variance v of the rate; without overdispersion, of Poisson counts.

    Of the predictive term: ∂s v = v + 1. Of the ELBO, where v = α does not depend on s: ½ y more for ∂s.
    """
    found = _counts(m, s, y, log_overdispersion, elbo, limits, lambda log_prob: (log_prob, 1.0))
    if found is None:
        return None
    w = share[..., None]
    return LossGradient(
        (w * found.loss).sum(-1),
        (w * found.by_mean).astype(np.float32),
        (w * found.by_variance).astype(np.float32),
        [of_parameter(w * found.by_log_overdispersion, log_alpha.shape[-1]) for log_alpha in log_overdispersion],
    )


def zero_inflated_counts(
    m: Array, s: Array, y: Array, share: Array, *log_overdispersion: Array, elbo: float, limits: CountLimits
) -> LossGradient | None:
    """As `counts` of the first outputs, with P = E σ(o₂) for the others, a sum over 32 Gauss-Hermite nodes.

    With q the probability of the count, for y = 0: log(P + (1-P) q), of which ∂P = (1-q)/(P + (1-P) q) and
    ∂log q = (1-P) q/(P + (1-P) q); else log(1-P) + log q.
    """
    targets, w, zero = y.shape[-1], share[..., None], y == 0
    logits, spread = m[..., targets:].astype(np.float64), s[..., targets:].astype(np.float64)
    P, P_m, P_s = folded_sigmoid(logits, spread)
    by_P: list[Array] = []  # of the predictive term, then of the bound

    def observed(log_prob: Array) -> tuple[Array, Array]:
        at_zero = np.exp(np.where(zero, log_prob, 0.0))
        either = P + (1 - P) * at_zero
        by_P.append(np.where(zero, -(1 - at_zero) / either, 1 / (1 - P)))
        own = np.log1p(-P) + log_prob
        return np.where(zero, np.log(either), own), np.where(zero, (1 - P) * at_zero / either, 1.0)

    found = _counts(m[..., :targets], s[..., :targets], y, log_overdispersion, elbo, limits, observed)
    if found is None:
        return None
    by_zero = w * sum(part * weight for part, weight in zip(by_P, (1 - elbo, elbo), strict=False))
    return LossGradient(
        (w * found.loss).sum(-1),
        np.concatenate([w * found.by_mean, by_zero * P_m], -1).astype(np.float32),
        np.concatenate([w * found.by_variance, by_zero * P_s], -1).astype(np.float32),
        [of_parameter(w * found.by_log_overdispersion, log_alpha.shape[-1]) for log_alpha in log_overdispersion],
    )


class _Counts(NamedTuple):
    """Losses of counts (*replicas, batch, targets) and their derivatives."""

    loss: Array
    by_mean: Array
    by_variance: Array
    by_log_overdispersion: Array | float


def _counts(
    m: Array,
    s: Array,
    y: Array,
    log_overdispersion: tuple[Array, ...],
    elbo: float,
    limits: CountLimits,
    observed: Callable[[Array], tuple[Array, Array | float]],
) -> _Counts | None:
    """`observed` makes the log probability of what is seen from that of the count, and says its slope."""
    learnt = [log_alpha[..., None, :].astype(np.float64) for log_alpha in log_overdispersion]
    if not all(within(log_alpha, limits.log_overdispersion) for log_alpha in learnt) or y.max() > _MOST_COUNT:
        return None
    s, slope = drawn_back(s.astype(np.float64), limits.rate_variance)
    log_mean, slope_of_mean = drawn_back(m + 0.5 * s, limits.log_mean)
    mean, added = np.exp(log_mean), limits.added_variance
    noise = np.exp(s + learnt[0]) if learnt else np.zeros_like(mean)
    v = np.expm1(s, dtype=np.float64) + noise + added
    log_factorial = gammaln(y + 1.0)
    log_prob, by_log_mean, by_v = _log_prob_of_counts(y, log_factorial, mean, v)
    log_prob, weight = observed(log_prob)
    by_log_mean, by_v = by_log_mean * weight * slope_of_mean, by_v * weight
    loss, by_m, by_log_alpha = -log_prob, by_log_mean, by_v * noise
    by_s = 0.5 * by_log_mean + by_v * (v + 1 - added)
    if elbo:
        e, alpha = elbo, np.exp(learnt[0]) if learnt else 0.0
        at_mean, by_log_mean, by_alpha = (
            _log_prob_of_counts(y, log_factorial, mean, alpha + added)
            if learnt
            else (y * log_mean - mean - log_factorial, mean - y, 0.0)  # of Poisson counts
        )
        at_mean, weight = observed(at_mean)
        by_log_mean, by_alpha = by_log_mean * weight * slope_of_mean, by_alpha * weight
        loss, by_m = (1 - e) * loss + e * (0.5 * y * s - at_mean), (1 - e) * by_m + e * by_log_mean
        by_s = (1 - e) * by_s + 0.5 * e * (by_log_mean + y)
        by_log_alpha = (1 - e) * by_log_alpha + e * by_alpha * alpha
    return _Counts(loss, by_m, by_s * slope, by_log_alpha)


def _log_prob_of_counts(y: Array, log_factorial: Array, mean: Array, v: Any) -> tuple[Array, Array, Array]:
    """log p(y) of counts whose rate has this mean and relative variance v, and the gradient of -log p by log μ and v.

    v may be one for all rows: what is a function of it alone is then computed once.

    With n = 1/v, q = v μ:
    log p = log Γ(y + n) - log Γ(n) - log y! - (n + y) log(1 + q) + y log q,
    ∂log μ log p = (y - μ)/(1 + q),    ∂v log p = n (y - μ)/(1 + q) - n² (ψ(y + n) - ψ(n) - log(1 + q)),
    which tends to ½ ((y - μ)² - y) as v falls to zero and its two terms cancel.
    """
    n, q = 1 / v, v * mean
    log_1_q = np.log1p(q)
    log_prob = gammaln(y + n) - gammaln(n) - log_factorial - (n + y) * log_1_q + xlogy(y, q)
    by_log_mean = (mean - y) / (1 + q)
    exact = n * n * (digamma(y + n) - digamma(n) - log_1_q) + n * by_log_mean
    by_v = np.where(v * (1 + y + mean) > _CANCELS, exact, 0.5 * (y - (y - mean) ** 2))
    return log_prob, by_log_mean, by_v


def with_offset(closed: ClosedForm) -> ClosedForm:
    """The loss `closed` of o₁ plus the last column of targets, by which its gradients do not change."""

    def call(m: Array, s: Array, y: Array, share: Array, *learnt: Array) -> LossGradient | None:
        targets = y.shape[-1] - 1
        shifted = m.copy()
        shifted[..., :targets] += y[..., targets:]
        return closed(shifted, s, y[..., :targets], share, *learnt)

    return call
