"""Positive amounts whose logarithm is Gaussian."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import LimitedLogNormal, LogNormal
from torchnpn.kernels import cpu
from torchnpn.likelihoods.base import Array, Likelihood, VarianceParts, wide_latent
from torchnpn.likelihoods.gaussian import GaussianNoise, HeteroscedasticGaussian, VaryingNoise
from torchnpn.likelihoods.guards import LOG_MEAN, LOG_VARIANCE, narrowed, soft_clamp
from torchnpn.likelihoods.targets import relative
from torchnpn.moments import Moments

_BEYOND = 2.0  # times the largest amount that was seen: a mean far above has no rows to speak for it


class LogNormalAmounts(Likelihood):
    """log y | o ~ N(o, σ²) with a learnt σ², so log y ~ N(o_m, o_s + σ²): `GaussianNoise` of the logarithm.

    The loss is that of the logarithm plus log y, hence -log p(y) where `elbo` is 0. With v = o_s + σ²:
    E y = exp(o_m + v/2), Var y = (E y)² (e^v - 1), of which (E y)² (e^o_s - 1) is epistemic. Predicted log means are
    taken as they are up to ±30, their variances up to 20. Once the largest amount of the training rows is known
    (`know_largest`), E y is E min(y, c), the limited expected value of insurers.

    Args:
        targets: Number of targets, each with its own noise; 1 for one noise shared by all.
        elbo: Share of the ELBO in the loss.
        initial_log_noise: log σ² at the start.
        replicas: Leading dimensions of the network's replicas.
    """

    name, words = "lognormal", "a positive amount"
    predicts, support = LogNormal, constraints.positive
    separable = log_link = takes_bounds = limits_means = True
    units = staticmethod(relative)
    gains_from_steps = True
    simpler = "gaussian"
    settings: ClassVar = {"elbo": 0.1}
    arguments: ClassVar = {"targets": int, "replicas": tuple, "elbo": float}
    of_logarithm: ClassVar[type[GaussianNoise]] = GaussianNoise
    largest: Tensor | None = None  # (targets,) what amounts beyond count as in a predicted mean

    def __init__(
        self, targets: int = 1, elbo: float = 0.5, initial_log_noise: float = -2.0, *, replicas: tuple[int, ...] = ()
    ) -> None:
        super().__init__()
        self.logarithm = self.of_logarithm(targets, elbo, initial_log_noise, replicas=replicas)

    @property
    def elbo(self) -> float:
        return self.logarithm.elbo

    @staticmethod
    def start(y: Array, weight: Array | None) -> Array:
        mean: Array = np.average(np.log(y), axis=0, weights=weight)
        return mean

    def least_kl(self) -> float | Array:
        return self.logarithm.least_kl()

    def outputs(self, targets: int) -> int:
        return self.logarithm.outputs(targets)

    def know_largest(self, y: Array) -> None:
        """Amounts above twice the largest count as that in predicted means."""
        self.largest = torch.from_numpy(_BEYOND * y)

    def predict(self, o: Moments) -> LogNormal:
        m, s = self.logarithm.predict(Moments(*wide_latent(o))).moments
        assert s is not None
        free = _limited(m, s)
        if self.largest is None:
            return free
        return LimitedLogNormal.unchecked(free.m, free.s, self.largest.expand(free.m.shape))

    def variance_parts(self, o: Moments) -> VarianceParts:
        """The epistemic share is (e^o_s - 1)/(e^v - 1)."""
        predicted = self.predict(o)
        s = self.logarithm.variance_parts(Moments(*wide_latent(o))).epistemic
        share = torch.expm1(torch.minimum(s, predicted.s)) / torch.expm1(predicted.s)
        return VarianceParts.split(predicted.variance, share)

    def closed_form(self) -> cpu.ClosedForm:
        return cpu.losses.of_logarithm(self.logarithm.closed_form())

    def interval_form(self) -> cpu.ClosedForm:
        return partial(cpu.losses.normal_interval, log_mean_limit=LOG_MEAN, limit=LOG_VARIANCE)

    def losses(self, o: Moments, y: Tensor) -> Tensor:
        """Loss of each target, in float64."""
        log_y = torch.log(y.double())
        return self.logarithm.losses(o, log_y) + log_y

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        log_y = torch.log(y.double())
        of_logs = self.logarithm.loss(o, log_y.to(torch.promote_types(o.mean.dtype, torch.float32)))
        return narrowed(of_logs.double() + log_y.sum(-1), of_logs.dtype)


class HeteroscedasticLogNormal(VaryingNoise, LogNormalAmounts):
    """`LogNormalAmounts` with a noise σ² exp(o₂) that a second output predicts: `HeteroscedasticGaussian` of log y.

    Args:
        targets: Number of targets, each with its own σ².
        elbo: Share of the ELBO in the loss.
        initial_log_noise: log σ² at the start.
        replicas: Leading dimensions of the network's replicas.
    """

    of_logarithm = HeteroscedasticGaussian

    def interval_loss(self, o: Moments, lower: Tensor, upper: Tensor) -> Tensor:
        """With gradients of two losses, as `HeteroscedasticGaussian` has them."""
        (m, noise_m), (s, noise_s) = (part.chunk(2, -1) for part in wide_latent(o))
        apart = Moments(torch.cat([m.detach(), noise_m], -1), torch.cat([s.detach(), noise_s], -1))
        varying = super().interval_loss(apart, lower, upper)
        even = _limited(m, s + self.logarithm.noise.double()).log_mass(lower, upper)
        return varying - (even - even.detach())

    def interval_form(self) -> cpu.ClosedForm:
        return partial(cpu.losses.varying_normal_interval, log_mean_limit=LOG_MEAN, limit=LOG_VARIANCE)


LogNormalAmounts.varying_noise = HeteroscedasticLogNormal


def _limited(m: Tensor, s: Tensor) -> LogNormal:
    return LogNormal.unchecked(soft_clamp(m, LOG_MEAN), soft_clamp(s, LOG_VARIANCE))
