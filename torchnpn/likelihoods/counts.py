"""Counts: a Poisson variable whose rate is uncertain."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from scipy.special import digamma, gammaln, xlogy
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import NegativeBinomial
from torchnpn.likelihoods.base import (
    Array,
    Likelihood,
    LossGradient,
    VarianceParts,
    learnt,
    of_rows,
    share_of_elbo,
    wide_latent,
)
from torchnpn.likelihoods.guards import widened
from torchnpn.likelihoods.limits import LOG_MEAN, LOG_VARIANCE, limited
from torchnpn.likelihoods.positive import MOSTLY_NOISE, log_of_mean, of_parameter, relative_variance, within
from torchnpn.moments import Moments

_POISSON = 1e-8  # relative variance of the rate added to all: a negative binomial this close to Poisson has its digits
_CANCELS = 1e-5  # below, two large terms of a gradient leave fewer digits than their limit has
_MOST_COUNT = 1e15  # for larger counts the closed form of the gradient has no digits left
LOG_RATE_VARIANCE = 4.0  # of a log rate
_BELOW_ONE = 1 - torch.finfo(torch.float64).eps  # the largest p, reached for v μ above 4e15 only


class PoissonCounts(Likelihood):
    """y | o ~ Poisson with rate e^o.

    With o ~ N(m, s) the rate is log-normal with mean μ = exp(m + s/2) and relative variance v = e^s - 1; the gamma with
    these moments makes y negative binomial with n = 1/v and mean μ, so E y = μ, Var y = μ + v μ². For s = 0 that is
    the Poisson distribution. The loss is a mixture of its -log p(y), which judges the prediction as a whole, and of the
    data term of the ELBO, which judges it rate by rate:

        -E log p(y | o) = μ - y m + log y! = -log Poisson(y; μ) + ½ y s.

    The first alone may say "surely 0" by a huge s, whatever the mean is. Therefore s is taken as it is up to 4, which
    is a factor of e² up or down, and drawn back beyond (`limits.limited`): "surely 0" is then said by m; and the second
    term judges the mean itself. Both are formed in float64, because they are differences of large log Γ.

    Args:
        elbo: Share of the ELBO in the loss: 0 for the predictive term alone, 1 for the ELBO alone.
    """

    name, words = "poisson", "a count"
    support = constraints.nonnegative_integer
    separable = True
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

    @staticmethod
    def start(y: Array, weight: Array | None) -> Array:
        return log_of_mean(y, weight)

    def least_kl(self) -> float:
        return MOSTLY_NOISE

    def predict(self, o: Moments) -> NegativeBinomial:
        log_mean, s = _log_rate(o)
        return _counts(log_mean, relative_variance(s, self.overdispersion) + _POISSON)

    def variance_parts(self, o: Moments) -> VarianceParts:
        log_mean, s = _log_rate(o)
        mean = torch.exp(log_mean)
        return VarianceParts.of(mean**2 * torch.expm1(s), mean + mean**2 * torch.exp(s) * self.overdispersion)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        predictive = -self.predict(o).log_prob(y)
        if not self.elbo:
            return of_rows(predictive, o)
        log_mean, s = _log_rate(o)
        at_mean = _counts(log_mean, (0.0 * log_mean + self.overdispersion) + _POISSON)
        bound = 0.5 * y.double() * s - at_mean.log_prob(y)
        return of_rows((1 - self.elbo) * predictive + self.elbo * bound, o)

    def loss_gradient(self, m: Array, s: Array, y: Array, share: Array) -> LossGradient:
        """In closed form, with μ = exp(m + s/2), relative variance v of the rate, and w the share of the row.

        Of the predictive term: ∂s v = v + 1. Of the ELBO, where v = α does not depend on s: ½ y more for ∂s.
        """
        learnt = [parameter.detach().numpy().astype(np.float64) for parameter in self.parameters()]
        if not all(within(log_alpha, LOG_VARIANCE) for log_alpha in learnt) or y.max() > _MOST_COUNT:
            return super().loss_gradient(m, s, y, share)
        s, slope = _drawn_back(s.astype(np.float64), LOG_RATE_VARIANCE)
        log_mean, slope_of_mean = _drawn_back(m + 0.5 * s, LOG_MEAN)
        w, mean = share[:, None], np.exp(log_mean)
        noise = np.exp(s + learnt[0]) if learnt else np.zeros_like(mean)
        v = np.expm1(s, dtype=np.float64) + noise + _POISSON
        log_prob, by_log_mean, by_v = _log_prob(y, mean, v)
        by_log_mean *= slope_of_mean
        loss, by_m, by_s, by_log_alpha = (
            -log_prob,
            by_log_mean,
            0.5 * by_log_mean + by_v * (v + 1 - _POISSON),
            by_v * noise,
        )
        if self.elbo:
            e, alpha = self.elbo, np.exp(learnt[0]) if learnt else 0.0
            at_mean, by_log_mean, by_alpha = _log_prob(y, mean, np.broadcast_to(alpha + _POISSON, mean.shape))
            by_log_mean *= slope_of_mean
            loss, by_m = (1 - e) * loss + e * (0.5 * y * s - at_mean), (1 - e) * by_m + e * by_log_mean
            by_s = (1 - e) * by_s + 0.5 * e * (by_log_mean + y)
            by_log_alpha = (1 - e) * by_log_alpha + e * by_alpha * alpha
        return LossGradient(
            float((w * loss).sum()),
            (w * by_m).astype(np.float32),
            (w * by_s * slope).astype(np.float32),
            [of_parameter(w * by_log_alpha, learnt[0])] if learnt else [],
        )


def _log_rate(o: Moments) -> tuple[Tensor, Tensor]:
    """log E e^x = m + s/2 and s for x ~ o, with s and the sum within limits, in float64."""
    m, s = wide_latent(o)
    s = limited(s, LOG_RATE_VARIANCE)
    return limited(m + 0.5 * s, LOG_MEAN), s


def _drawn_back(x: Array, limit: float) -> tuple[Array, Array | float]:
    """`limited` for arrays, and its slope: 1 up to the limit L, and 1/(1 + 10 z)² at z = |x|/L - 1 beyond."""
    if within(x, limit):
        return x, 1.0
    excess = np.maximum(np.abs(x) / limit - 1, 0.0)
    return np.where(excess > 0, np.sign(x) * limit * (1 + excess / (1 + 10 * excess)), x), (1 + 10 * excess) ** -2


def _counts(log_mean: Tensor, v: Tensor) -> NegativeBinomial:
    """Counts whose rate has the mean e^log_mean and the relative variance v."""
    odds = v * torch.exp(log_mean)
    return NegativeBinomial.unchecked(*torch.broadcast_tensors(1 / v, (odds / (1 + odds)).clamp_max(_BELOW_ONE)))


def _log_prob(y: Array, mean: Array, v: Array) -> tuple[Array, Array, Array]:
    """log p(y) of such counts, and the gradient of -log p by log μ and by v; with n = 1/v, q = v μ:

    log p = log Γ(y + n) - log Γ(n) - log y! - (n + y) log(1 + q) + y log q,
    ∂log μ log p = (y - μ)/(1 + q),    ∂v log p = n (y - μ)/(1 + q) - n² (ψ(y + n) - ψ(n) - log(1 + q)),
    which tends to ½ ((y - μ)² - y) as v falls to zero and its two terms cancel.
    """
    n, q = 1 / v, v * mean
    log_1_q = np.log1p(q)
    log_prob = gammaln(y + n) - gammaln(n) - gammaln(y + 1.0) - (n + y) * log_1_q + xlogy(y, q)
    by_log_mean = (mean - y) / (1 + q)
    exact = n * n * (digamma(y + n) - digamma(n) - log_1_q) + n * by_log_mean
    by_v = np.where(v * (1 + y + mean) > _CANCELS, exact, 0.5 * (y - (y - mean) ** 2))
    return log_prob, by_log_mean, by_v


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
        self.log_overdispersion = learnt(initial_log_overdispersion, targets, replicas)

    @property
    def overdispersion(self) -> Tensor:  # (*replicas, 1, targets)
        return torch.exp(limited(widened(self.log_overdispersion), LOG_VARIANCE)).unsqueeze(-2)
