"""Real targets with heavy tails: a Gaussian latent function plus Student-t noise."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from torchnpn.families import StudentT
from torchnpn.kernels import cpu
from torchnpn.likelihoods.base import (
    Array,
    Likelihood,
    VarianceParts,
    learnt_parameter,
    mixed_loss,
    of_rows,
    share_of_elbo,
    wide_latent,
)
from torchnpn.likelihoods.gaussian import VaryingNoise, half_the_noise, mean_exp, split_noise
from torchnpn.likelihoods.guards import LOG_VARIANCE, exp_of_parameter, soft_clamp, widened
from torchnpn.likelihoods.targets import robust
from torchnpn.moments import Moments

_LEAST_SQUARE = 1e-300  # whose root still has a slope


class StudentTNoise(Likelihood):
    """y = o + noise with Student-t noise of scale σ and ν > 2 degrees of freedom, both learnt.

    A Gaussian plus a Student-t is neither. The predictive distribution is the Student-t with the same centre, squared
    scale τ² = o_s + σ² and ν' = 2 + (ν - 2) τ²/σ² degrees, by which the variance is exactly that of y,
    o_s + σ² ν/(ν - 2), and the tails lighten as the Gaussian takes over. Its Kullback-Leibler divergence from the true
    one is below 0.01 nats for o_s ≤ σ² and below 0.03 for o_s = 4σ²; probabilities are right to 0.02 and 0.04.

    The loss is a mixture of the predictive -log t(y; o_m, τ², ν') and of a bound on the data term of the ELBO, in which
    Jensen's inequality takes E (y - o)² = (y - o_m)² + o_s into the logarithm of the density:

        -E log t(y; o, σ², ν) ≤ ½(ν + 1) log(1 + ((y - o_m)² + o_s)/νσ²) + ½ log σ² + a constant of ν.

    Args:
        targets: Number of targets, each with its own σ and ν; 1 for what is shared by all.
        elbo: Share of the bound in the loss: 0 for the predictive term alone.
        initial_log_noise: log σ² at the start; the default suits targets in units of their spread.
        initial_log_excess: log(ν - 2) at the start.
        replicas: Leading dimensions of the network's replicas.
    """

    name, words = "student_t", "a number with outliers"
    predicts, separable = StudentT, True
    units = staticmethod(robust)
    gains_from_steps = True
    simpler = "gaussian"
    settings: ClassVar = {"elbo": 0.1}
    arguments: ClassVar = {"targets": int, "replicas": tuple, "elbo": float}

    def __init__(
        self,
        targets: int = 1,
        elbo: float = 0.5,
        initial_log_noise: float = -2.0,
        initial_log_excess: float = 0.7,
        *,
        replicas: tuple[int, ...] = (),
    ) -> None:
        super().__init__()
        self.elbo = share_of_elbo(elbo)
        self.log_noise = learnt_parameter(initial_log_noise, targets, replicas)
        self.log_excess = learnt_parameter(initial_log_excess, targets, replicas)

    @property
    def noise(self) -> Tensor:  # (*replicas, 1, targets)
        """σ², the squared scale."""
        return exp_of_parameter(self.log_noise)

    @property
    def excess(self) -> Tensor:  # (*replicas, 1, targets)
        """ν - 2."""
        return exp_of_parameter(self.log_excess)

    def least_kl(self) -> float | Array:
        return half_the_noise(self.log_noise)

    def predict(self, o: Moments) -> StudentT:
        m, s = wide_latent(o)
        return _predictive(m, s, self.noise, self.excess)

    def variance_parts(self, o: Moments) -> VarianceParts:
        return VarianceParts.of(wide_latent(o)[1], _variance(self.noise, self.excess))

    def closed_form(self) -> cpu.ClosedForm:
        return partial(cpu.losses.student_t, elbo=self.elbo, limit=LOG_VARIANCE)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        return of_rows(self._losses(*wide_latent(o), widened(y), self.excess), o)

    def _losses(self, m: Tensor, s: Tensor, y: Tensor, excess: Tensor) -> Tensor:
        """Loss of each target."""
        bound = _minus_log_density((y - m) ** 2 + s, self.noise, excess)
        return mixed_loss(-_predictive(m, s, self.noise, excess).log_prob(y), bound, self.elbo)


class HeteroscedasticStudentT(VaryingNoise, StudentTNoise):
    """y = o₁ + Student-t noise of squared scale σ² exp(o₂), with learnt σ² and ν and a second output o₂.

    The outputs are all o₁, then all o₂, as `nn.MeanAndNoise` gives them. Predictions are those of `StudentTNoise` with
    σ² E exp(o₂) for σ², which keeps the variance exact. The bound in the loss takes E exp(-o₂) into the logarithm:
    ½(ν + 1) log(1 + ((y - m₁)² + s₁) E exp(-o₂)/νσ²) + ½(log σ² + m₂) + a constant of ν.

    Its gradients are of two losses, as in `HeteroscedasticGaussian`: o₂ and ν learn what the residuals of o₁ say about
    the noise, while o₁ and σ² learn as if the noise were the same everywhere.

    Args:
        targets: Number of targets, each with its own σ and ν.
        elbo: Share of the bound in the loss.
        initial_log_noise: log σ² at the start.
        initial_log_excess: log(ν - 2) at the start.
        replicas: Leading dimensions of the network's replicas.
    """

    def predict(self, o: Moments) -> StudentT:
        m, s, log_noise = split_noise(*wide_latent(o), self.log_noise)
        return _predictive(m, s, mean_exp(log_noise), self.excess)

    def variance_parts(self, o: Moments) -> VarianceParts:
        _, s, log_noise = split_noise(*wide_latent(o), self.log_noise)
        return VarianceParts.of(s, _variance(mean_exp(log_noise), self.excess))

    def closed_form(self) -> cpu.ClosedForm:
        return partial(cpu.losses.varying_student_t, elbo=self.elbo, limit=LOG_VARIANCE)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        m, s, own = split_noise(*wide_latent(o), self.log_noise)
        y = widened(y)
        even = self._losses(m, s, y, self.excess.detach())
        m, s = m.detach(), s.detach()
        level, spread = own
        assert spread is not None
        inverse = mean_exp(Moments(-level, spread))  # of the squared scale
        bound = _minus_log_density((y - m) ** 2 + s, 1 / inverse, self.excess)
        bound = bound + 0.5 * (soft_clamp(level, LOG_VARIANCE) + torch.log(inverse))
        varying = mixed_loss(-_predictive(m, s, mean_exp(own), self.excess).log_prob(y), bound, self.elbo)
        return of_rows(varying + (even - even.detach()), o)


StudentTNoise.varying_noise = HeteroscedasticStudentT


def _predictive(m: Tensor, s: Tensor, noise: Tensor, excess: Tensor) -> StudentT:
    t = s + noise
    return StudentT.unchecked(*torch.broadcast_tensors(m, t, 2 + excess * (t / noise)))


def _minus_log_density(square: Tensor, noise: Tensor, excess: Tensor) -> Tensor:
    """-log t(d; 0, noise, 2 + excess) at d² = square."""
    zero, noise, excess = torch.broadcast_tensors(torch.zeros_like(square), noise, excess)
    distance = torch.sqrt(square.clamp_min(_LEAST_SQUARE))
    return -StudentT.unchecked(zero, noise, 2 + excess).log_prob(distance)


def _variance(noise: Tensor, excess: Tensor) -> Tensor:
    """ν/(ν - 2) of the squared scale."""
    return noise + 2 * noise / excess
