"""Neurons of other families than the Gaussian: Theorem 1's activation, and stochastic binary units."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from torchnpn import families, kernels, maps
from torchnpn.families import ExponentialFamily
from torchnpn.moments import Moments
from torchnpn.nn.layer import Layer, as_moments


class Saturating(Layer):
    """Neurons of a family with the bounded activation v(x) = r - q exp(-τ u(x)) (paper, Theorem 1).

    The incoming moments are matched by a member of the family (the paper's f⁻¹), then v is applied in closed form.

    Args:
        family: Family of the neurons, by class or name.
        tau: Rate τ > 0.
        r: Value where u is infinite.
        q: Height; `None` means r.
        statistic: Which sufficient statistic u is (`maps.saturating`); `None` means the family's own.
    """

    arguments: ClassVar = {
        "family": ExponentialFamily, "tau": float, "r": float, "q": float | None, "statistic": int | None,
    }  # fmt: skip
    later: ClassVar = {"statistic": None}  # in files that do not name it

    def __init__(
        self,
        family: str | type[ExponentialFamily],
        tau: float = 1.0,
        r: float = 1.0,
        q: float | None = None,
        statistic: int | None = None,
    ) -> None:
        super().__init__()
        self.family, self.tau, self.r, self.q, self.statistic = families.resolve(family), tau, r, q, statistic

    def forward(self, o: Moments | Tensor) -> Moments:
        return kernels.saturating(self.family, as_moments(o), self.tau, self.r, self.q, self.statistic)

    def extra_repr(self) -> str:
        height = "" if self.q is None else f", q={self.q:g}"
        of = "" if self.statistic is None else f", statistic={self.statistic}"
        return f"{self.family.__name__.lower()}, tau={self.tau:g}, r={self.r:g}{height}{of}"


class SaturatingKL(Layer):
    """Poisson neurons with v(x) = r (1 - exp(-τ x)), their rate by the paper's KL map instead of c = m.

    c = ¼ (2m - 1 + √((2m - 1)² + 8s)): the variance decides about the rate, too, but the mean is not kept.

    Args:
        tau: Rate τ > 0.
        r: Value where the count is infinite.
    """

    arguments: ClassVar = {"tau": float, "r": float}

    def __init__(self, tau: float = 1.0, r: float = 1.0) -> None:
        super().__init__()
        self.tau, self.r = tau, r

    def forward(self, o: Moments | Tensor) -> Moments:
        return maps.saturating(families.Poisson.project_kl(as_moments(o)), self.tau, self.r)


class Power(Saturating):
    """Beta neurons with the activation x^τ (paper, Table 1)."""

    arguments: ClassVar = {"tau": float}
    later: ClassVar = {}

    def __init__(self, tau: float = 0.5) -> None:
        super().__init__("beta", tau, r=0.0, q=-1.0)


class Bernoulli(Layer):
    """Binary neurons that fire with probability σ(x), as in a sigmoid belief network (paper, Section 2.4).

    For Gaussian x the neuron is Bernoulli with p = E σ(x); its variance p (1 - p) holds the neuron's own chance too.
    """

    def forward(self, o: Moments | Tensor) -> Moments:
        return families.Bernoulli.unchecked(maps.sigmoid(as_moments(o)).mean).moments
