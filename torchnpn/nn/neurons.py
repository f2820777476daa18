"""Neurons of other families than the Gaussian: Theorem 1's activation, and stochastic binary units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from torchnpn import families, kernels, maps
from torchnpn.families import ExponentialFamily
from torchnpn.moments import Moments
from torchnpn.nn.inputs import as_moments


class Saturating(nn.Module):
    """Neurons of a family with the bounded activation v(x) = r - q exp(-τ u(x)) (paper, Theorem 1).

    The incoming moments are matched by a member of the family (the paper's f⁻¹), then v is applied in closed form.

    Args:
        family: Family of the neurons, by class or name.
        tau: Rate τ > 0.
        r: Value where u is infinite.
        q: Height; `None` means r.
    """

    arguments: ClassVar[Mapping[str, Any]] = {"family": ExponentialFamily, "tau": float, "r": float, "q": float | None}

    def __init__(
        self, family: str | type[ExponentialFamily], tau: float = 1.0, r: float = 1.0, q: float | None = None
    ) -> None:
        super().__init__()
        self.family, self.tau, self.r, self.q = families.resolve(family), tau, r, q

    def forward(self, o: Moments | Tensor) -> Moments:
        return kernels.saturating(self.family, as_moments(o), self.tau, self.r, self.q)

    def extra_repr(self) -> str:
        height = "" if self.q is None else f", q={self.q:g}"
        return f"{self.family.__name__.lower()}, tau={self.tau:g}, r={self.r:g}{height}"


class Power(Saturating):
    """Beta neurons with the activation x^τ (paper, Table 1)."""

    arguments: ClassVar[Mapping[str, Any]] = {"tau": float}

    def __init__(self, tau: float = 0.5) -> None:
        super().__init__("beta", tau, r=0.0, q=-1.0)


class Bernoulli(nn.Module):
    """Binary neurons that fire with probability σ(x), as in a sigmoid belief network (paper, Section 2.4).

    For Gaussian x the neuron is Bernoulli with p = E σ(x); its variance p (1 - p) holds the neuron's own chance too.
    """

    arguments: ClassVar[Mapping[str, Any]] = {}

    def forward(self, o: Moments | Tensor) -> Moments:
        return families.Bernoulli.unchecked(maps.sigmoid(as_moments(o)).mean).moments
