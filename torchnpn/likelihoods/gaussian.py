"""Real targets: a Gaussian latent function plus Gaussian noise."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from torchnpn import kernels
from torchnpn.families import Gaussian
from torchnpn.finite import clamped
from torchnpn.likelihoods.base import (
    Array,
    Likelihood,
    LossGradient,
    VarianceParts,
    latent,
    learnt,
    of_rows,
    share_of_elbo,
)
from torchnpn.likelihoods.guards import is_ordinary, widened
from torchnpn.likelihoods.limits import LOG_VARIANCE, limited
from torchnpn.likelihoods.units import standardised
from torchnpn.moments import Moments

_LOG_2PI = math.log(2 * math.pi)


class GaussianNoise(Likelihood):
    """y = o + noise with a learnt noise variance σ², so y ~ N(o_m, o_s + σ²).

    The loss is a mixture of the predictive -log N(y; o_m, o_s + σ²), which judges the prediction as a whole, and of
    -E log N(y; o, σ²) = -log N(y; o_m, σ²) + o_s/2σ², the data term of the ELBO, which judges it function by function.

    Args:
        targets: Number of targets, each with its own noise; 1 for one noise shared by all.
        elbo: Share of the ELBO in the loss: 0 for the predictive term alone, 1 for the ELBO alone.
        initial_log_noise: log σ² at the start; the default suits standardised targets.
        replicas: Leading dimensions of the network's replicas.
    """

    name, words = "gaussian", "a real number"
    separable = True
    units = staticmethod(standardised)
    gains_from_steps = True
    settings: ClassVar = {"elbo": 0.1}
    arguments: ClassVar = {"targets": int, "replicas": tuple, "elbo": float}

    def __init__(
        self, targets: int = 1, elbo: float = 0.5, initial_log_noise: float = -2.0, *, replicas: tuple[int, ...] = ()
    ) -> None:
        super().__init__()
        self.elbo = share_of_elbo(elbo)
        self.log_noise = learnt(initial_log_noise, targets, replicas)

    @property
    def noise(self) -> Tensor:  # (*replicas, 1, targets)
        """σ²."""
        return torch.exp(limited(self.log_noise, LOG_VARIANCE)).unsqueeze(-2)

    @classmethod
    def marginal(cls, x: Moments) -> Gaussian:
        return Gaussian.from_moments(x)

    def least_kl(self) -> float | Array:
        """Half the share of the targets' variance that is noise, as far as is known now."""
        noise = np.exp(self.log_noise.detach().cpu().numpy()).mean(-1)  # (*replicas,)
        share = 0.5 * np.minimum(1.0, noise)
        return share if share.ndim else float(share)

    def predict(self, o: Moments) -> Gaussian:
        m, s = latent(o)
        return Gaussian.unchecked(*torch.broadcast_tensors(m, clamped(s + self.noise)))

    def variance_parts(self, o: Moments) -> VarianceParts:
        return VarianceParts.of(latent(o)[1], self.noise)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        m, s = latent(o)
        if (fused := kernels.gaussian_loss(m, s, y, self.noise, self.elbo)) is not None:
            return fused
        rows = self._losses(m, s, y.to(m.dtype), self.log_noise).sum(-1)
        if is_ordinary(rows):
            return rows
        return of_rows(self._losses(widened(m), widened(s), widened(y), widened(self.log_noise)), o)

    def _losses(self, m: Tensor, s: Tensor, y: Tensor, log_noise: Tensor) -> Tensor:
        """Loss of each target."""
        noise = torch.exp(limited(log_noise, LOG_VARIANCE)).unsqueeze(-2)
        error2 = (y - m) ** 2
        bound = 0.5 * ((error2 + s) / noise + torch.log(noise) + _LOG_2PI)
        return _mixed(error2, s + noise, bound, self.elbo)

    def loss_gradient(self, m: Array, s: Array, y: Array, share: Array) -> LossGradient:
        """In closed form, with t = s + σ², e the share of the ELBO and w that of the row:

        ∂m = -w (y - m) ((1 - e)/t + e/σ²),    ∂s = ½ w ((1 - e) (1 - (y - m)²/t)/t + e/σ²),
        ∂σ² = ½ w ((1 - e) (1 - (y - m)²/t)/t + e (1 - ((y - m)² + s)/σ²)/σ²).
        """
        log_noise = self.log_noise.detach().numpy()
        if np.abs(log_noise).max() > LOG_VARIANCE:  # beyond its limits
            return super().loss_gradient(m, s, y, share)
        with np.errstate(over="ignore", invalid="ignore"):
            result = self._closed_form(m, s, y, share, log_noise)
        return result if is_finite(result) else super().loss_gradient(m, s, y, share)

    def _closed_form(self, m: Array, s: Array, y: Array, share: Array, log_noise: Array) -> LossGradient:
        noise, w = np.exp(log_noise), share[:, None]
        residual, t = y - m, s + noise
        error2 = residual * residual
        bound, predictive = self.elbo / noise, (1 - self.elbo) / t
        scaled, both = error2 / t, error2 + s
        loss = (1 - self.elbo) * (scaled + np.log(t)) + bound * both + self.elbo * log_noise + _LOG_2PI
        half = 0.5 * w
        by_t = half * predictive * (1 - scaled)
        by_log_noise = (noise * (by_t + half * bound * (1 - both / noise))).sum(0)
        by_noise = by_log_noise if by_log_noise.shape == log_noise.shape else by_log_noise.sum(keepdims=True)
        return LossGradient(
            float((half * loss).sum()), -w * residual * (predictive + bound), by_t + half * bound, [by_noise]
        )


