"""Distributions whose levels are corrected by those at which held-out targets fell: conformal predictive systems.

If a distribution function F is right, the level u = F(y) of a new target is uniform on [0, 1]. If it is not, the levels
u_1 … u_n of targets that were not used in training say how levels are distributed instead, and with G their
distribution function, G(F(y)) is right: a new level is as likely to be the first, the second, … or the last among
n + 1 (Vovk, Shen, Manokhin, Xie: Nonparametric Predictive Distributions Based on Conformal Prediction, 2019).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special
from torch import Tensor

from torchnpn.families import crps, quantiles
from torchnpn.families.mixture import Mixture, mean_and_variance
from torchnpn.families.parametric import Parametric, float64
from torchnpn.families.quantile_between import quantile_between
from torchnpn.families.tails import Tails

Array = NDArray[Any]
Part = Parametric | Mixture
_TURNS = (1e-9, 1e-6, 1e-4, 0.002, 0.01, 0.03, 0.07, 0.13, 0.2, 0.3, 0.4)  # and as many above ½
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)
_MOST_AT_ONCE = 1_000_000  # draws
_ROUNDING = 1e-9  # of a rank, and of differences of levels
_DOUBT = 40  # levels for which half of the slope is believed
_LEAST = np.finfo(np.float64).tiny
_FARTHEST = 37.0  # normal quantile that float64 probabilities have


@dataclass(frozen=True, eq=False)
class Calibrated:
    """P(x ≤ y) = mean over k of G_k(F_k(y)), with F_k the distribution function of a part and G_k that of its levels.

    G_k rises by 1/(n_k + 1) from each held-out level to the next, in a straight line, from 0 at 0 and to 1 at 1.

    `cdf`, `quantile`, `sample` and `crps` are those of this distribution. `log_prob` takes the slope of G from about
    n^⅓ of the levels, since the slope between two neighbours of n levels is noise. `mean` and `variance` are those of
    the parts: levels say where targets fall in a distribution, and not how far out those fall that are never seen.

    Args:
        parts: What is predicted, each of shape (…, targets).
        levels: For each part (n_k, targets) levels of targets that it has not seen.
    """

    parts: tuple[Part, ...]
    levels: tuple[Array, ...]

    def __post_init__(self) -> None:
        if not self.parts or len(self.parts) != len(self.levels):
            raise ValueError(f"Calibrated expects levels for each part, got {len(self.parts)} and {len(self.levels)}.")
        targets = self.batch_shape[-1:]
        for u in self.levels:
            if u.ndim != 2 or u.shape[1:] != targets or not len(u) or not ((u >= 0) & (u <= 1)).all():
                raise ValueError(f"Calibrated expects levels (n, {[*targets]}) from 0 to 1, got shape {u.shape}.")
        object.__setattr__(self, "levels", tuple(np.sort(u, axis=0) for u in self.levels))

    @property
    def batch_shape(self) -> torch.Size:
        return self.parts[0].batch_shape

    @property
    def mean(self) -> Tensor:
        """That of the parts, as if they were right."""
        return mean_and_variance(torch.stack([part.mean for part in self.parts]))[0]

    @property
    def variance(self) -> Tensor:
        """That of the parts, as if they were right."""
        spread = mean_and_variance(torch.stack([part.mean for part in self.parts]))[1]
        return mean_and_variance(torch.stack([part.variance for part in self.parts]))[0] + spread

    def central_levels(self, level: float) -> tuple[float, float]:
        """Levels between which a new target lies with probability `level`, by ranks that are rounded outwards.

        With one part, and rows in random order, the probability that it lies below (above) is (1 - level)/2 at most.

        Raises:
            ValueError: If there are too few held-out targets for a level as high.
        """
        n, outside = sum(map(len, self.levels)), (1 - level) / 2
        low = int(np.floor((n + 1) * outside + _ROUNDING))
        if low < 1:
            needed = int(np.ceil(1 / outside - 1 - _ROUNDING))
            raise ValueError(
                f"A calibrated interval of level {level:g} expects at least {needed} held-out rows, got {n}. Take a "
                f"level of at most {1 - 2 / (n + 1):.4g}, or calibrate on more rows."
            )
        return low / (n + 1), (n + 1 - low) / (n + 1)

    def cdf(self, y: Tensor | float) -> Tensor:
        """P(x ≤ y), in float64."""
        return torch.from_numpy(self._cdf(float64(y)))

    def _cdf(self, y: Array) -> Array:
        each = (
            _share(float64(part.cdf(torch.from_numpy(y))), u) for part, u in zip(self.parts, self.levels, strict=True)
        )
        return np.asarray(sum(each) / len(self.parts))

    def _tails(self, y: Array) -> Tails:
        below = self._cdf(y)
        return Tails(below, 1 - below)

    def log_mass(self, lower: Tensor, upper: Tensor) -> Tensor:
        """log P(lower < x ≤ upper)."""
        return torch.log(self.cdf(upper) - self.cdf(lower))

    def quantile(self, q: Tensor | float) -> Tensor:
        """The smallest y with P(x ≤ y) ≥ q, which lies between the quantiles of the parts."""
        levels = np.array(np.broadcast_to(float64(q), tuple(self.batch_shape)))
        own = np.stack(
            [
                float64(part.quantile(torch.from_numpy(_level(levels, u))))
                for part, u in zip(self.parts, self.levels, strict=True)
            ]
        )
        low, high = own.min(0), own.max(0)
        if len(own) == 1:
            return torch.from_numpy(low)
        if self._is_discrete:
            found = quantiles.search(self._tails, levels, low, high, discrete=True)
        else:
            found = quantile_between(self._tails, levels, low, high)
        found = np.where(levels == 0, low, np.where(levels == 1, high, np.where(low == high, low, found)))
        return torch.from_numpy(found)

    def log_prob(self, y: Tensor | float) -> Tensor:
        """Log density, or log probability for counts: log of the mean of p_k(y) g(F_k(y)), g the slope of G."""
        here = np.broadcast_to(float64(y), tuple(self.batch_shape))
        pooled, logs = np.concatenate(self.levels), []
        for part in self.parts:
            below, at = (part.tails(t) for t in (np.nextafter(here, -np.inf), here))
            logs.append(float64(part.log_prob(torch.tensor(here))) + _log_slope(below, at, pooled))
        return torch.from_numpy(np.logaddexp.reduce(np.stack(logs), 0) - np.log(len(logs)))

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """`n` draws, shape (n, *batch_shape): of a part by chance, at a level that G gives by chance."""
        rows = int(np.prod(self.batch_shape[:-1]))
        flat = [part[np.unravel_index(np.arange(rows), self.batch_shape[:-1])] for part in self.parts]
        draws = torch.empty(n * rows, self.batch_shape[-1], dtype=torch.float64)
        for start in range(0, n * rows, _MOST_AT_ONCE):
            places = np.arange(start, min(start + _MOST_AT_ONCE, n * rows))
            q = torch.rand(len(places), draws.shape[1], generator=generator, dtype=torch.float64).numpy()
            which = torch.randint(len(flat), (len(places),), generator=generator).numpy()
            for k, (part, u) in enumerate(zip(flat, self.levels, strict=True)):
                chosen = np.flatnonzero(which == k)
                if chosen.size:
                    at = torch.from_numpy(_level(q[chosen], u))
                    draws[torch.from_numpy(places[chosen])] = part[places[chosen] % rows].quantile(at).double()
        return draws.reshape(n, *self.batch_shape)

    def crps(self, y: Tensor | float) -> Tensor:
        """Continuous ranked probability score ∫ (P(x ≤ t) - 1{y ≤ t})² dt, by quadrature between quantiles."""
        values = np.array(np.broadcast_to(float64(y), tuple(self.batch_shape)))
        own = [part.crps(torch.from_numpy(values)) for part in self.parts]  # which checks y
        if self._is_discrete:
            low, high = self._ends(crps.TAIL)[0], self._ends(1 - crps.TAIL)[1]
            score = crps.by_counting(self._tails, values, low, high)
        else:
            below = [crps.TAIL, *_TURNS]
            ends = [side for q in (*below, 0.5, *(1 - q for q in below)) for side in self._ends(q)]
            score = self._area(np.sort(np.stack([values, *ends]), axis=0), values)
        return torch.from_numpy(score).to(own[0].device)

    def _ends(self, q: float) -> Array:
        """The least and the largest quantile of all networks of all parts."""
        own = np.concatenate(
            [
                float64(part.members.quantile(q)) if isinstance(part, Mixture) else float64(part.quantile(q))[None]
                for part in self.parts
            ]
        )
        return np.stack([own.min(0), own.max(0)])

    def _area(self, breaks: Array, y: Array) -> Array:
        """∫ (P(x ≤ t) - 1{y ≤ t})² dt from the first of rising breaks to the last, y one of them."""
        total = np.zeros(y.shape)
        for low, high in itertools.pairwise(breaks):
            half = 0.5 * high - 0.5 * low
            for node, weight in zip(_NODES, _WEIGHTS, strict=True):
                below = self._cdf(0.5 * low + 0.5 * high + node * half)
                total += half * weight * (below - (y <= low)) ** 2
        return total

    def scaled(self, shift: Tensor, scale: Tensor) -> Calibrated:
        """The distribution of shift + scale · x, scale > 0."""
        return Calibrated(tuple(part.scaled(shift, scale) for part in self.parts), self.levels)

    def __getitem__(self, rows: Any) -> Calibrated:
        """The variables of some rows."""
        return Calibrated(tuple(part[rows] for part in self.parts), self.levels)

    @property
    def _is_discrete(self) -> bool:
        part = self.parts[0]
        return bool((part.members if isinstance(part, Mixture) else part).support.is_discrete)


def _knots(u: Array) -> tuple[Array, Array]:  # (n,) -> (n + 2,), (n + 2,)
    """Levels, and what G is there."""
    return np.concatenate([[0.0], u, [1.0]]), np.arange(len(u) + 2) / (len(u) + 1)


def _share(F: Array, u: Array) -> Array:  # (…, targets), (n, targets) -> (…, targets)
    """G(F)."""
    return np.stack([np.interp(F[..., j], *_knots(u[:, j])) for j in range(u.shape[1])], -1)


def _level(q: Array, u: Array) -> Array:  # (…, targets), (n, targets) -> (…, targets)
    """The inverse of G at q."""
    return np.stack([np.interp(q[..., j], *_knots(u[:, j])[::-1]) for j in range(u.shape[1])], -1)


def _log_slope(below: Tails, at: Tails, u: Array) -> Array:  # (…, targets) each, (n, targets) -> (…, targets)
    """Logarithm of the mean slope of G between two levels, or of the slope at the second where they are the same.

    In the scale of normal quantiles, z = Φ⁻¹(u), a distribution that is too narrow or biased makes G a straight line.
    So G(u) = Φ(T(z)), with T linear between few of the held-out levels and beyond them, and its slope is
    φ(T(z)) T'(z)/φ(z). Of few levels T is drawn towards z, which is to leave the distribution as it is.
    """
    levels, width = np.broadcast_arrays(at.below, at.below - below.below)
    result = np.empty(levels.shape)
    shares, trust = np.arange(1, bins := max(3, round(len(u) ** (1 / 3)))) / bins, len(u) / (len(u) + _DOUBT)
    for j, column in enumerate(u.T):
        known = special.ndtri(
            np.clip(np.quantile(column, shares, method="weibull"), _LEAST, 1 - np.finfo(np.float64).epsneg)
        )
        apart = np.concatenate([[True], np.diff(known) > _ROUNDING])
        lines = _Lines(known[apart], trust * special.ndtri(shares[apart]) + (1 - trust) * known[apart])
        z = np.clip(_normal_quantile(at)[..., j], -_FARTHEST, _FARTHEST)
        moved, slope = lines(z)
        risen = special.ndtr(moved) - special.ndtr(lines(special.ndtri(below.below[..., j]))[0])
        mean = np.maximum(risen, _LEAST) / np.maximum(width[..., j], _ROUNDING)
        result[..., j] = np.where(
            width[..., j] > _ROUNDING, np.log(mean), 0.5 * (z - moved) * (z + moved) + np.log(slope)
        )
    return result


class _Lines(NamedTuple):
    """A rising function of straight lines: between its knots, and on beyond them; a shift, if there is one knot."""

    knots: Array
    values: Array

    def __call__(self, z: Array) -> tuple[Array, Array]:
        """Value and slope."""
        if len(self.knots) == 1:
            return z + (self.values - self.knots), np.ones(z.shape)
        slopes = np.diff(self.values) / np.diff(self.knots)
        i = np.clip(np.searchsorted(self.knots, z) - 1, 0, len(slopes) - 1)
        return self.values[i] + slopes[i] * (z - self.knots[i]), slopes[i]


def _normal_quantile(at: Tails) -> Array:
    """Φ⁻¹ of P(x ≤ y), with the digits of the smaller tail."""
    return np.asarray(np.where(at.below < 0.5, special.ndtri(at.below), -special.ndtri(at.above)))
