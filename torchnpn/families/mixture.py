"""Mixtures: what several networks predict together, each with the same say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import crps, quantiles
from torchnpn.families.categorical import Categorical
from torchnpn.families.distribution import Distribution
from torchnpn.families.gaussian import Gaussian
from torchnpn.families.parametric import Parametric
from torchnpn.families.tails import Array, Tails
from torchnpn.finite import clamped
from torchnpn.metrics import normal_mixture_crps
from torchnpn.moments import Moments

_TURNS = (0.01, 0.5, 0.99, 1 - 1e-4, 1 - 1e-7)  # where a distribution function turns; the upper tail may be long
_LOWER_TURNS = (1e-7, 1e-4)  # of variables of any sign, whose lower tail may be long, too
_SPACING = 1 << 12  # of a quantile, in float64 numbers: one part in 10¹²


@dataclass(frozen=True, eq=False)
class Mixture:
    """The equal mixture p(x) = 1/K Σ_k p_k(x) of K members of one family.

    >>> from torchnpn.families import Gaussian
    >>> two = Mixture(Gaussian(torch.tensor([-1.0, 1.0]), torch.tensor([1.0, 1.0])))
    >>> two.mean, two.variance
    (tensor(0.), tensor(2.))
    """

    members: Parametric  # with tensors of shape (K, *batch_shape)

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
        mean, spread = mean_and_variance(m)
        variance = mean_and_variance(s)[0] + spread
        infinite = variance.isinf() & (s.isinf().any(0) | m.isinf().any(0))
        return Moments(mean.to(m.dtype), torch.where(infinite, torch.inf, clamped(variance, m.dtype)))

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
        below: Tensor = self.members.cdf(y).mean(0)
        return below

    def quantile(self, q: Tensor | float) -> Tensor:
        """The smallest y with P(x ≤ y) ≥ q, which lies between the members' own, in float64; carries no gradient."""
        own = self.members.quantile(q)
        levels = torch.as_tensor(q, dtype=torch.float64).cpu()
        levels = levels.expand(own.shape[1:])
        low, high = own.amin(0), own.amax(0)
        found = quantiles.search(
            self._tails,
            levels.numpy(),
            low.double().cpu().numpy(),
            high.double().cpu().numpy(),
            discrete=self.members.support.is_discrete,
            spacing=_SPACING,
        )
        value = clamped(torch.as_tensor(found, device=own.device), own.dtype)
        at_end = ((levels == 0) | (levels == 1)).to(own.device)  # there the ends may be infinite
        return torch.where(at_end, torch.where(levels.to(own.device) == 0, low, high), value)

    def _tails(self, y: Array) -> Tails:
        below, above = self.members.tails(y)
        return Tails(below.mean(0), above.mean(0))

    def crps(self, y: Tensor | float) -> Tensor:
        """Continuous ranked probability score of `y`: in closed form for Gaussians, else by quadrature."""
        members, dtype = self.members, self.members.dtype
        own = members.crps(y).double().cpu().numpy()  # which also checks y
        if isinstance(members, Gaussian):
            m, s = members._numpy()
            return torch.as_tensor(normal_mixture_crps(m, np.sqrt(s), _float64(y))).to(members.device, dtype)
        inner_levels = (*_LOWER_TURNS, *_TURNS) if members.support is constraints.real else _TURNS
        low, *turns, high = (_float64(members.quantile(q)) for q in (crps.TAIL, *inner_levels, 1 - crps.TAIL))
        with np.errstate(all="ignore"):
            if members.support.is_discrete:
                apart = crps.disagreement_on_counts(self._cdfs, low.min(0), high.max(0))
            else:
                inner = np.sort(np.concatenate(turns), axis=0)
                apart = crps.disagreement(self._cdfs, np.stack([low.min(0), *inner, high.max(0)]))
            score = np.maximum((own / len(own)).sum(0) - apart, 0.0)
        return clamped(torch.as_tensor(score, device=members.device), dtype)

    def _cdfs(self, y: Array) -> Array:
        """P(x ≤ y) by each member."""
        return _float64(self.members.cdf(torch.as_tensor(y)))

    def scaled(self, shift: Tensor, scale: Tensor) -> Mixture:
        """The distribution of shift + scale · x, scale > 0."""
        return Mixture(self.members.scaled(shift, scale))

    def __getitem__(self, rows: Any) -> Mixture:
        """The mixtures at these places of the batch."""
        return Mixture(self.members[(slice(None), *(rows if isinstance(rows, tuple) else (rows,)))])

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """`n` draws, shape (n, *batch_shape); from torch's global random state unless a generator is given."""
        draws = self.members.sample(n, generator)  # (n, K, *batch_shape)
        device = draws.device if generator is None else generator.device
        shape = (n, 1, *self.batch_shape)
        chosen = torch.randint(draws.shape[1], shape, generator=generator, device=device).to(draws.device)
        return draws.gather(1, chosen).squeeze(1)


def mixed(distribution: Distribution) -> Mixture | Categorical:
    """The equal mixture over the first dimension of a distribution's tensors; of classes, again one over classes."""
    if isinstance(distribution, Categorical):
        return Categorical(distribution.probs.mean(0))
    if not isinstance(distribution, Parametric):
        raise TypeError(f"mixed expects a member of a family, or classes, got {type(distribution).__name__}.")
    return Mixture(distribution)


def _float64(x: Tensor | float) -> Array:
    array: Array = torch.as_tensor(x, dtype=torch.float64).detach().cpu().numpy()
    return array


def mean_and_variance(x: Tensor) -> tuple[Tensor, Tensor]:
    """Over the first dimension, in float64 and without overflow of the sum."""
    share = x.double() / len(x)
    mean = share.sum(0)
    unknown = mean.isinf()
    deviation = torch.where(unknown, 0.0, x.double() - torch.where(unknown, 0.0, mean))
    return mean, torch.where(unknown, torch.inf, (deviation * (deviation / len(x))).sum(0))
