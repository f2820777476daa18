"""Losses of likelihoods and their gradients in closed form, in numpy: what training a small chain calls at each step.

Each function takes latent means and variances (batch, outputs), targets, the share w of each row in the loss, and what
the likelihood has learnt. It gives None where latents are beyond the limits of the likelihood, or numbers beyond
float32: the caller then asks autograd. Tests hold these formulas and those of `torchnpn.likelihoods` together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, expit, gammaln, xlogy

Array = NDArray[Any]
_LOG_2PI = math.log(2 * math.pi)
_FAR = 1e30  # logits beyond are taken as this, as by `likelihoods.ScaledSoftmax`
_CANCELS = 1e-5  # below, two large terms of a gradient leave fewer digits than their limit has
_MOST_COUNT = 1e15  # for larger counts the closed form of the gradient has no digits left
_MOST_DEGREES = 1e8  # of freedom: for more, differences of log Γ have no digits left
_QUADRATURE_MEAN, _QUADRATURE_VARIANCE = 15.0, 4.0  # within, 32 nodes are right to 1e-7
_FOLDED_SCALE = 3.0  # of `likelihoods.logit.folded`
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS /= _WEIGHTS.sum()


class LossGradient(NamedTuple):
    """The loss of a batch, with its gradients."""

    loss: float
    by_mean: Array  # (batch, outputs)
    by_variance: Array  # (batch, outputs)
    by_parameters: list[Array]  # in the order of the likelihood's `parameters()`


ClosedForm = Callable[..., LossGradient | None]  # of (m, s, y, share, *what the likelihood has learnt)


class CountLimits(NamedTuple):
    """What `likelihoods.PoissonCounts` draws back to, and the relative variance that it adds to all rates."""

    log_mean: float
    log_overdispersion: float
    rate_variance: float
    added_variance: float


def scaled_softmax(m: Array, s: Array, y: Array, share: Array) -> LossGradient:
    """With k = (1 + π s/8)^-½, for the logits z = k m:

    ∂z = w (p - 1{class = y}),    ∂m = k ∂z,    ∂s = -π/16 k³ m ∂z.
    """
    k = 1 / np.sqrt(1 + np.float32(math.pi / 8) * s)
    z = np.clip(k * m, -_FAR, _FAR)
    z -= z.max(1, keepdims=True)
    p = np.exp(z)
    total = p.sum(1, keepdims=True)
    rows = np.arange(len(y))
    loss = float(share @ (np.log(total[:, 0]) - z[rows, y]))
    p /= total
    p[rows, y] -= 1
    by_m = k * (share[:, None] * p)
    return LossGradient(loss, by_m, np.float32(-math.pi / 16) * k * k * m * by_m, [])


def gaussian(
    m: Array, s: Array, y: Array, share: Array, log_noise: Array, *, elbo: float, limit: float
) -> LossGradient | None:
    """With t = s + σ² and e the share of the ELBO:

    ∂m = -w (y - m) ((1 - e)/t + e/σ²),    ∂s = ½ w ((1 - e) (1 - (y - m)²/t)/t + e/σ²),
    ∂σ² = ½ w ((1 - e) (1 - (y - m)²/t)/t + e (1 - ((y - m)² + s)/σ²)/σ²).
    """
    if np.abs(log_noise).max() > limit:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return _if_finite(_gaussian(m, s, y, share, log_noise, elbo))


def _gaussian(m: Array, s: Array, y: Array, share: Array, log_noise: Array, elbo: float) -> LossGradient:
    noise, w = np.exp(log_noise), share[:, None]
    residual, t = y - m, s + noise
    error2 = residual * residual
    bound, predictive = elbo / noise, (1 - elbo) / t
    scaled, both = error2 / t, error2 + s
    loss = (1 - elbo) * (scaled + np.log(t)) + bound * both + elbo * log_noise + _LOG_2PI
    half = 0.5 * w
    by_t = half * predictive * (1 - scaled)
    by_log_noise = (noise * (by_t + half * bound * (1 - both / noise))).sum(0)
    by_noise = by_log_noise if by_log_noise.shape == log_noise.shape else by_log_noise.sum(keepdims=True)
    return LossGradient(
        float((half * loss).sum()), -w * residual * (predictive + bound), by_t + half * bound, [by_noise]
    )


def varying_gaussian(
    m: Array, s: Array, y: Array, share: Array, log_noise: Array, *, elbo: float, limit: float
) -> LossGradient | None:
    """With n = σ² E exp(o₂), p = E exp(-o₂)/σ², t = s₁ + n and r = y - m₁, e and w as above:

    ∂m₂ = ½ w ((1 - e) (1 - r²/t) n/t + e (1 - (r² + s₁) p)),
    ∂s₂ = ¼ w ((1 - e) (1 - r²/t) n/t + e (r² + s₁) p).
    """
    targets, half = y.shape[1], 0.5 * share[:, None]
    spread = s[:, targets:]
    with np.errstate(over="ignore", invalid="ignore"):
        level = log_noise + m[:, targets:]
        if not max(np.abs(log_noise).max(), (np.abs(level) + 0.5 * spread).max()) <= limit:
            return None
        m, s = m[:, :targets], s[:, :targets]
        even = _gaussian(m, s, y, 2 * half[:, 0], log_noise, elbo)
        noise, precision = np.exp(level + 0.5 * spread), np.exp(0.5 * spread - level)
        error2, t = (y - m) ** 2, s + noise
        scaled, misfit = error2 / t, (error2 + s) * precision
        loss = (1 - elbo) * (scaled + np.log(t)) + elbo * (misfit + level) + _LOG_2PI
        by_noise = (1 - elbo) * half * (1 - scaled) * noise / t
        by_level = by_noise + elbo * half * (1 - misfit)
        by_spread = 0.5 * (by_noise + elbo * half * misfit)
        return _if_finite(
            LossGradient(
                float((half * loss).sum()),
                np.hstack([even.by_mean, by_level]),
                np.hstack([even.by_variance, by_spread]),
                even.by_parameters,
            )
        )


def student_t(
    m: Array, s: Array, y: Array, share: Array, log_noise: Array, log_excess: Array, *, elbo: float, limit: float
) -> LossGradient | None:
    """With k = ν - 2, τ² = s + σ², ν' = 2 + k τ²/σ² and the ℓ of `_minus_log_t`, e the share of the bound:

    (1 - e) ℓ((y - m)², τ², ν') + e ℓ((y - m)² + s, σ², ν).
    """
    if not (_within(log_noise, limit) and _within(log_excess, limit)):
        return None
    noise, excess = np.exp(log_noise, dtype=np.float64), np.exp(log_excess, dtype=np.float64)
    if not _within(excess * (1 + s / noise), _MOST_DEGREES):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        even, by_noise, by_excess = _student_t(m, s, y, share, noise, excess, elbo)
        own = [_of_parameter(by_noise * noise, log_noise), _of_parameter(by_excess * excess, log_excess)]
        return _if_finite(even._replace(by_parameters=own))


def _student_t(
    m: Array, s: Array, y: Array, share: Array, noise: Array, excess: Array, elbo: float
) -> tuple[LossGradient, Array, Array]:
    """The loss with its gradients by m and s, and those by σ² and ν - 2 of each target."""
    w, residual = share[:, None], (y - m).astype(np.float64)
    t, error2 = s + noise, residual * residual
    ratio = t / noise
    near = _minus_log_t(error2, t, 2 + excess * ratio)
    bound = _minus_log_t(error2 + s, noise, 2 + excess)
    by_square = (1 - elbo) * near.by_square + elbo * bound.by_square
    by_s = (1 - elbo) * (near.by_scale + near.by_nu * excess / noise) + elbo * bound.by_square
    by_noise = (1 - elbo) * (near.by_scale - near.by_nu * excess * s / noise**2) + elbo * bound.by_scale
    by_excess = (1 - elbo) * near.by_nu * ratio + elbo * bound.by_nu
    loss = float((w * ((1 - elbo) * near.loss + elbo * bound.loss)).sum())
    by_m = (-2 * w * residual * by_square).astype(np.float32)
    return LossGradient(loss, by_m, (w * by_s).astype(np.float32), []), w * by_noise, w * by_excess


def varying_student_t(
    m: Array, s: Array, y: Array, share: Array, log_noise: Array, log_excess: Array, *, elbo: float, limit: float
) -> LossGradient | None:
    """o₁ and σ² as in `student_t`; for o₂ and ν, n = σ² E exp(o₂) and p = E exp(-o₂)/σ² take the places of σ²:

    (1 - e) ℓ((y - m₁)², s₁ + n, 2 + k (s₁ + n)/n) + e (ℓ((y - m₁)² + s₁, 1/p, ν) + ¼ s₂).
    """
    targets, w = y.shape[1], share[:, None]
    spread = s[:, targets:].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        level = log_noise + m[:, targets:].astype(np.float64)
        if not (
            _within(log_noise, limit) and _within(log_excess, limit) and _within(np.abs(level) + 0.5 * spread, limit)
        ):
            return None
        m, s = m[:, :targets], s[:, :targets]
        noise, excess = np.exp(log_noise, dtype=np.float64), np.exp(log_excess, dtype=np.float64)
        own = np.exp(level + 0.5 * spread)
        if not _within(excess * (1 + s / np.minimum(noise, own)), _MOST_DEGREES):
            return None
        even, by_noise, _ = _student_t(m, s, y, share, noise, excess, elbo)
        inverse, error2, t = np.exp(0.5 * spread - level), (y - m).astype(np.float64) ** 2, s + own
        near = _minus_log_t(error2, t, 2 + excess * (t / own))
        bound = _minus_log_t(error2 + s, 1 / inverse, 2 + excess)
        by_own = (1 - elbo) * w * (near.by_scale * own - near.by_nu * excess * s / own)
        by_inverse = elbo * w * bound.by_scale / inverse
        by_excess = w * ((1 - elbo) * near.by_nu * (t / own) + elbo * bound.by_nu)
        loss = (1 - elbo) * near.loss + elbo * (bound.loss + 0.25 * spread)
        by_spread = 0.5 * (by_own - by_inverse) + 0.25 * elbo * w
        return _if_finite(
            LossGradient(
                float((w * loss).sum()),
                np.hstack([even.by_mean, (by_own + by_inverse).astype(np.float32)]),
                np.hstack([even.by_variance, by_spread.astype(np.float32)]),
                [_of_parameter(by_noise * noise, log_noise), _of_parameter(by_excess * excess, log_excess)],
            )
        )


class _MinusLogT(NamedTuple):
    """-log t and its derivatives."""

    loss: Array
    by_square: Array
    by_scale: Array
    by_nu: Array


def _minus_log_t(square: Array, t: Array, nu: Array) -> _MinusLogT:
    """ℓ(d², t, ν) = ½(ν + 1) log(1 + d²/νt) + ½ log πνt + log Γ(ν/2) - log Γ((ν + 1)/2), with h = ½(ν + 1)/(νt + d²):

    ∂d² ℓ = h,  ∂t ℓ = ½/t - h d²/t,  ∂ν ℓ = ½ (log(1 + d²/νt) + 1/ν + ψ(ν/2) - ψ((ν + 1)/2)) - h d²/ν.
    """
    log, h = np.log1p(square / (nu * t)), 0.5 * (nu + 1) / (nu * t + square)
    constant = 0.5 * np.log(math.pi * nu * t) + gammaln(0.5 * nu) - gammaln(0.5 * nu + 0.5)
    by_nu = 0.5 * (log + 1 / nu + digamma(0.5 * nu) - digamma(0.5 * nu + 0.5)) - h * square / nu
    return _MinusLogT(0.5 * (nu + 1) * log + constant, h, 0.5 / t - h * square / t, by_nu)


def of_logarithm(closed: ClosedForm) -> ClosedForm:
    """The loss of y whose logarithm has the loss `closed`: log y is added, which does not depend on the latent."""

    def call(m: Array, s: Array, y: Array, share: Array, *learnt: Array) -> LossGradient | None:
        log_y = np.log(y)
        found = closed(m, s, log_y, share, *learnt)
        return found and found._replace(loss=found.loss + float(share @ log_y.sum(1)))

    return call


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
    if not all(_within(x, most) for x, most in limits):
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
    by_shape = [_of_parameter(by_log_shape, log_shape)]
    return LossGradient(float(loss.sum()), by_m.astype(np.float32), by_s.astype(np.float32), by_shape)


def counts(
    m: Array, s: Array, y: Array, share: Array, *log_overdispersion: Array, elbo: float, limits: CountLimits
) -> LossGradient | None:
    """With μ = exp(m + s/2) and the relative variance v of the rate; without overdispersion, of Poisson counts.

    Of the predictive term: ∂s v = v + 1. Of the ELBO, where v = α does not depend on s: ½ y more for ∂s.
    """
    found = _counts(m, s, y, log_overdispersion, elbo, limits, lambda log_prob: (log_prob, 1.0))
    if found is None:
        return None
    w = share[:, None]
    return LossGradient(
        float((w * found.loss).sum()),
        (w * found.by_mean).astype(np.float32),
        (w * found.by_variance).astype(np.float32),
        [_of_parameter(w * found.by_log_overdispersion, log_alpha) for log_alpha in log_overdispersion],
    )


def zero_inflated_counts(
    m: Array, s: Array, y: Array, share: Array, *log_overdispersion: Array, elbo: float, limits: CountLimits
) -> LossGradient | None:
    """As `counts` of the first outputs, with P = E σ(o₂) for the others, a sum over 32 Gauss-Hermite nodes.

    With q the probability of the count, for y = 0: log(P + (1-P) q), of which ∂P = (1-q)/(P + (1-P) q) and
    ∂log q = (1-P) q/(P + (1-P) q); else log(1-P) + log q.
    """
    targets, w, zero = y.shape[1], share[:, None], y == 0
    logits, spread = m[:, targets:].astype(np.float64), s[:, targets:].astype(np.float64)
    P, P_m, P_s = _folded_sigmoid(logits, spread)
    by_P: list[Array] = []  # of the predictive term, then of the bound

    def observed(log_prob: Array) -> tuple[Array, Array]:
        at_zero = np.exp(np.where(zero, log_prob, 0.0))
        either = P + (1 - P) * at_zero
        by_P.append(np.where(zero, -(1 - at_zero) / either, 1 / (1 - P)))
        own = np.log1p(-P) + log_prob
        return np.where(zero, np.log(either), own), np.where(zero, (1 - P) * at_zero / either, 1.0)

    found = _counts(m[:, :targets], s[:, :targets], y, log_overdispersion, elbo, limits, observed)
    if found is None:
        return None
    by_zero = w * sum(part * weight for part, weight in zip(by_P, (1 - elbo, elbo), strict=False))
    return LossGradient(
        float((w * found.loss).sum()),
        np.hstack([w * found.by_mean, by_zero * P_m]).astype(np.float32),
        np.hstack([w * found.by_variance, by_zero * P_s]).astype(np.float32),
        [_of_parameter(w * found.by_log_overdispersion, log_alpha) for log_alpha in log_overdispersion],
    )


class _Counts(NamedTuple):
    """Losses of counts (batch, targets) and their derivatives."""

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
    learnt = [log_alpha.astype(np.float64) for log_alpha in log_overdispersion]
    if not all(_within(log_alpha, limits.log_overdispersion) for log_alpha in learnt) or y.max() > _MOST_COUNT:
        return None
    s, slope = _drawn_back(s.astype(np.float64), limits.rate_variance)
    log_mean, slope_of_mean = _drawn_back(m + 0.5 * s, limits.log_mean)
    mean, added = np.exp(log_mean), limits.added_variance
    noise = np.exp(s + learnt[0]) if learnt else np.zeros_like(mean)
    v = np.expm1(s, dtype=np.float64) + noise + added
    log_prob, by_log_mean, by_v = _log_prob_of_counts(y, mean, v)
    log_prob, weight = observed(log_prob)
    by_log_mean, by_v = by_log_mean * weight * slope_of_mean, by_v * weight
    loss, by_m, by_log_alpha = -log_prob, by_log_mean, by_v * noise
    by_s = 0.5 * by_log_mean + by_v * (v + 1 - added)
    if elbo:
        e, alpha = elbo, np.exp(learnt[0]) if learnt else 0.0
        at_mean, by_log_mean, by_alpha = _log_prob_of_counts(y, mean, np.broadcast_to(alpha + added, mean.shape))
        at_mean, weight = observed(at_mean)
        by_log_mean, by_alpha = by_log_mean * weight * slope_of_mean, by_alpha * weight
        loss, by_m = (1 - e) * loss + e * (0.5 * y * s - at_mean), (1 - e) * by_m + e * by_log_mean
        by_s = (1 - e) * by_s + 0.5 * e * (by_log_mean + y)
        by_log_alpha = (1 - e) * by_log_alpha + e * by_alpha * alpha
    return _Counts(loss, by_m, by_s * slope, by_log_alpha)


def _log_prob_of_counts(y: Array, mean: Array, v: Array) -> tuple[Array, Array, Array]:
    """log p(y) of counts whose rate has this mean and relative variance v, and the gradient of -log p by log μ and v.

    With n = 1/v, q = v μ:
    log p = log Γ(y + n) - log Γ(n) - log y! - (n + y) log(1 + q) + y log q,
    ∂log μ log p = (y - μ)/(1 + q),    ∂v log p = n (y - μ)/(1 + q) - n² (ψ(y + n) - ψ(n) - log(1 + q)),
    which tends to ½ ((y - μ)² - y) as v falls to zero and its two terms cancel.
    """
    n, q = 1 / v, v * mean
    log_1_q = np.log1p(q)
    log_prob = gammaln(y + n) - gammaln(n) - gammaln(y + 1.0) - (n + y) * log_1_q + xlogy(y, q)
    by_log_mean = (mean - y) / (1 + q)
    exact = n * n * (digamma(y + n) - digamma(n) - log_1_q) + n * by_log_mean
    by_v = np.where(v * (1 + y + mean) > _CANCELS, exact, 0.5 * (y - (y - mean) ** 2))
    return log_prob, by_log_mean, by_v


def beta(m: Array, s: Array, y: Array, share: Array, log_precision: Array, *, limit: float) -> LossGradient | None:
    """In closed form but for P = E σ(o) and V = Var σ(o), which are sums over 32 Gauss-Hermite nodes:

    log p = log Γ(ν) - log Γ(c) - log Γ(d) + (c - 1) log y + (d - 1) log(1 - y),
    ∂c log p = log y + ψ(ν) - ψ(c),    ∂d log p = log(1 - y) + ψ(ν) - ψ(d),    ∂ρ ν = -φ (1 + φ)/(1 + ρ φ)².
    """
    log_precision = log_precision.astype(np.float64)
    if not (_within(m, _QUADRATURE_MEAN) and _within(s, _QUADRATURE_VARIANCE) and _within(log_precision, limit)):
        return None
    w, y, phi = share[:, None], y.astype(np.float64), np.exp(log_precision)
    P, V, (P_m, P_s), (V_m, V_s) = _sigmoid_moments(m, s)
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
        float(-(w * log_prob).sum()),
        (-w * (by_P * P_m + by_V * V_m)).astype(np.float32),
        (-w * (by_P * P_s + by_V * V_s)).astype(np.float32),
        [_of_parameter(-w * by_log_phi, log_precision)],
    )


def _sigmoid_moments(m: Array, s: Array) -> tuple[Array, Array, tuple[Array, Array], tuple[Array, Array]]:
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


def _folded_sigmoid(m: Array, s: Array) -> tuple[Array, Array, Array]:
    """P = E σ(x) of the logit N(m, s) as `likelihoods.logit.folded` has it, and its derivatives by m and s."""
    excess = np.maximum(s - _QUADRATURE_VARIANCE, 0.0)
    total = _QUADRATURE_VARIANCE + _FOLDED_SCALE + excess
    shrink = np.sqrt((_QUADRATURE_VARIANCE + _FOLDED_SCALE) / total)
    inner, slope = _drawn_back(m * shrink, _QUADRATURE_MEAN)
    P, _, (P_m, P_s), _ = _sigmoid_moments(inner, s - excess)
    by_inner = P_m * slope * shrink
    return P, by_inner, np.where(excess > 0, -0.5 * by_inner * m / total, P_s)


def _if_finite(result: LossGradient) -> LossGradient | None:
    """None where a closed form has left float32; the gradient of the noise sums up all that may leave it."""
    finite = math.isfinite(result.loss) and all(np.isfinite(part).all() for part in result.by_parameters)
    return result if finite else None


def _within(x: Array, limit: float) -> bool:
    """Whether the likelihood takes all of x as it is."""
    return bool(np.abs(x).max() <= limit)


def _drawn_back(x: Array, limit: float) -> tuple[Array, Array | float]:
    """`likelihoods.limits.soft_clamp`, and its slope: 1 up to the limit L, 1/(1 + 10 z)² at z = |x|/L - 1 beyond."""
    if _within(x, limit):
        return x, 1.0
    excess = np.maximum(np.abs(x) / limit - 1, 0.0)
    return np.where(excess > 0, np.sign(x) * limit * (1 + excess / (1 + 10 * excess)), x), (1 + 10 * excess) ** -2


def _of_parameter(by_element: Array, parameter: Array) -> Array:
    """The gradient (batch, targets) of a learnt number, summed to its shape (targets,) or (1,)."""
    by_target = by_element.sum(0)
    total = by_target if by_target.shape == parameter.shape else by_target.sum(keepdims=True)
    gradient: Array = total.astype(np.float32)
    return gradient
