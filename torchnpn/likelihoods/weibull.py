"""Durations: Weibull noise around the exponential of the latent."""

from __future__ import annotations

import math
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import Weibull
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
from torchnpn.likelihoods.guards import LOG_MEAN, LOG_VARIANCE, soft_clamp, widened
from torchnpn.likelihoods.targets import relative
from torchnpn.moments import Moments

_LIMITS = cpu.losses.WeibullLimits(log_mean=LOG_MEAN, log_variance=LOG_VARIANCE, log_shape=(4.0, 6.5))
_LEAST_SHAPE = math.exp(-2.5)


class WeibullDurations(Likelihood):
    """y | o ~ Weibull with scale e^o and a learnt shape k: log y = o + σ G, with σ = 1/k and -G a Gumbel variable.

    With o ~ N(m, s) the predictive distribution is the Weibull whose logarithm has the mean and the variance of log y:
    τ² = σ² + 6 s/π² and the scale exp(m + γ (τ - σ)), with Euler's constant γ. The loss is a mixture of its -log p(y),
    and of the data term of the ELBO, which is exact:

        -E log p(y | o) = log σ - u + exp(u + s/2σ²) + log y,    u = (log y - m)/σ.

    Shapes are taken as they are from 0.08 to 36,000.

    Args:
        targets: Number of targets, each with its own shape; 1 for one shape shared by all.
        initial_log_shape: log k at the start; 0 is an exponential variable.
        elbo: Share of the ELBO in the loss: 0 for the predictive term alone, 1 for the ELBO alone.
        replicas: Leading dimensions of the network's replicas.
    """

    name, words = "weibull", "a duration"
    predicts, support = Weibull, constraints.positive
    separable = mostly_noise = log_link = takes_bounds = True
    units = staticmethod(relative)
    simpler = "gaussian"
    settings: ClassVar = {"elbo": 0.1}
    arguments: ClassVar = {"targets": int, "replicas": tuple, "elbo": float}

    def __init__(
        self, targets: int = 1, initial_log_shape: float = 0.0, elbo: float = 0.0, *, replicas: tuple[int, ...] = ()
    ) -> None:
        super().__init__()
        self.elbo = share_of_elbo(elbo)
        self.log_shape = learnt_parameter(initial_log_shape, targets, replicas)

    @property
    def noise(self) -> Tensor:  # (*replicas, 1, targets)
        """σ = 1/k."""
        middle, reach = _LIMITS.log_shape
        return torch.exp(-middle - soft_clamp(widened(self.log_shape) - middle, reach)).unsqueeze(-2)

    @classmethod
    def marginal(cls, x: Moments) -> Weibull:
        """By the shape with the relative variance of `x`, found by halving."""
        assert x.variance is not None
        wanted = (x.variance / x.mean**2).double()
        low, high = (torch.full_like(wanted, end) for end in (_LEAST_SHAPE, 1e6))
        for _ in range(100):
            k = torch.sqrt(low * high)
            is_wide = _relative_variance(1 / k) > wanted
            low, high = torch.where(is_wide, k, low), torch.where(is_wide, high, k)
        return Weibull.unchecked(x.mean.double() / torch.exp(torch.lgamma(1 + 1 / high)), high)

    @staticmethod
    def start(y: Array, weight: Array | None) -> Array:
        """Of an exponential variable."""
        mean: Array = np.log(np.average(y, axis=0, weights=weight))
        return mean

    def predict(self, o: Moments) -> Weibull:
        m, s = wide_latent(o)
        tau, location = self._of_log(m, s)
        return Weibull.unchecked(*torch.broadcast_tensors(torch.exp(soft_clamp(location, LOG_MEAN)), 1 / tau))

    def variance_parts(self, o: Moments) -> VarianceParts:
        """With v the relative variance for a known o, the epistemic share is (1 - e^-s)/(1 - e^-s + v)."""
        known = -torch.expm1(-wide_latent(o)[1])
        predicted = self.predict(o)
        return VarianceParts.split(predicted.variance, known / (known + _relative_variance(self.noise)))

    def closed_form(self) -> cpu.ClosedForm:
        return partial(cpu.losses.weibull, elbo=self.elbo, limits=_LIMITS)

    def interval_form(self) -> cpu.ClosedForm:
        return partial(cpu.losses.weibull_interval, limits=_LIMITS)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        m, s = wide_latent(o)
        log_y, sigma = torch.log(y.double()), self.noise
        tau, location = self._of_log(m, s)
        z = (log_y - location) / tau
        predictive = torch.log(tau) - z + torch.exp(soft_clamp(z, LOG_MEAN)) + log_y
        u = (log_y - m) / sigma
        bound = torch.log(sigma) - u + torch.exp(soft_clamp(u + 0.5 * s / sigma**2, LOG_MEAN)) + log_y
        return of_rows(mixed_loss(predictive, bound, self.elbo), o)

    def _of_log(self, m: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        """Scale and location of log y."""
        sigma = self.noise
        tau = torch.sqrt(sigma**2 + cpu.losses.GUMBEL * soft_clamp(s, LOG_VARIANCE))
        return tau, m + np.euler_gamma * (tau - sigma)


def _relative_variance(sigma: Tensor) -> Tensor:
    """Γ(1 + 2σ)/Γ(1 + σ)² - 1 of a known scale."""
    return torch.expm1(torch.lgamma(1 + 2 * sigma) - 2 * torch.lgamma(1 + sigma))
