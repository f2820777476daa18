"""Counts: a Poisson variable whose rate is uncertain."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import NegativeBinomial, Poisson
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
from torchnpn.likelihoods.guards import LOG_MEAN, LOG_VARIANCE, exp_of_parameter, soft_clamp
from torchnpn.likelihoods.positive import relative_variance
from torchnpn.likelihoods.targets import log_of_mean
from torchnpn.moments import Moments

NEAR_POISSON = 1e-8  # relative variance added to all rates: a negative binomial this close to Poisson has its digits
LOG_RATE_VARIANCE = 4.0  # of a log rate
LIMITS = cpu.losses.CountLimits(LOG_MEAN, LOG_VARIANCE, LOG_RATE_VARIANCE, NEAR_POISSON)
_BELOW_ONE = 1 - torch.finfo(torch.float64).eps  # the largest p, reached for v μ above 4e15 only


class PoissonCounts(Likelihood):
    """y | o ~ Poisson with rate e^o.

    With o ~ N(m, s) the rate is log-normal with mean μ = exp(m + s/2) and relative variance v = e^s - 1; the gamma with
    these moments makes y negative binomial with n = 1/v and mean μ, so E y = μ, Var y = μ + v μ². For s = 0 that is
    the Poisson distribution. The loss is a mixture of its -log p(y), which judges the prediction as a whole, and of the
    data term of the ELBO, which judges it rate by rate:

        -E log p(y | o) = μ - y m + log y! = -log Poisson(y; μ) + ½ y s.

    The first alone may say "surely 0" by a huge s, whatever the mean is. Therefore s is taken as it is up to 4, which
    is a factor of e² up or down, and drawn back beyond (`soft_clamp`): "surely 0" is then said by m; and the second
    term judges the mean itself. Both are formed in float64, because they are differences of large log Γ.

    Args:
        elbo: Share of the ELBO in the loss: 0 for the predictive term alone, 1 for the ELBO alone.
    """

    name, words = "poisson", "a count"
    support = constraints.nonnegative_integer
    separable = mostly_noise = log_link = True
    start = staticmethod(log_of_mean)
    settings: ClassVar = {"elbo": 0.05}
    arguments: ClassVar = {"elbo": float}
    later: ClassVar = {"elbo": 0.0}

    def __init__(self, elbo: float = 0.0) -> None:
        super().__init__()
        self.elbo = share_of_elbo(elbo)

    @property
    def overdispersion(self) -> Tensor | float:
        """Relative variance α of the rate for a known o."""
        return 0.0

    @classmethod
    def marginal(cls, x: Moments) -> NegativeBinomial:
        """Nearly a Poisson, where counts vary less than that."""
        assert x.variance is not None
        return NegativeBinomial.from_moments(Moments(x.mean, torch.maximum(x.variance, x.mean * (1 + 1e-6))))

    def predict(self, o: Moments) -> NegativeBinomial:
        log_mean, s = _log_rate(o)
        return _counts(log_mean, relative_variance(s, self.overdispersion) + NEAR_POISSON)

    def variance_parts(self, o: Moments) -> VarianceParts:
        log_mean, s = _log_rate(o)
        mean = torch.exp(log_mean)
        return VarianceParts.of(mean**2 * torch.expm1(s), mean + mean**2 * torch.exp(s) * self.overdispersion)

    def closed_form(self) -> cpu.ClosedForm:
        return partial(cpu.losses.counts, elbo=self.elbo, limits=LIMITS)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        return of_rows(self.losses(o, y), o)

    def losses(self, o: Moments, y: Tensor, observed: Callable[[Tensor], Tensor] = lambda log_prob: log_prob) -> Tensor:
        """Loss of each target; `observed` makes the log probability of what is seen from that of the count."""
        predictive = -observed(self.predict(o).log_prob(y))
        if not self.elbo:
            return predictive
        log_mean, s = _log_rate(o)
        bound = 0.5 * y.double() * s - observed(self._log_prob_at_mean(y.double(), log_mean))
        return mixed_loss(predictive, bound, self.elbo)

    def _log_prob_at_mean(self, y: Tensor, log_mean: Tensor) -> Tensor:
        """log p(y) of the count whose rate is its mean."""
        return Poisson.unchecked(torch.exp(log_mean)).log_prob(y)


def _log_rate(o: Moments) -> tuple[Tensor, Tensor]:
    """log E e^x = m + s/2 and s for x ~ o, with s and the sum within limits, in float64."""
    m, s = wide_latent(o)
    s = soft_clamp(s, LOG_RATE_VARIANCE)
    return soft_clamp(m + 0.5 * s, LOG_MEAN), s


def _counts(log_mean: Tensor, v: Tensor) -> NegativeBinomial:
    """Counts whose rate has the mean e^log_mean and the relative variance v."""
    odds = v * torch.exp(log_mean)
    return NegativeBinomial.unchecked(*torch.broadcast_tensors(1 / v, (odds / (1 + odds)).clamp_max(_BELOW_ONE)))


class NegativeBinomialCounts(PoissonCounts):
    """y | o ~ negative binomial with mean e^o and variance e^o + α e^2o, with a learnt overdispersion α.

    The rate of `PoissonCounts` times an independent gamma factor of mean one and variance α: v = e^s (1 + α) - 1. For
    the ELBO it takes a bound, E log(1 + α e^o) ≤ log(1 + α μ), by which

        -E log p(y | o) ≤ -log NegativeBinomial(y; mean μ, overdispersion α) + ½ y s.

    Args:
        targets: Number of targets, each with its own overdispersion; 1 for one shared by all.
        initial_log_overdispersion: log α at the start.
        elbo: Share of that bound in the loss: 0 for the predictive term alone.
        replicas: Leading dimensions of the network's replicas.
    """

    name, words = "negative_binomial", "a count"
    simpler = "poisson"
    arguments: ClassVar = {"targets": int, "replicas": tuple, "elbo": float}

    def __init__(
        self,
        targets: int = 1,
        initial_log_overdispersion: float = -2.0,
        elbo: float = 0.0,
        *,
        replicas: tuple[int, ...] = (),
    ) -> None:
        super().__init__(elbo)
        self.log_overdispersion = learnt_parameter(initial_log_overdispersion, targets, replicas)

    @property
    def overdispersion(self) -> Tensor:  # (*replicas, 1, targets)
        return exp_of_parameter(self.log_overdispersion)

    def _log_prob_at_mean(self, y: Tensor, log_mean: Tensor) -> Tensor:
        return _counts(log_mean, (0.0 * log_mean + self.overdispersion) + NEAR_POISSON).log_prob(y)
