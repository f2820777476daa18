"""Mixtures: what several networks predict together, with equal or other weights."""

from __future__ import annotations

import math
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
from torchnpn.families.parametric import Parametric, float64
from torchnpn.families.quantile_between import quantile_between
from torchnpn.families.tails import Array, Tails
from torchnpn.finite import clamped
from torchnpn.metrics import normal_mixture_crps
from torchnpn.moments import Moments

_TURNS = (0.01, 0.5, 0.99, 1 - 1e-4, 1 - 1e-7)  # where a distribution function turns; the upper tail may be long
_LOWER_TURNS = (1e-7, 1e-4)  # of variables of any sign, whose lower tail may be long, too


@dataclass(frozen=True, eq=False)
class Mixture:
    """The mixture p(x) = Σ_k w_k p_k(x) of K members of one family, equal ones if no weights are given.

    >>> from torchnpn.families import Gaussian
    >>> two = Mixture(Gaussian(torch.tensor([-1.0, 1.0]), torch.tensor([1.0, 1.0])))
    >>> two.mean, two.variance
    (tensor(0.), tensor(2.))
    """

    members: Parametric  # with tensors of shape (K, *batch_shape)
    weights: Tensor | None = None  # (K,) above zero, with a sum of one

    def __post_init__(self) -> None:
        if not self.members.batch_shape:
            raise ValueError("Mixture expects members along the first dimension of their tensors, got single numbers.")
        w, count = self.weights, self.members.batch_shape[0]
        if w is not None and (w.shape != (count,) or not bool((w > 0).all()) or abs(float(w.sum()) - 1) > 1e-5):
            raise ValueError(
                f"Mixture expects {count} weights above zero with a sum of one, one for each member, got {w}."
            )

    @property
    def _shares(self) -> Tensor:  # (K, 1, …) in float64
        """w, beside the members' tensors."""
        count, batch = self.members.batch_shape[0], self.batch_shape
        w = torch.full((count,), 1 / count, dtype=torch.float64) if self.weights is None else self.weights
        return w.to(self.members.device, torch.float64).reshape(count, *[1] * len(batch))

    @property
    def batch_shape(self) -> torch.Size:
        return self.members.batch_shape[1:]

    @property
    def moments(self) -> Moments:
        """E x = mean of the members' means; Var x = mean of their variances + variance of their means."""
        m, s = self.members.mean, self.members.variance
        mean, spread = mean_and_variance(m, self.weights)
        variance = mean_and_variance(s, self.weights)[0] + spread
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
        """Log density, or log probability for counts, of `y`: log Σ_k w_k p_k(y)."""
        logs = self.members.log_prob(y)
        return torch.logsumexp(logs + self._shares.log().to(logs.dtype), 0)

    def cdf(self, y: Tensor | float) -> Tensor:
        """P(x ≤ y)."""
        below = self.members.cdf(y)
        return (self._shares.to(below.dtype) * below).sum(0)

    def quantile(self, q: Tensor | float) -> Tensor:
        """The smallest y with P(x ≤ y) ≥ q, which lies between the members' own, in float64; carries no gradient."""
        own = self.members.quantile(q)
        levels = torch.as_tensor(q, dtype=torch.float64).cpu()
        levels = levels.expand(own.shape[1:])
        low, high = own.amin(0), own.amax(0)
        place = levels.numpy(), float64(low), float64(high)
        if self.members.support.is_discrete:
            found = quantiles.search(self.tails, *place, discrete=True)
        else:
            found = quantile_between(self.tails, *place)
        value = clamped(torch.as_tensor(found, device=own.device), own.dtype)
        at_end = ((levels == 0) | (levels == 1)).to(own.device)  # there the ends may be infinite
        return torch.where(at_end, torch.where(levels.to(own.device) == 0, low, high), value)

    def log_mass(self, lower: Tensor, upper: Tensor) -> Tensor:
        """log P(lower < x ≤ upper)."""
        logs = self.members.log_mass(lower, upper)
        return torch.logsumexp(logs + self._shares.log().to(logs.dtype), 0)

    def tails(self, y: Array) -> Tails:
        """P(x ≤ y) and P(x > y) of float64 numbers, each with its own digits."""
        w = self._shares.cpu().numpy()
        below, above = self.members.tails(y)
        return Tails((w * below).sum(0), (w * above).sum(0))

    def crps(self, y: Tensor | float) -> Tensor:
        """Continuous ranked probability score of `y`: in closed form for Gaussians, else by quadrature."""
        members, dtype = self.members, self.members.dtype
        own = members.crps(y).double().cpu().numpy()  # which also checks y
        w = self._shares.cpu().numpy()
        if isinstance(members, Gaussian):
            m, s = members._numpy()
            return torch.as_tensor(normal_mixture_crps(m, np.sqrt(s), float64(y), w)).to(members.device, dtype)
        inner_levels = (*_LOWER_TURNS, *_TURNS) if members.support is constraints.real else _TURNS
        low, *turns, high = (float64(members.quantile(q)) for q in (crps.TAIL, *inner_levels, 1 - crps.TAIL))
        with np.errstate(all="ignore"):
            if members.support.is_discrete:
                apart = crps.disagreement_on_counts(self._cdfs, w, low.min(0), high.max(0))
            else:
                inner = np.sort(np.concatenate(turns), axis=0)
                apart = crps.disagreement(self._cdfs, w, np.stack([low.min(0), *inner, high.max(0)]))
            score = np.maximum((w * own).sum(0) - apart, 0.0)
        return clamped(torch.as_tensor(score, device=members.device), dtype)

    def _cdfs(self, y: Array) -> Array:
        """P(x ≤ y) by each member."""
        return float64(self.members.cdf(torch.as_tensor(y)))

    def scaled(self, shift: Tensor, scale: Tensor) -> Mixture:
        """The distribution of shift + scale · x, scale > 0."""
        return Mixture(self.members.scaled(shift, scale), self.weights)

    def __getitem__(self, rows: Any) -> Mixture:
        """The mixtures at these places of the batch."""
        return Mixture(self.members[(slice(None), *(rows if isinstance(rows, tuple) else (rows,)))], self.weights)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """`n` draws, shape (n, *batch_shape); from torch's global random state unless a generator is given."""
        draws = self.members.sample(n, generator)  # (n, K, *batch_shape)
        device = draws.device if generator is None else generator.device
        shape = (n, 1, *self.batch_shape)
        if self.weights is None:
            chosen = torch.randint(draws.shape[1], shape, generator=generator, device=device).to(draws.device)
        else:
            w = self.weights.to(device, torch.float64)
            chosen = torch.multinomial(w, math.prod(shape), replacement=True, generator=generator)
            chosen = chosen.reshape(shape).to(draws.device)
        return draws.gather(1, chosen).squeeze(1)


def mixed(distribution: Distribution, weights: Tensor | None = None) -> Mixture | Categorical:
    """The mixture over the first dimension of a distribution's tensors; of classes, again one over classes."""
    if isinstance(distribution, Categorical):
        probs = distribution.probs
        return Categorical(probs.mean(0) if weights is None else torch.tensordot(weights.to(probs), probs, 1))
    if not isinstance(distribution, Parametric):
        raise TypeError(f"mixed expects a member of a family, or classes, got {type(distribution).__name__}.")
    return Mixture(distribution, weights)


def mean_and_variance(x: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Over the first dimension, each entry with its weight, in float64 and without overflow of the sum."""
    w = 1 / len(x) if weights is None else weights.to(x.device, torch.float64).reshape(-1, *[1] * (x.dim() - 1))
    mean = (x.double() * w).sum(0)
    unknown = mean.isinf()
    deviation = torch.where(unknown, 0.0, x.double() - torch.where(unknown, 0.0, mean))
    return mean, torch.where(unknown, torch.inf, (deviation * (deviation * w)).sum(0))
