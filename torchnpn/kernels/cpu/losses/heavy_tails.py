"""Closed forms of losses of real numbers with Student-t noise."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from torchnpn.kernels.cpu.losses.gradient import Array, LossGradient, if_finite, of_parameter, within

_MOST_DEGREES = 1e8  # of freedom: for more, differences of log Γ have no digits left


def student_t(
    m: Array, s: Array, y: Array, share: Array, log_noise: Array, log_excess: Array, *, elbo: float, limit: float
) -> LossGradient | None:
    """With k = ν - 2, τ² = s + σ², ν' = 2 + k τ²/σ² and the ℓ of `_minus_log_t`, e the share of the bound:

    (1 - e) ℓ((y - m)², τ², ν') + e ℓ((y - m)² + s, σ², ν).
    """
    if not (within(log_noise, limit) and within(log_excess, limit)):
        return None
    noise, excess = (np.exp(number[..., None, :], dtype=np.float64) for number in (log_noise, log_excess))
    if not within(excess * (1 + s / noise), _MOST_DEGREES):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        even, by_noise, by_excess = _student_t(m, s, y, share, noise, excess, elbo)
        own = [
            of_parameter(by_noise * noise, log_noise.shape[-1]),
            of_parameter(by_excess * excess, log_excess.shape[-1]),
        ]
        return if_finite(even._replace(by_parameters=own))


def _student_t(
    m: Array, s: Array, y: Array, share: Array, noise: Array, excess: Array, elbo: float
) -> tuple[LossGradient, Array, Array]:
    """The loss with its gradients by m and s, and those by σ² and ν - 2 of each target."""
    w, residual = share[..., None], (y - m).astype(np.float64)
    t, error2 = s + noise, residual * residual
    ratio = t / noise
    near = _minus_log_t(error2, t, 2 + excess * ratio)
    bound = _minus_log_t(error2 + s, noise, 2 + excess)
    by_square = (1 - elbo) * near.by_square + elbo * bound.by_square
    by_s = (1 - elbo) * (near.by_scale + near.by_nu * excess / noise) + elbo * bound.by_square
    by_noise = (1 - elbo) * (near.by_scale - near.by_nu * excess * s / noise**2) + elbo * bound.by_scale
    by_excess = (1 - elbo) * near.by_nu * ratio + elbo * bound.by_nu
    rows = (w * ((1 - elbo) * near.loss + elbo * bound.loss)).sum(-1)
    by_m = (-2 * w * residual * by_square).astype(np.float32)
    return LossGradient(rows, by_m, (w * by_s).astype(np.float32), []), w * by_noise, w * by_excess


def varying_student_t(
    m: Array, s: Array, y: Array, share: Array, log_noise: Array, log_excess: Array, *, elbo: float, limit: float
) -> LossGradient | None:
    """o₁ and σ² as in `student_t`; for o₂ and ν, n = σ² E exp(o₂) and p = E exp(-o₂)/σ² take the places of σ²:

    (1 - e) ℓ((y - m₁)², s₁ + n, 2 + k (s₁ + n)/n) + e (ℓ((y - m₁)² + s₁, 1/p, ν) + ¼ s₂).
    """
    targets, w = y.shape[-1], share[..., None]
    spread = s[..., targets:].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        level = log_noise[..., None, :] + m[..., targets:].astype(np.float64)
        if not (within(log_noise, limit) and within(log_excess, limit) and within(np.abs(level) + 0.5 * spread, limit)):
            return None
        m, s = m[..., :targets], s[..., :targets]
        noise, excess = (np.exp(number[..., None, :], dtype=np.float64) for number in (log_noise, log_excess))
        own = np.exp(level + 0.5 * spread)
        if not within(excess * (1 + s / np.minimum(noise, own)), _MOST_DEGREES):
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
        return if_finite(
            LossGradient(
                (w * loss).sum(-1),
                np.concatenate([even.by_mean, (by_own + by_inverse).astype(np.float32)], -1),
                np.concatenate([even.by_variance, by_spread.astype(np.float32)], -1),
                [of_parameter(by, log_noise.shape[-1]) for by in (by_noise * noise, by_excess * excess)],
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