class HeteroscedasticGaussian(GaussianNoise):
    """y = o₁ + noise of variance σ² exp(o₂), with a learnt σ² and a second output o₂: y ~ N(m₁, s₁ + σ² E exp(o₂)).

    The outputs are all o₁, then all o₂, as `nn.MeanAndNoise` gives them. Both are uncertain: E exp(±o₂) =
    exp(±m₂ + s₂/2). The loss is a mixture as in `GaussianNoise`, with -E log N(y; o₁, σ² exp(o₂)) =
    ½ (((y - m₁)² + s₁) E exp(-o₂)/σ² + log σ² + m₂ + log 2π). The exponents are taken as they are up to ±20, noise
    variances from 2e-9 to 5e8.

    Its gradients are of two losses: o₂ learns what the residuals of o₁ say about the noise, while o₁ and σ² learn as in
    `GaussianNoise`, as if the noise were the same everywhere: the mean is the same whether the noise varies or not.

    Args:
        targets: Number of targets, each with its own σ².
        elbo: Share of the ELBO in the loss.
        initial_log_noise: log σ² at the start; the default suits standardised targets.
        replicas: Leading dimensions of the network's replicas.
    """

    name = ""  # `GaussianNoise` leads to it
    separable = False

    def outputs(self, targets: int) -> int:
        return 2 * targets

    def predict(self, o: Moments) -> Gaussian:
        m, s, log_noise = self._split(*latent(o))
        return Gaussian.unchecked(m, clamped(s + _mean_exp(log_noise)))

    def variance_parts(self, o: Moments) -> VarianceParts:
        _, s, log_noise = self._split(*latent(o))
        return VarianceParts.of(s, _mean_exp(log_noise))

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        m, s = latent(o)
        varying, even = (losses.sum(-1) for losses in self._both_losses(m, s, y.to(m.dtype), self.log_noise))
        if is_ordinary(varying, even):
            return varying + (even - even.detach())
        varying, even = self._both_losses(widened(m), widened(s), widened(y), widened(self.log_noise))
        return of_rows(varying + (even - even.detach()), o)

    def _both_losses(self, m: Tensor, s: Tensor, y: Tensor, log_noise: Tensor) -> tuple[Tensor, Tensor]:
        """Loss of each target with its own noise, for o₂, and with σ² alone, for o₁ and σ²."""
        m, s, own = self._split(m, s)
        even = self._losses(m, s, y, log_noise)
        m, s = m.detach(), s.detach()
        error2 = (y - m) ** 2
        bound = 0.5 * ((error2 + s) * _mean_exp(-own) + own.mean + _LOG_2PI)
        return _mixed(error2, s + _mean_exp(own), bound, self.elbo), even

    def loss_gradient(self, m: Array, s: Array, y: Array, share: Array) -> LossGradient:
        """In closed form, with n = σ² E exp(o₂), p = E exp(-o₂)/σ², t = s₁ + n and r = y - m₁, e and w as above:

        ∂m₂ = ½ w ((1 - e) (1 - r²/t) n/t + e (1 - (r² + s₁) p)),
        ∂s₂ = ¼ w ((1 - e) (1 - r²/t) n/t + e (r² + s₁) p).
        """
        targets, half = y.shape[1], 0.5 * share[:, None]
        base, level, spread = self.log_noise.detach().numpy(), m[:, targets:], s[:, targets:]
        with np.errstate(over="ignore", invalid="ignore"):
            level = base + level
            if not max(np.abs(base).max(), (np.abs(level) + 0.5 * spread).max()) <= LOG_VARIANCE:  # beyond its limits
                return Likelihood.loss_gradient(self, m, s, y, share)
            result = self._closed_form_of_both(m, s, y, half, level, spread)
        return result if is_finite(result) else Likelihood.loss_gradient(self, m, s, y, share)

    def _closed_form_of_both(
        self, m: Array, s: Array, y: Array, half: Array, level: Array, spread: Array
    ) -> LossGradient:
        targets = y.shape[1]
        m, s = m[:, :targets], s[:, :targets]
        even = self._closed_form(m, s, y, 2 * half[:, 0], self.log_noise.detach().numpy())
        noise, precision = np.exp(level + 0.5 * spread), np.exp(0.5 * spread - level)
        error2, t = (y - m) ** 2, s + noise
        scaled, misfit = error2 / t, (error2 + s) * precision
        loss = (1 - self.elbo) * (scaled + np.log(t)) + self.elbo * (misfit + level) + _LOG_2PI
        by_noise = (1 - self.elbo) * half * (1 - scaled) * noise / t
        by_level = by_noise + self.elbo * half * (1 - misfit)
        by_spread = 0.5 * (by_noise + self.elbo * half * misfit)
        return LossGradient(
            float((half * loss).sum()),
            np.hstack([even.by_mean, by_level]),
            np.hstack([even.by_variance, by_spread]),
            even.by_parameters,
        )

    def _split(self, m: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Moments]:
        """m₁, s₁ and the moments of the log noise, through which no gradient reaches σ²."""
        (m, log_noise_m), (s, log_noise_s) = (x.chunk(2, dim=-1) for x in (m, s))
        return m, s, Moments(clamped(self.log_noise.detach().to(m).unsqueeze(-2) + log_noise_m), log_noise_s)


GaussianNoise.varying_noise = HeteroscedasticGaussian


def _mean_exp(x: Moments) -> Tensor:
    """E exp(x) = exp(m + s/2), within limits."""
    assert x.variance is not None
    return torch.exp(limited(clamped(x.mean + 0.5 * x.variance), LOG_VARIANCE))


def is_finite(result: LossGradient) -> bool:
    """Whether a closed form has stayed within float32; the gradient of the noise sums up all that may leave it."""
    return math.isfinite(result.loss) and all(np.isfinite(part).all() for part in result.by_parameters)


def _mixed(error2: Tensor, variance: Tensor, bound: Tensor, elbo: float) -> Tensor:
    """(1 - elbo) · (-log N(error; 0, variance)) + elbo · bound."""
    predictive = 0.5 * (error2 / variance + torch.log(variance) + _LOG_2PI)
    return (1 - elbo) * predictive + elbo * bound
