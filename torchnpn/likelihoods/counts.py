"""Counts: a Poisson variable whose rate is uncertain."""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import digamma, gammaln, xlogy
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import NegativeBinomial
from torchnpn.likelihoods.base import Array, Likelihood, LossGradient, VarianceParts, learnt
from torchnpn.likelihoods.guards import widened
from torchnpn.likelihoods.limits import LOG_MEAN, LOG_VARIANCE, limited
from torchnpn.likelihoods.positive import log_normal, of_parameter, relative_variance, within
from torchnpn.moments import Moments

_POISSON = 1e-8  # relative variance of the rate added to all: a negative binomial this close to Poisson has its digits
_CANCELS = 1e-5  # below, two large terms of a gradient leave fewer digits than their limit has
_MOST_COUNT = 1e15  # for larger counts the closed form of the gradient has no digits left
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

    def loss_gradient(self, m: Array, s: Array, y: Array, share: Array) -> LossGradient:
        """In closed form, with μ = exp(m + s/2), relative variance v of the rate, n = 1/v, q = v μ, w the row's share:

        log p = log Γ(y + n) - log Γ(n) - log y! - (n + y) log(1 + q) + y log q,    ∂s v = v + 1,
        ∂log μ log p = (y - μ)/(1 + q),    ∂v log p = n (y - μ)/(1 + q) - n² (ψ(y + n) - ψ(n) - log(1 + q)),
        which tends to ½ ((y - μ)² - y) as v falls to zero and its two terms cancel.
        """
        learnt = [parameter.detach().numpy().astype(np.float64) for parameter in self.parameters()]
        log_mean = m + 0.5 * s.astype(np.float64)
        limits = [(log_mean, LOG_MEAN), (s, LOG_VARIANCE), *((log_alpha, LOG_VARIANCE) for log_alpha in learnt)]
        if not all(within(x, limit) for x, limit in limits) or y.max() > _MOST_COUNT:
            return super().loss_gradient(m, s, y, share)
        w, mean = share[:, None], np.exp(log_mean)
        noise = np.exp(s + learnt[0]) if learnt else np.zeros_like(mean)
        v = np.expm1(s, dtype=np.float64) + noise + _POISSON
        n, q = 1 / v, v * mean
        log_1_q = np.log1p(q)
        log_prob = gammaln(y + n) - gammaln(n) - gammaln(y + 1.0) - (n + y) * log_1_q + xlogy(y, q)
        by_log_mean = -w * (y - mean) / (1 + q)
        exact = n * n * (digamma(y + n) - digamma(n) - log_1_q) - n * (y - mean) / (1 + q)
        by_v = w * np.where(v * (1 + y + mean) > _CANCELS, exact, 0.5 * (y - (y - mean) ** 2))
        return LossGradient(
            float(-(w * log_prob).sum()),
            by_log_mean.astype(np.float32),
            (0.5 * by_log_mean + by_v * (v + 1 - _POISSON)).astype(np.float32),
            [of_parameter(by_v * noise, learnt[0])] if learnt else [],
        )


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
        return torch.exp(limited(widened(self.log_overdispersion), LOG_VARIANCE)).unsqueeze(-2)

    def extra_repr(self) -> str:
        return f"targets={self.log_overdispersion.shape[-1]}"
