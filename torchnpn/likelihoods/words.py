"""Losses for words of documents: every word of a vocabulary is a target, most of them zero.

All are sums over targets of terms with one output each. The outputs of gamma and Poisson networks are positive: there
the output is a rate, and no exponential stands between the two.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.nn import functional

from torchnpn.families import Bernoulli, Gamma, Poisson, checks, eps, positive_moments
from torchnpn.finite import clamped
from torchnpn.likelihoods import targets
from torchnpn.likelihoods.base import Likelihood, VarianceParts, latent, of_rows, wide_latent
from torchnpn.likelihoods.guards import clamp_straight_through, logit, sigmoid_parts
from torchnpn.moments import Moments

_FAR = 1e30  # logits and counts beyond are taken as this, so that a row of them has a finite loss


class _Presence(Likelihood):
    """Targets in [0, 1], both ends included; the loss is -y log P - (1 - y) log(1 - P)."""

    separable = True

    def check_targets(self, y: Tensor) -> None:
        name = type(self).__name__
        targets.check(name, y, constraints.real)
        checks.require((y >= 0) & (y <= 1), y, f"{name} expects targets from 0 to 1", "Divide by the largest of a row.")


class CrossEntropy(_Presence):
    """Cross-entropy of y in [0, 1] with P = E σ(o) for a Gaussian logit o, by P ≈ σ(m/√(1 + π s/8)).

    One scaled logit, so that log P and log(1 - P) keep their digits at the price of a plain network's loss; P is off by
    at most 0.02.
    """

    def predict(self, o: Moments) -> Bernoulli:
        return Bernoulli.unchecked(self._logits(o).sigmoid())

    def variance_parts(self, o: Moments) -> VarianceParts:
        """Total P(1 - P), of which Var σ(o) is epistemic."""
        _, _, share = sigmoid_parts(logit(*latent(o)))
        return VarianceParts.split(self.predict(o).variance, share)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        z = self._logits(o)
        return (functional.softplus(z) - y.to(z.dtype) * z).sum(-1)

    def _logits(self, o: Moments) -> Tensor:
        m, s = latent(o)
        return clamp_straight_through(m * torch.rsqrt(1 + math.pi / 8 * s), -_FAR, _FAR)


class BernoulliPoisson(_Presence):
    """Cross-entropy of y in [0, 1] with P = E(1 - e^-o): the chance that a count with rate o is not zero.

    For o ~ gamma(c, d) with the output's moments E e^-o = (1 + 1/d)^-c, so with the relative variance v = s/m² it is
    log(1 - P) = -log(1 + v m)/v, exactly.
    """

    def predict(self, o: Moments) -> Bernoulli:
        return Bernoulli.unchecked(-torch.expm1(self._log_absent(o)))

    def variance_parts(self, o: Moments) -> VarianceParts:
        """Total P(1 - P), of which Var e^-o = (1 + 2/d)^-c - (1 + 1/d)^-2c is epistemic."""
        m, v = positive_moments(Moments(*latent(o)))
        total = self.predict(o).variance
        epistemic = torch.exp(-torch.log1p(2 * v * m) / v) - torch.exp(-2 * torch.log1p(v * m) / v)
        epistemic = torch.minimum(epistemic.clamp_min(0), total)
        return VarianceParts(total, epistemic, total - epistemic)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        absent = self._log_absent(o)
        y = y.to(absent.dtype)
        return -(y * torch.log(-torch.expm1(absent)) + (1 - y) * absent).sum(-1)

    def _log_absent(self, o: Moments) -> Tensor:
        m, v = positive_moments(Moments(*wide_latent(o, torch.float32)))
        return -torch.log1p(v * m) / v


class PoissonRate(Likelihood):
    """The paper's error for counts, E = c - y log c with the rate c = o_m, for counts y ≥ 0 that may have been scaled.

    What y alone decides, log y!, is left out. The rate is taken as at least 1e-7, with its own gradient.
    """

    support = constraints.nonnegative
    separable = True

    def predict(self, o: Moments) -> Poisson:
        return Poisson.unchecked(self._rate(o))

    def variance_parts(self, o: Moments) -> VarianceParts:
        """Var c is epistemic, the rate itself is the variance of a count."""
        return VarianceParts.of(latent(o)[1], self._rate(o))

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        c = self._rate(o)
        return of_rows(c - y.to(c.dtype).clamp_max(_FAR) * torch.log(c), o)

    def _rate(self, o: Moments) -> Tensor:
        m, _ = latent(o)
        return clamp_straight_through(m, eps(m.dtype))


class GammaWords(Likelihood):
    """-log p(y + ε) of the gamma with the output's moments; ε > 0 because an absent word, y = 0, has no density.

    -log p = log Γ(c) - c log d - (c - 1) log(y + ε) + d (y + ε),  c = m²/s, d = m/s.

    Args:
        epsilon: Added to every target; below 0.01 or so the zeros decide everything.
    """

    support = constraints.nonnegative
    separable = True
    arguments: ClassVar = {"epsilon": float}

    def __init__(self, epsilon: float = 0.01) -> None:
        super().__init__()
        if not epsilon > 0:
            raise ValueError(f"GammaWords expects epsilon, added to every target, > 0, got {epsilon}.")
        self.epsilon = epsilon

    def predict(self, o: Moments) -> Gamma:
        """Of y + ε."""
        return Gamma.project(Moments(*latent(o)))

    def variance_parts(self, o: Moments) -> VarianceParts:
        return VarianceParts.all_epistemic(latent(o)[1])

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        p = self.predict(Moments(*wide_latent(o, torch.float32)))
        y = clamped(y.to(p.c.dtype) + self.epsilon)
        terms = torch.lgamma(p.c) - p.c * torch.log(p.d) - (p.c - 1) * torch.log(y) + clamped(p.d * y)
        return of_rows(terms, o)
