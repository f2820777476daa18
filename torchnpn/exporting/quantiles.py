"""Quantiles in a fixed number of operations: by a search on the distribution function.

A quantile lies within bounds that mean and standard deviation alone give (Cantelli). The distribution function is asked
at several places between them at once, which leaves one part of the interval, and so on; a straight line through the
last one ends. All is in units of the distribution: y = mean + std t.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import constraints

from torchnpn.exporting.members import distribution_function, erf_of_gaussians
from torchnpn.families import Gaussian, LogNormal, Parametric, ZeroInflated, mean_and_variance

_POINTS = {torch.float32: 31, torch.float64: 9}  # float64 functions are dear: fewer places, more rounds
_WIDTH, _WIDTH_OF_COUNTS = 5e-3, 1e-4  # of the last interval
_SURE = 1e-6  # levels of networks nearer to 0 and 1 are taken as this

Function = Callable[[Tensor], Tensor]
Together = Callable[[Tensor, bool], Tensor]


class Levels(NamedTuple):
    """What is wanted: P(x ≤ y) = q, and within how many standard deviations of the mean of each part that can be."""

    q: Tensor  # (targets or 1, levels)
    own: Tensor  # (parts, targets or 1, levels) at which each part by itself would have it
    low: Tensor  # likewise
    high: Tensor
    widest: float  # from the lowest to the highest, in standard deviations of all

    @classmethod
    def of(cls, q: Tensor, own: Tensor) -> Levels:
        """By Cantelli's inequality, -√((1 - u)/u) ≤ (y - mean)/std ≤ √(u/(1 - u))."""
        u = own.clamp(_SURE, 1 - _SURE)
        low, high = -torch.sqrt((1 - u) / u), torch.sqrt(u / (1 - u))
        between_means = 2.0 * (len(own) > 1) * math.sqrt(len(own))
        widest = float((high.amax(0) - low.amin(0)).max()) * math.sqrt(len(own))
        return cls(q, own, low, high, widest + between_means)


def quantiles(each: Parametric, parts: list[Tensor], levels: Levels, together: Together) -> Tensor:
    """Quantiles (rows, targets, levels) of what members (members, rows, targets) predict.

    Args:
        each: The members.
        parts: For each part of them (members,) shares, zero for those of others.
        levels: What is wanted.
        together: The distribution function of all, from those of the members; or from 2P - 1 of them, if so said.
    """
    if isinstance(each, LogNormal):
        return torch.exp(quantiles(Gaussian.unchecked(each.m, each.s), parts, levels, together))
    if isinstance(each, Gaussian) and len(each.m) == 1:
        z: Tensor = torch.special.ndtri(levels.own[0])
        return each.m[0].unsqueeze(-1) + each.s[0].sqrt().unsqueeze(-1) * z
    mean, std, low, high = _bounds([_moments(each, shares) for shares in parts], levels)
    is_count = each.support.is_discrete
    if is_count:  # so that whole numbers lie within
        low, high = torch.maximum(low - 1 / std, (-1.0 - mean) / std), high + 1 / std
    elif each.support is not constraints.real:
        low = torch.maximum(low, -mean / std)
    if isinstance(each, Gaussian):
        erf = erf_of_gaussians(each, mean, std)
        search = _Search(lambda t: together(erf(t), True), levels.q, torch.float32)
    else:
        F = distribution_function(each, mean, std)
        search = _Search(lambda t: together(F(t), False), levels.q, torch.float64)
    low, high = search.narrowed(low, high, levels.widest, _WIDTH_OF_COUNTS if is_count else _WIDTH)
    if is_count:
        return torch.floor(mean + std * high)
    found = mean + std * search.between(low, high)
    if isinstance(each, ZeroInflated):
        found = torch.where(together(each.p.movedim(0, -1).unsqueeze(-1), False) >= levels.q, 0.0, found)
    return found


def _bounds(parts: list[tuple[Tensor, Tensor]], levels: Levels) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean and standard deviation (rows, targets, 1) of all parts, and in these units where quantiles lie."""
    if len(parts) == 1:
        mean, variance = (part.unsqueeze(-1) for part in parts[0])
        return mean, variance.sqrt(), levels.low[0] + 0 * mean, levels.high[0] + 0 * mean
    m, s = (torch.stack(list(part)) for part in zip(*parts, strict=True))
    mean, spread = mean_and_variance(m)
    mean, std = mean.unsqueeze(-1), torch.sqrt(spread + s.mean(0)).unsqueeze(-1)
    offset, width = (m.unsqueeze(-1) - mean) / std, s.sqrt().unsqueeze(-1) / std
    low = (offset + width * levels.low.unsqueeze(1)).amin(0)  # (rows, targets, levels)
    return mean, std, low, (offset + width * levels.high.unsqueeze(1)).amax(0)


class _Search(NamedTuple):
    """For P(x ≤ t) = q."""

    F: Function  # (rows, targets, points) -> the same
    q: Tensor
    dtype: torch.dtype  # of t

    def narrowed(self, low: Tensor, high: Tensor, widest: float, wanted: float) -> tuple[Tensor, Tensor]:
        """Ends of shorter intervals, (rows, targets, levels), with the quantile between them."""
        points = _POINTS[self.dtype]
        places = torch.arange(1, points + 1, dtype=self.dtype)
        low, goal = low.to(self.dtype).unsqueeze(-1), self.q.to(self.dtype).unsqueeze(-1)
        step = (high.to(self.dtype).unsqueeze(-1) - low) / (points + 1)
        for _ in range(math.ceil(math.log(widest / wanted) / math.log(points + 1))):
            below = self._at(low + step * places) < goal
            low = low + step * below.to(self.dtype).sum(-1, keepdim=True)
            step = step * (1 / (points + 1))
        low, width = low.squeeze(-1), step.squeeze(-1) * (points + 1)
        return low.double(), (low + width).double()

    def between(self, low: Tensor, high: Tensor) -> Tensor:
        """Along the straight line from one end to the other."""
        ends = self._at(torch.stack([low, high], -1).to(self.dtype)).double()
        first, last = ends.unbind(-1)
        share = ((self.q - first) / (last - first).clamp_min(1e-30)).clamp(0.0, 1.0)
        return low + share * (high - low)

    def _at(self, t: Tensor) -> Tensor:  # (rows, targets, levels, points) -> the same
        return self.F(t.flatten(-2)).view(t.shape)


def _moments(each: Parametric, shares: Tensor) -> tuple[Tensor, Tensor]:
    """Of a mixture."""
    mean, spread = mean_and_variance(each.mean, shares)
    return mean, mean_and_variance(each.variance, shares)[0] + spread
