"""Real targets: a Gaussian latent function plus Gaussian noise."""

from __future__ import annotations

import math
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from torchnpn import kernels
from torchnpn.families import Gaussian
from torchnpn.finite import clamped
from torchnpn.kernels import cpu
from torchnpn.likelihoods.base import (
    Array,
    Likelihood,
    VarianceParts,
    latent,
    learnt_parameter,
    mixed_loss,
    of_rows,
    share_of_elbo,
    wide_latent,
)
from torchnpn.likelihoods.guards import LOG_VARIANCE, is_ordinary, soft_clamp, widened
from torchnpn.likelihoods.targets import standardised
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
    predicts = Gaussian
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
        self.log_noise = learnt_parameter(initial_log_noise, targets, replicas)

    @property
    def noise(self) -> Tensor:  # (*replicas, 1, targets)
        """σ²."""
        return torch.exp(soft_clamp(self.log_noise, LOG_VARIANCE)).unsqueeze(-2)

    def least_kl(self) -> float | Array:
        return half_the_noise(self.log_noise)

    def predict(self, o: Moments) -> Gaussian:
        m, s = latent(o)
        return Gaussian.unchecked(*torch.broadcast_tensors(m, clamped(s + self.noise)))

    def variance_parts(self, o: Moments) -> VarianceParts:
        return VarianceParts.of(latent(o)[1], self.noise)

    def closed_form(self) -> cpu.ClosedForm:
        return partial(cpu.losses.gaussian, elbo=self.elbo, limit=LOG_VARIANCE)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        m, s = latent(o)
        if (fused := kernels.gaussian_loss(m, s, y, self.noise, self.elbo)) is not None:
            return fused
        rows = self._losses(m, s, y.to(m.dtype), self.log_noise).sum(-1)
        if is_ordinary(rows):
            return rows
        return of_rows(self._losses(widened(m), widened(s), widened(y), widened(self.log_noise)), o)

    def losses(self, o: Moments, y: Tensor) -> Tensor:
        """Loss of each target, in float64."""
        return self._losses(*wide_latent(o), widened(y), widened(self.log_noise))

    def _losses(self, m: Tensor, s: Tensor, y: Tensor, log_noise: Tensor) -> Tensor:
        """Loss of each target."""
        noise = torch.exp(soft_clamp(log_noise, LOG_VARIANCE)).unsqueeze(-2)
        error2 = (y - m) ** 2
        bound = 0.5 * ((error2 + s) / noise + torch.log(noise) + _LOG_2PI)
        return _mixed(error2, s + noise, bound, self.elbo)


class VaryingNoise(Likelihood):
    """What a noise of its own for each row adds to a kind of target: a second output, the logarithm of a factor."""

    name = ""  # the kind with a constant noise leads to it
    separable = False
    noise_apart = True

    def outputs(self, targets: int) -> int:
        return 2 * targets


class HeteroscedasticGaussian(VaryingNoise, GaussianNoise):
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

    def predict(self, o: Moments) -> Gaussian:
        m, s, log_noise = split_noise(*latent(o), self.log_noise)
        return Gaussian.unchecked(m, clamped(s + mean_exp(log_noise)))

    def variance_parts(self, o: Moments) -> VarianceParts:
        _, s, log_noise = split_noise(*latent(o), self.log_noise)
        return VarianceParts.of(s, mean_exp(log_noise))

    def closed_form(self) -> cpu.ClosedForm:
        return partial(cpu.losses.varying_gaussian, elbo=self.elbo, limit=LOG_VARIANCE)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        m, s = latent(o)
        varying, even = (losses.sum(-1) for losses in self._both_losses(m, s, y.to(m.dtype), self.log_noise))
        if is_ordinary(varying, even):
            return varying + (even - even.detach())
        varying, even = self._both_losses(widened(m), widened(s), widened(y), widened(self.log_noise))
        return of_rows(varying + (even - even.detach()), o)

    def _both_losses(self, m: Tensor, s: Tensor, y: Tensor, log_noise: Tensor) -> tuple[Tensor, Tensor]:
        """Loss of each target with its own noise, for o₂, and with σ² alone, for o₁ and σ²."""
        m, s, own = split_noise(m, s, self.log_noise)
        even = self._losses(m, s, y, log_noise)
        m, s = m.detach(), s.detach()
        error2 = (y - m) ** 2
        bound = 0.5 * ((error2 + s) * mean_exp(-own) + own.mean + _LOG_2PI)
        return _mixed(error2, s + mean_exp(own), bound, self.elbo), even


GaussianNoise.varying_noise = HeteroscedasticGaussian


def half_the_noise(log_noise: Tensor) -> float | Array:
    """Half the share of the targets' variance in units that is noise, as far as is known now; one for each replica."""
    noise = np.exp(log_noise.detach().cpu().numpy()).mean(-1)  # (*replicas,)
    share = 0.5 * np.minimum(1.0, noise)
    return share if share.ndim else float(share)


def split_noise(m: Tensor, s: Tensor, log_noise: Tensor) -> tuple[Tensor, Tensor, Moments]:
    """m₁, s₁ and the moments of the log noise, through which no gradient reaches σ²."""
    (m, log_noise_m), (s, log_noise_s) = (x.chunk(2, dim=-1) for x in (m, s))
    return m, s, Moments(clamped(log_noise.detach().to(m).unsqueeze(-2) + log_noise_m), log_noise_s)


def mean_exp(x: Moments) -> Tensor:
    """E exp(x) = exp(m + s/2), within limits."""
    assert x.variance is not None
    return torch.exp(soft_clamp(clamped(x.mean + 0.5 * x.variance), LOG_VARIANCE))


def _mixed(error2: Tensor, variance: Tensor, bound: Tensor, elbo: float) -> Tensor:
    """(1 - elbo) · (-log N(error; 0, variance)) + elbo · bound."""
    return mixed_loss(0.5 * (error2 / variance + torch.log(variance) + _LOG_2PI), bound, elbo)
