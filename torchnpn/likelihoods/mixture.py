"""Mixtures: what several networks predict together, each with the same say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from torchnpn.families import ExponentialFamily
from torchnpn.families.checks import require
from torchnpn.likelihoods.base import VarianceParts
from torchnpn.likelihoods.categorical import Categorical
from torchnpn.moments import Moments

_HALVINGS = 52  # the bits of a float64


@dataclass(frozen=True, eq=False)
class Mixture:
    """The equal mixture p(x) = 1/K Σ_k p_k(x) of K members of one family.

    >>> from torchnpn.families import Gaussian
    >>> two = Mixture(Gaussian(torch.tensor([-1.0, 1.0]), torch.tensor([1.0, 1.0])))
    >>> two.mean, two.variance
    (tensor(0.), tensor(2.))
    """

    members: ExponentialFamily  # with tensors of shape (K, *batch_shape)

    def __post_init__(self) -> None:
        if not self.members.batch_shape:
            raise ValueError("Mixture expects members along the first dimension of their tensors, got single numbers.")

    @property
    def batch_shape(self) -> torch.Size:
        return self.members.batch_shape[1:]

    @property
    def moments(self) -> Moments:
        """E x = mean of the members' means; Var x = mean of their variances + variance of their means."""
        m, s = self.members.mean, self.members.variance
        return Moments(m.mean(0), s.mean(0) + m.var(0, correction=0))

    @property
    def mean(self) -> Tensor:
        return self.moments.mean

    @property
    def variance(self) -> Tensor:
        variance = self.moments.variance
        assert variance is not None
        return variance

    def log_prob(self, y: Tensor | float) -> Tensor:
        """Log density, or log probability for counts, of `y`: log Σ_k p_k(y) - log K."""
        logs = self.members.log_prob(y)
        return torch.logsumexp(logs, 0) - torch.log(torch.full_like(logs[0], len(logs)))

    def cdf(self, y: Tensor | float) -> Tensor:
        """P(x ≤ y)."""
        return self.members.cdf(y).mean(0)

    def quantile(self, q: Tensor | float) -> Tensor:
        """The smallest y with P(x ≤ y) ≥ q; it lies between the members' own. Carries no gradient."""
        q = torch.as_tensor(q, dtype=self.members.dtype, device=self.members.device)
        require((q >= 0) & (q <= 1), q, "Mixture.quantile expects probabilities in [0, 1]")
        with torch.no_grad():
            own = self.members.quantile(q)
            low, high = own.amin(0), own.amax(0)
            finite = low.isfinite() & high.isfinite()  # others are those of q = 0 or 1
            bisection = _first_count if self.members.support.is_discrete else _first_point
            ends = (torch.where(finite, end, 0.0) for end in (low, high))
            return torch.where(finite, bisection(lambda y: self.cdf(y) >= q, *ends), torch.where(q > 0, high, low))

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """`n` draws, shape (n, *batch_shape); from torch's global random state unless a generator is given."""
        draws = self.members.sample(n, generator)  # (n, K, *batch_shape)
        device = draws.device if generator is None else generator.device
        shape = (n, 1, *self.batch_shape)
        chosen = torch.randint(draws.shape[1], shape, generator=generator, device=device).to(draws.device)
        return draws.gather(1, chosen).squeeze(1)


def mixed(distribution: ExponentialFamily | Categorical) -> Mixture | Categorical:
    """The equal mixture over the first dimension of a distribution's tensors; of classes, again one over classes."""
    if isinstance(distribution, Categorical):
        return Categorical(distribution.probs.mean(0))
    return Mixture(distribution)


def mixture_parts(parts: VarianceParts, means: Tensor) -> VarianceParts:
    """Variance of a mixture and its parts: what members disagree on is epistemic, since more data would settle it.

    Args:
        parts: Of the members, (K, …).
        means: Of the members' predictive distributions, (K, …).
    """
    return VarianceParts.of(parts.epistemic.mean(0) + means.var(0, correction=0), parts.aleatoric.mean(0))


def _first_point(reached: Callable[[Tensor], Tensor], low: Tensor, high: Tensor) -> Tensor:
    """The smallest y in [low, high] that has reached it, as `high` has; positive ends are halved in their logarithm."""
    high = torch.where(reached(low), low, high)
    for _ in range(_HALVINGS):
        middle = torch.where(low > 0, (low.abs().sqrt() * high.abs().sqrt()).clamp(low, high), 0.5 * (low + high))
        above = reached(middle)
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    return high


def _first_count(reached: Callable[[Tensor], Tensor], low: Tensor, high: Tensor) -> Tensor:
    """The same among whole numbers."""
    high = torch.where(reached(low), low, high)
    while bool((high - low > 1).any()):
        middle = torch.floor(0.5 * (low + high))
        above = reached(middle)
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    return high
