"""The paper's own likelihoods: the network's output is not a latent behind the target, it *is* the target."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import constraints

from torchnpn import families
from torchnpn.families import ExponentialFamily, Gaussian, Poisson, eps
from torchnpn.likelihoods import targets
from torchnpn.likelihoods.base import Likelihood, VarianceParts, latent, of_rows, wide_latent
from torchnpn.likelihoods.guards import clamp_straight_through, widened
from torchnpn.moments import Moments

_LEAST_VARIANCE = 1e-6  # of a directly predicted Gaussian: a point has no density; for targets of about unit scale
_LEAST_SHARE = 1e-4  # of ε: the best variance is never below ε itself


class KLToTarget(Likelihood):
    """The paper's error for Gaussian outputs: KL(N(y, ε) ‖ N(o_m, o_s)) (Section 3.2, corrected).

    E = ½ [ε/s + (m - y)²/s - 1 + log s - log ε]. The paper prints the difference without its square, and names the
    other direction of KL. The best s is ε + (m - y)². It is taken as at least 1e-4 ε, with the gradient of s itself, so
    that a variance of zero has a finite loss and can grow.

    Args:
        epsilon: Variance ε of the target.
    """

    separable = True
    arguments: ClassVar = {"epsilon": float}

    def __init__(self, epsilon: float) -> None:
        super().__init__()
        if not epsilon > 0:
            raise ValueError(f"KLToTarget expects epsilon, the target's variance, > 0, got {epsilon}.")
        self.epsilon = epsilon

    def predict(self, o: Moments) -> Gaussian:
        return Gaussian.unchecked(*self._output(*latent(o)))

    def variance_parts(self, o: Moments) -> VarianceParts:
        return VarianceParts.all_epistemic(self._output(*latent(o))[1])

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        m, s = self._output(*wide_latent(o))
        z2 = ((m - widened(y)) / s.sqrt()) ** 2
        return of_rows(0.5 * (self.epsilon / s + z2 - 1 + torch.log(s) - math.log(self.epsilon)), o)

    def _output(self, m: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        return m, clamp_straight_through(s, _LEAST_SHARE * self.epsilon)


class SquaredError(Likelihood):
    """E (y - o)² = (y - o_m)² + o_s; the prediction is N(o_m, o_s), in which no noise is modelled."""

    separable = True

    def predict(self, o: Moments) -> Gaussian:
        return Gaussian.unchecked(*latent(o))

    def variance_parts(self, o: Moments) -> VarianceParts:
        return VarianceParts.all_epistemic(latent(o)[1])

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        m, s = wide_latent(o)
        return of_rows((widened(y) - m) ** 2 + s, o)


class Direct(Likelihood):
    """y ~ the member of a family that has the output's moments (`from_moments`); the loss is -log p(y).

    For Poisson that is E = Σ (c - y log c + log y!) with c = o_m. A point has no density, nor has a mean outside the
    support: variances on the reals are taken as at least 1e-6, means elsewhere as at least 1e-7 (and that far below 1),
    with their own gradients, so that they find back. Gumbel's -log p grows like exp(m - y): keep m near the targets.

    Args:
        family: A family or its name.
        known: Constants of the family, such as Weibull's `shape`.
    """

    separable = True
    arguments: ClassVar = {"family": ExponentialFamily, "known": dict}

    def __init__(self, family: str | type[ExponentialFamily], **known: float) -> None:
        super().__init__()
        self.family, self.known = families.resolve(family), known

    def predict(self, o: Moments) -> ExponentialFamily:
        (m, s), support = latent(o), self.family.support
        unit = eps(m.dtype)
        if support is constraints.real:
            s = clamp_straight_through(s, _LEAST_VARIANCE)
        else:
            m = clamp_straight_through(
                m, unit, 1 - unit if support in (constraints.unit_interval, constraints.boolean) else math.inf
            )
        return self.family.project(Moments(m, s), **self.known)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        return of_rows(-self.predict(Moments(*wide_latent(o, torch.float32))).log_prob(y), o)

    def variance_parts(self, o: Moments) -> VarianceParts:
        """The output's own variance is epistemic; what the family adds to it, as Poisson may, is aleatoric."""
        total = self.predict(o).variance
        epistemic = torch.minimum(latent(o)[1], total)
        return VarianceParts(total, epistemic, total - epistemic)

    def check_targets(self, y: Tensor) -> None:
        targets.check(f"Direct({self.family.__name__})", y, self.family.support)

    def extra_repr(self) -> str:
        return ", ".join([self.family.__name__.lower(), *(f"{name}={value:g}" for name, value in self.known.items())])


class PoissonKL(Likelihood):
    """y ~ Poisson(c) with the paper's map from an output's moments, c = ¼ (2m - 1 + √((2m - 1)² + 8s)); the loss is
    -log p(y) = c - y log c + log y! (supplement). `Direct("poisson")` has c = m, which keeps the mean.
    """

    separable = True

    def predict(self, o: Moments) -> Poisson:
        return Poisson.unchecked(Poisson.project_kl(Moments(*latent(o))).c.clamp_min(eps(o.mean.dtype)))

    def variance_parts(self, o: Moments) -> VarianceParts:
        c = self.predict(o).c
        return VarianceParts.of(torch.zeros_like(c), c)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        c = Poisson.project_kl(Moments(*wide_latent(o))).c
        least = clamp_straight_through(c, eps(torch.float32))
        return of_rows(-Poisson.unchecked(least).log_prob(widened(y)), o)

    def check_targets(self, y: Tensor) -> None:
        targets.check("PoissonKL", y, Poisson.support)
