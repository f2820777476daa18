"""Real targets: a Gaussian latent function plus Gaussian noise."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from torchnpn import kernels
from torchnpn.families import Gaussian
from torchnpn.likelihoods.base import Array, Likelihood, LossGradient, VarianceParts, latent, learnt, share_of_elbo
from torchnpn.likelihoods.limits import LOG_VARIANCE, limited
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

    def predict(self, o: Moments) -> Gaussian:
        m, s = latent(o)
        return Gaussian.unchecked(*torch.broadcast_tensors(m, s + self.noise))

    def variance_parts(self, o: Moments) -> VarianceParts:
        return VarianceParts.of(latent(o)[1], self.noise)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        (m, s), noise = latent(o), self.noise
        if (fused := kernels.gaussian_loss(m, s, y, noise, self.elbo)) is not None:
            return fused
        error2 = (y.to(m.dtype) - m) ** 2
        bound = 0.5 * ((error2 + s) / noise + torch.log(noise) + _LOG_2PI)
        return _mixed(error2, s + noise, bound, self.elbo).sum(-1)

    def loss_gradient(self, m: Array, s: Array, y: Array, share: Array) -> LossGradient:
        """In closed form, with t = s + σ², e the share of the ELBO and w that of the row:

        ∂m = -w (y - m) ((1 - e)/t + e/σ²),    ∂s = ½ w ((1 - e) (1 - (y - m)²/t)/t + e/σ²),
        ∂σ² = ½ w ((1 - e) (1 - (y - m)²/t)/t + e (1 - ((y - m)² + s)/σ²)/σ²).
        """
        log_noise = self.log_noise.detach().numpy()
        if np.abs(log_noise).max() > LOG_VARIANCE:  # beyond its limits
            return super().loss_gradient(m, s, y, share)
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

    def extra_repr(self) -> str:
        return f"targets={self.log_noise.shape[-1]}, elbo={self.elbo:g}"


class HeteroscedasticGaussian(Likelihood):
    """y = o₁ + noise with log noise variance o₂, a second output: Var[y | o] = exp(o₂), so y ~ N(m₁, s₁ + E exp(o₂)).

    The outputs are all o₁, then all o₂. Both are uncertain: E exp(±o₂) = exp(±m₂ + s₂/2). The loss is a mixture as in
    `GaussianNoise`, with -E log N(y; o₁, exp(o₂)) = ½ (((y - m₁)² + s₁) E exp(-o₂) + m₂ + log 2π). The exponents are
    taken as they are up to ±20, noise variances from 2e-9 to 5e8.

    Args:
        targets: Number of targets.
        elbo: Share of the ELBO in the loss.
    """

    def __init__(self, targets: int = 1, elbo: float = 0.5) -> None:
        super().__init__()
        self.targets, self.elbo = targets, share_of_elbo(elbo)

    def outputs(self, targets: int) -> int:
        return 2 * targets

    def predict(self, o: Moments) -> Gaussian:
        m, s, log_noise = self._split(o)
        return Gaussian.unchecked(m, s + _mean_exp(log_noise))

    def variance_parts(self, o: Moments) -> VarianceParts:
        _, s, log_noise = self._split(o)
        return VarianceParts.of(s, _mean_exp(log_noise))

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        m, s, log_noise = self._split(o)
        error2 = (y.to(m.dtype) - m) ** 2
        bound = 0.5 * ((error2 + s) * _mean_exp(-log_noise) + log_noise.mean + _LOG_2PI)
        return _mixed(error2, s + _mean_exp(log_noise), bound, self.elbo).sum(-1)

    def _split(self, o: Moments) -> tuple[Tensor, Tensor, Moments]:
        """m₁, s₁ and the moments of the log noise."""
        (m, log_noise_m), (s, log_noise_s) = (x.split(self.targets, dim=-1) for x in latent(o))
        return m, s, Moments(log_noise_m, log_noise_s)

    def extra_repr(self) -> str:
        return f"targets={self.targets}, elbo={self.elbo:g}"


def _mean_exp(x: Moments) -> Tensor:
    """E exp(x) = exp(m + s/2), within limits."""
    assert x.variance is not None
    return torch.exp(limited(x.mean + 0.5 * x.variance, LOG_VARIANCE))


def _mixed(error2: Tensor, variance: Tensor, bound: Tensor, elbo: float) -> Tensor:
    """(1 - elbo) · (-log N(error; 0, variance)) + elbo · bound."""
    predictive = 0.5 * (error2 / variance + torch.log(variance) + _LOG_2PI)
    return (1 - elbo) * predictive + elbo * bound
