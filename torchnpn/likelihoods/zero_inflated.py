"""Counts with more zeros than a rate explains: some rows cannot be anything else."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import NegativeBinomial, ZeroInflated
from torchnpn.kernels import cpu
from torchnpn.likelihoods.base import Array, Likelihood, VarianceParts, of_rows, wide_latent
from torchnpn.likelihoods.counts import LIMITS, NegativeBinomialCounts, PoissonCounts
from torchnpn.likelihoods.guards import folded, sigmoid_parts
from torchnpn.moments import Moments

_LEAST_MEAN, _ROUNDS = 1e-3, 50
_LEAST_SHARE = 0.05  # of zeros and of others, at the start


class WithZeros(Likelihood):
    """y is 0 with probability σ(o₂), else what a likelihood `others` makes of o₁; outputs are all o₁, then all o₂.

    Subclasses set `others` and say how a zero is scored.
    """

    others: Likelihood

    @property
    def elbo(self) -> float:
        elbo: float = self.others.elbo  # type: ignore[assignment]
        return elbo

    def least_kl(self) -> float | Array:
        return self.others.least_kl()

    def outputs(self, targets: int) -> int:
        return 2 * targets

    def predict(self, o: Moments) -> ZeroInflated:
        o, zero = self._split(o)
        return ZeroInflated.unchecked(self.others.predict(o), sigmoid_parts(zero)[0])

    def variance_parts(self, o: Moments) -> VarianceParts:
        """With V = Var σ(o₂) and mean μ and parts e, a of the others: epistemic (1-P)² e + V (e + μ²)."""
        o, zero = self._split(o)
        P, rest, share = sigmoid_parts(zero)
        V, mean, own = share * P * rest, self.others.predict(o).mean, self.others.variance_parts(o)
        second = own.epistemic + mean**2
        epistemic = rest**2 * own.epistemic + V * second
        return VarianceParts.of(epistemic, rest * own.aleatoric + (1 - share) * P * rest * second)

    @staticmethod
    def _split(o: Moments) -> tuple[Moments, Moments]:
        """What the others take, and the logit of a zero."""
        (own_m, zero_m), (own_s, zero_s) = (part.chunk(2, dim=-1) for part in wide_latent(o))
        return Moments(own_m, own_s), folded(zero_m, zero_s)


class ZeroInflatedPoisson(WithZeros):
    """y is 0 with probability σ(o₂), else a Poisson count with rate e^o₁.

    The outputs are all o₁, then all o₂. With P = E σ(o₂) and the negative binomial of `PoissonCounts` for the count,
    P(y = 0) = P + (1-P) p(0) and P(y) = (1-P) p(y) for y > 0. "Surely 0" is said by P, and the rate is learnt from the
    rows that can be something else. The loss is a mixture, as for counts, of -log P(y) and of a bound on the data term
    of the ELBO in which the mean of the rate takes the place of the rate; it holds for zeros, too, because
    log(P + (1-P) p(0)) is a convex function of the rate.

    Args:
        elbo: Share of that bound in the loss: 0 for the predictive term alone.
    """

    name, words = "zero_inflated_poisson", "a count with many zeros"
    support = constraints.nonnegative_integer
    log_link = True
    simpler = "poisson"
    settings: ClassVar = PoissonCounts.settings
    arguments: ClassVar = {"elbo": float}

    def __init__(self, elbo: float = 0.0) -> None:
        super().__init__()
        self.others: PoissonCounts = PoissonCounts(elbo)

    @classmethod
    def marginal(cls, x: Moments) -> NegativeBinomial:
        """Without a share of zeros, which mean and variance do not tell."""
        return PoissonCounts.marginal(x)

    @staticmethod
    def start(y: Array, weight: Array | None) -> Array:  # (rows, targets) -> (2 · targets,)
        """The most likely ones for one Poisson rate λ: the mean of the counts above 0 is λ/(1 - e^-λ)."""
        mean, positive = (np.average(part, axis=0, weights=weight) for part in (y, y > 0))
        above = rate = np.maximum(mean, _LEAST_MEAN) / np.maximum(positive, _LEAST_MEAN)
        for _ in range(_ROUNDS):
            rate = np.maximum(above * -np.expm1(-rate), _LEAST_MEAN)
        share = np.clip(1 - mean / rate, _LEAST_SHARE, 1 - _LEAST_SHARE)
        return np.concatenate([np.log(rate), np.log(share / (1 - share))])

    def closed_form(self) -> cpu.ClosedForm:
        return partial(cpu.losses.zero_inflated_counts, elbo=self.elbo, limits=LIMITS)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        rate, zero = self._split(o)
        P, rest, _ = sigmoid_parts(zero)
        log_P, log_rest, is_zero = torch.log(P), torch.log(rest), y == 0

        def observed(log_prob: Tensor) -> Tensor:
            own = log_rest + log_prob
            return torch.where(is_zero, torch.logaddexp(log_P, own), own)

        return of_rows(self.others.losses(rate, y, observed), o)


class ZeroInflatedNegativeBinomial(ZeroInflatedPoisson):
    """y is 0 with probability σ(o₂), else a negative binomial count with mean e^o₁ and a learnt overdispersion.

    As `ZeroInflatedPoisson`, with the count of `NegativeBinomialCounts`.

    Args:
        targets: Number of targets, each with its own overdispersion α; 1 for one shared by all.
        initial_log_overdispersion: log α at the start.
        elbo: Share of the bound in the loss.
        replicas: Leading dimensions of the network's replicas.
    """

    name, words = "zero_inflated_negative_binomial", "a count with many zeros"
    simpler = "zero_inflated_poisson"
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
        self.others = NegativeBinomialCounts(targets, initial_log_overdispersion, elbo, replicas=replicas)
