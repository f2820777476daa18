"""Positive amounts: gamma noise around the exponential of the latent."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import Gamma
from torchnpn.kernels import cpu
from torchnpn.likelihoods.base import (
    Likelihood,
    VarianceParts,
    learnt_parameter,
    mixed_loss,
    of_rows,
    share_of_elbo,
    wide_latent,
)
from torchnpn.likelihoods.guards import LOG_MEAN, LOG_VARIANCE, soft_clamp, widened
from torchnpn.likelihoods.targets import log_of_mean, relative
from torchnpn.moments import Moments


class GammaAmounts(Likelihood):
    """y | o ~ gamma with mean e^o and a learnt shape k, so the relative standard deviation is 1/√k whatever the size.

    With o ~ N(m, s): E y = exp(m + s/2), Var y = (E y)² (e^s (1 + 1/k) - 1), and the predictive distribution is the
    gamma with these moments. The loss is a mixture of its -log p(y), which judges the prediction as a whole, and of the
    data term of the ELBO, which judges it function by function and keeps the uncertainty of o apart from the noise:

        -E log p(y | o) = -k (log k - m) - (k - 1) log y + k y exp(-m + s/2) + log Γ(k).

    Both are formed in float64, because they are differences of large log Γ.

    Args:
        targets: Number of targets, each with its own shape; 1 for one shape shared by all.
        initial_log_shape: log k at the start.
        elbo: Share of the ELBO in the loss: 0 for the predictive term alone, 1 for the ELBO alone.
        replicas: Leading dimensions of the network's replicas.
    """

    name, words = "gamma", "a positive amount"
    predicts, support = Gamma, constraints.positive
    separable = mostly_noise = log_link = True
    units, start = staticmethod(relative), staticmethod(log_of_mean)
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
    def dispersion(self) -> Tensor:  # (*replicas, 1, targets)
        """1/k."""
        return torch.exp(-soft_clamp(widened(self.log_shape), LOG_VARIANCE)).unsqueeze(-2)

    def predict(self, o: Moments) -> Gamma:
        log_mean, s = log_normal(o)
        log_c = -torch.log(relative_variance(s, self.dispersion))
        return Gamma.unchecked(*torch.broadcast_tensors(torch.exp(log_c), torch.exp(log_c - log_mean)))

    def variance_parts(self, o: Moments) -> VarianceParts:
        log_mean, s = log_normal(o)
        square = torch.exp(2 * log_mean)
        return VarianceParts.of(square * torch.expm1(s), square * torch.exp(s) * self.dispersion)

    def closed_form(self) -> cpu.ClosedForm:
        return partial(cpu.losses.gamma, elbo=self.elbo, log_mean_limit=LOG_MEAN, limit=LOG_VARIANCE)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        return of_rows(self.losses(o, y), o)

    def losses(self, o: Moments, y: Tensor) -> Tensor:
        """Loss of each target, in float64."""
        m, s = wide_latent(o)
        predictive = -self.predict(Moments(m, s)).log_prob(y)
        if not self.elbo:
            return predictive
        k, log_y = 1 / self.dispersion, torch.log(y.double())
        relative = torch.exp(soft_clamp(log_y - m + 0.5 * s, LOG_MEAN))
        bound = k * (m - torch.log(k) + relative) - (k - 1) * log_y + torch.lgamma(k)
        return mixed_loss(predictive, bound, self.elbo)


def log_normal(o: Moments) -> tuple[Tensor, Tensor]:
    """log E e^x = m + s/2 and s for x ~ o, within limits and in float64: all that the moments of e^x need."""
    m, s = wide_latent(o)
    return soft_clamp(m + 0.5 * s, LOG_MEAN), soft_clamp(s, LOG_VARIANCE)


def relative_variance(s: Tensor, noise: Tensor | float) -> Tensor:
    """Var/mean² = e^s (1 + noise) - 1 of e^x times an independent factor of mean one and variance `noise`."""
    return torch.expm1(s) + torch.exp(s) * noise
