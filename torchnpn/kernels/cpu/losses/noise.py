"""Closed forms of losses of real numbers with Gaussian noise, or of numbers whose logarithm is such."""

from __future__ import annotations

import math

import numpy as np

from torchnpn.kernels.cpu.losses.gradient import Array, ClosedForm, LossGradient, if_finite, of_parameter

_LOG_2PI = math.log(2 * math.pi)


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
        residual, half = y - m, 0.5 * share[..., None]
        error2, level = residual * residual, log_noise[..., None, :]
        noise, gradients = _even_noise(residual, error2, s, half, level, elbo)
        t = s + noise
        loss = (1 - elbo) * (error2 / t + np.log(t)) + elbo * ((error2 + s) / noise + level) + _LOG_2PI
        return if_finite(LossGradient((half * loss).sum(-1), *gradients))


def _even_noise(
    residual: Array, error2: Array, s: Array, half: Array, level: Array, elbo: float
) -> tuple[Array, tuple[Array, Array, list[Array]]]:
    """σ², and the gradients of a noise that is the same in all rows; `half` is ½ w."""
    noise = np.exp(level)
    t = s + noise
    bound, predictive = elbo / noise, (1 - elbo) / t
    by_t = half * predictive
    by_t *= 1 - error2 / t
    of_bound = half * bound
    by_noise = of_parameter(noise * by_t + of_bound * (noise - error2 - s), level.shape[-1])
    return noise, (-2 * half * residual * (predictive + bound), by_t + of_bound, [by_noise])


def varying_gaussian(
    m: Array, s: Array, y: Array, share: Array, log_noise: Array, *, elbo: float, limit: float
) -> LossGradient | None:
    """With n = σ² E exp(o₂), p = E exp(-o₂)/σ², t = s₁ + n and r = y - m₁, e and w as above:

    ∂m₂ = ½ w ((1 - e) (1 - r²/t) n/t + e (1 - (r² + s₁) p)),
    ∂s₂ = ¼ w ((1 - e) (1 - r²/t) n/t + e (r² + s₁) p).
    """
    targets, half = y.shape[-1], 0.5 * share[..., None]
    spread = s[..., targets:]
    with np.errstate(over="ignore", invalid="ignore"):
        level = log_noise[..., None, :] + m[..., targets:]
        if not max(np.abs(log_noise).max(), (np.abs(level) + 0.5 * spread).max()) <= limit:
            return None
        m, s = m[..., :targets], s[..., :targets]
        residual = y - m
        error2 = residual * residual
        _, (by_mean, by_variance, by_parameters) = _even_noise(residual, error2, s, half, log_noise[..., None, :], elbo)
        noise, precision = np.exp(level + 0.5 * spread), np.exp(0.5 * spread - level)
        t = s + noise
        scaled, misfit = error2 / t, (error2 + s) * precision
        loss = (1 - elbo) * (scaled + np.log(t)) + elbo * (misfit + level) + _LOG_2PI
        by_noise = (1 - elbo) * half * (1 - scaled) * noise / t
        by_level = by_noise + elbo * half * (1 - misfit)
        by_spread = 0.5 * (by_noise + elbo * half * misfit)
        return if_finite(
            LossGradient(
                (half * loss).sum(-1),
                np.concatenate([by_mean, by_level], -1),
                np.concatenate([by_variance, by_spread], -1),
                by_parameters,
            )
        )


def of_logarithm(closed: ClosedForm) -> ClosedForm:
    """The loss of y whose logarithm has the loss `closed`: log y is added, which does not depend on the latent."""

    def call(m: Array, s: Array, y: Array, share: Array, *learnt: Array) -> LossGradient | None:
        log_y = np.log(y)
        found = closed(m, s, log_y, share, *learnt)
        return found and found._replace(rows=found.rows + share * log_y.sum(-1))

    return call
