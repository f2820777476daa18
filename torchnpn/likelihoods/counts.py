"""Counts: a Poisson variable whose rate is uncertain."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import NegativeBinomial
from torchnpn.likelihoods.base import Likelihood, VarianceParts, learnt
from torchnpn.likelihoods.limits import LOG_VARIANCE, limited
from torchnpn.likelihoods.positive import log_normal, relative_variance
from torchnpn.moments import Moments

_POISSON = 1e-8  # relative variance of the rate added to all: a negative binomial this close to Poisson has its digits
_BELOW_ONE = 1 - torch.finfo(torch.float64).eps  # the largest p, reached for v μ above 4e15 only


class PoissonCounts(Likelihood):
    """y | o ~ Poisson with rate e^o.

    With o ~ N(m, s) the rate is log-normal with mean μ = exp(m + s/2) and relative variance v = e^s - 1; the gamma with
    these moments makes y negative binomial with n = 1/v and mean μ, so E y = μ, Var y = μ + v μ². For s = 0 that is
    the Poisson distribution. The loss is -log p(y), in float64, because it is a difference of large log Γ.
    """

    support = constraints.nonnegative_integer

    @property
    def overdispersion(self) -> Tensor | float:
        """Relative variance α of the rate for a known o."""
        return 0.0

    def predict(self, o: Moments) -> NegativeBinomial:
        log_mean, s = log_normal(o)
        v = relative_variance(s, self.overdispersion) + _POISSON
        odds = v * torch.exp(log_mean)
        return NegativeBinomial.unchecked(*torch.broadcast_tensors(1 / v, (odds / (1 + odds)).clamp_max(_BELOW_ONE)))

    def variance_parts(self, o: Moments) -> VarianceParts:
        log_mean, s = log_normal(o)
        mean = torch.exp(log_mean)
        return VarianceParts.of(mean**2 * torch.expm1(s), mean + mean**2 * torch.exp(s) * self.overdispersion)


class NegativeBinomialCounts(PoissonCounts):
    """y | o ~ negative binomial with mean e^o and variance e^o + α e^2o, with a learnt overdispersion α.

    The rate of `PoissonCounts` times an independent gamma factor of mean one and variance α: v = e^s (1 + α) - 1.

    Args:
        targets: Number of targets, each with its own overdispersion; 1 for one shared by all.
        initial_log_overdispersion: log α at the start.
        replicas: Leading dimensions of the network's replicas.
    """

    def __init__(
        self, targets: int = 1, initial_log_overdispersion: float = -2.0, *, replicas: tuple[int, ...] = ()
    ) -> None:
        super().__init__()
        self.log_overdispersion = learnt(initial_log_overdispersion, targets, replicas)

    @property
    def overdispersion(self) -> Tensor:  # (*replicas, 1, targets)
        return torch.exp(limited(self.log_overdispersion.double(), LOG_VARIANCE)).unsqueeze(-2)

    def extra_repr(self) -> str:
        return f"targets={self.log_overdispersion.shape[-1]}"
