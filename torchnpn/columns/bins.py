"""A piecewise-linear encoding of features: beside each one, how far it has come through each of a few bins.

A network of small weights is smooth, and bends at places that it must find. Given the bins of a feature, a bend at any
of their ends is one weight (Gorishniy, Rubachev, Babenko: On Embeddings for Numerical Features, NeurIPS 2022).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from torchnpn import maps
from torchnpn.io import checks
from torchnpn.moments import Moments

Array = NDArray[Any]
_MOST_BINS = 8  # of a feature
_ROWS_IN_BIN = 40
_MOST_ENCODED = 600  # inputs in all, and no more than rows: else bins are fewer, or none
_LEAST_STD = 0.1  # of an encoded value, so that one that seldom changes is not blown up
_MOST_ROWS = 100_000  # that bins are learnt from


class Bins(NamedTuple):
    """Bins of standardised features: e = min(max((z - left)/(right - left), 0), 1), centred and scaled.

    The first bin of a feature has no 0 to stop at, and the last no 1: beyond the training rows a straight line goes on,
    and the further it goes the less is known of it.
    """

    feature: Array  # (bins,) which feature it is of
    left: Array  # (bins,)
    right: Array  # (bins,) > left
    mean: Array  # (bins,) of e in the training rows
    scale: Array  # (bins,) > 0

    @classmethod
    def learn(cls, z: Array) -> Self:  # (rows, features), NaN where a value is missing
        """Bins that hold equally many rows, or end at every value where a feature has only a few of them.

        A feature of two values has none: there is nothing between them. Where that would make too many inputs, bins are
        wider, or there are none at all.
        """
        limit = min(_MOST_ENCODED, len(z)) - z.shape[1]
        z = z[:: -(-len(z) // _MOST_ROWS)]
        most = min(_MOST_BINS, max(2, len(z) // _ROWS_IN_BIN))
        ends = _ends_within(limit, [column[~np.isnan(column)] for column in z.T], most)
        feature = np.repeat(np.arange(len(ends)), [max(len(one) - 1, 0) for one in ends]).astype(np.int64)
        left = np.concatenate([np.empty(0), *(one[:-1] for one in ends)])
        right = np.concatenate([np.empty(0), *(one[1:] for one in ends)])
        lowest, highest = _stops(feature)
        passed = np.clip((z[:, feature] - left) / (right - left), lowest, highest)
        known = np.maximum((~np.isnan(passed)).sum(0), 1)
        mean = np.nansum(passed, 0) / known
        std = np.sqrt(np.nansum((passed - mean) ** 2, 0) / known)
        return cls(feature, left, right, mean, np.maximum(std, _LEAST_STD))

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], features: int) -> Self:
        """The inverse of `to_arrays`; a ValueError for anything that cannot have been learnt."""
        shape = (np.asarray(arrays["bins.feature"]).size,)
        found = cls(*(checks.array(f"bins.{name}", arrays, shape) for name in cls._fields))
        feature = found.feature.astype(np.int64)
        if not ((feature == found.feature) & (feature >= 0) & (feature < features)).all():
            raise ValueError(f"bins should be of features from 0 to {features - 1}")
        if not ((found.right > found.left) & (found.scale >= _LEAST_STD)).all():
            raise ValueError("bins should end above where they begin, and have a scale")
        return found._replace(feature=feature)

    def to_arrays(self) -> dict[str, Array]:
        """What a model file holds of them."""
        return {f"bins.{name}": np.asarray(part, np.float64) for name, part in self._asdict().items()}

    def beside(self, z: Moments) -> Moments:  # (rows, features) -> (rows, features + bins)
        """The features, and the moments of their encoded values if they are Gaussian, as a missing one is."""
        if not len(self.feature):
            return z
        feature, left, width, mean, scale = (
            torch.from_numpy(part if part.dtype == np.int64 else part.astype(np.float32))
            for part in (self.feature, self.left, self.right - self.left, self.mean, self.scale)
        )
        inside = (z.mean[:, feature] - left) / width
        if z.variance is None:
            lowest, highest = (torch.from_numpy(stop) for stop in _stops(self.feature))
            return Moments(torch.cat([z.mean, (inside.clamp(lowest, highest) - mean) / scale], 1))
        passed = self._passed(Moments(inside, z.variance[:, feature] / width**2))
        assert passed.variance is not None
        encoded = Moments((passed.mean - mean) / scale, passed.variance / scale**2)
        return Moments(*(torch.cat(parts, 1) for parts in zip(z, encoded, strict=True)))  # type: ignore[arg-type]

    def _passed(self, e: Moments) -> Moments:
        """Moments of e, stopped at 0 and 1 where its bin has a stop: max(e, 0), 1 - max(1 - e, 0) or both."""
        lowest, highest = _stops(self.feature)
        both, above = maps.hardtanh(e, 0.0, 1.0), maps.relu(e)
        below = maps.relu(Moments(1 - e.mean, e.variance))
        is_first, is_last = torch.from_numpy(np.isinf(lowest)), torch.from_numpy(np.isinf(highest))
        mean = both.mean.where(~is_first, 1 - below.mean).where(~is_last, above.mean)
        variances = (part.variance for part in (both, below, above))
        s, s_below, s_above = (torch.zeros_like(mean) if s is None else s for s in variances)
        return Moments(mean, s.where(~is_first, s_below).where(~is_last, s_above))


def _stops(feature: Array) -> tuple[Array, Array]:  # (bins,) -> (bins,), (bins,)
    """Where the encoded values of each bin stop, below and above."""
    change = feature[1:] != feature[:-1]
    is_first, is_last = np.append(True, change), np.append(change, True)
    lowest, highest = np.where(is_first, -np.inf, 0.0), np.where(is_last, np.inf, 1.0)
    return lowest.astype(np.float32)[: len(feature)], highest.astype(np.float32)[: len(feature)]


def _ends_within(limit: int, columns: list[Array], most: int) -> list[Array]:
    """Ends of bins, at most so many of a feature, and fewer or none where there would be more in all than the limit."""
    while most > 1 and limit > 0:
        ends = [_ends(column, most) for column in columns]
        if sum(max(len(one) - 1, 0) for one in ends) <= limit:
            return ends
        most //= 2
    return []


def _ends(values: Array, most: int) -> Array:
    """Ends of at most so many bins; none where there is nothing to bend."""
    different = np.unique(values)
    ends = different if len(different) <= most + 1 else np.unique(np.quantile(values, np.linspace(0, 1, most + 1)))
    return ends if len(ends) > 2 else np.empty(0)
