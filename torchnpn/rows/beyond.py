"""Rows beyond the training rows, outside their range or in a hole between their values: outputs are less certain.

Among the training rows an output f changes along feature j with a slope of g, in the root mean square; features are in
standard units. Beyond them all that is known of f is that it goes on changing like that: its slope and its curvature
are unknown numbers of the size g. At a distance d from their range, Taylor's formula leaves a deviation of
g (d + d²/2); in a hole of width w between two values, a straight line is wrong by g d (w - d)/2. Together, with an
endless w outside, that is g d min(w - d, 2 + d)/2.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from torchnpn.io import checks
from torchnpn.moments import Moments

Array = NDArray[Any]
_LEAST_HOLE = 0.25  # standard deviations: less is no hole
_LARGEST_DISTANCE = 10.0


class Beyond(NamedTuple):
    """Where training rows were, and how fast outputs change there."""

    least: Array  # (features,) of the training rows, standardised
    most: Array  # (features,)
    holes: Array  # (holes, 3) which feature each is of, where it begins and where it ends
    slope: Array  # (outputs, features) mean square of g; of the first outputs

    @classmethod
    def learn(cls, z: Array, slope: Array) -> Self:
        """From standardised rows (rows, features), NaN where a value is missing, and the slopes."""
        values = [np.unique(column[~np.isnan(column)]) for column in z.T]
        least, most = (np.array([one[end] if len(one) else 0.0 for one in values]) for end in (0, -1))
        holes = [
            (float(j), one[k], one[k + 1])
            for j, one in enumerate(values)
            for k in np.flatnonzero(np.diff(one) > _LEAST_HOLE)
        ]
        return cls(least, most, np.array(holes).reshape(-1, 3), slope)

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], features: int) -> Self:
        """The inverse of `to_arrays`; a ValueError for anything that cannot have been learnt."""
        rows = {name: len(np.atleast_2d(arrays.get(f"beyond.{name}", 0.0))) for name in ("holes", "slope")}
        shapes = {"holes": (rows["holes"], 3), "slope": (rows["slope"], features)}
        found = cls(*(checks.array(f"beyond.{name}", arrays, shapes.get(name, (features,))) for name in cls._fields))
        feature, low, high = found.holes.T
        if not ((feature == np.floor(feature)) & (feature >= 0) & (feature < features)).all():
            raise ValueError(f"holes should be of features from 0 to {features - 1}")
        if not ((high > low).all() and (found.most >= found.least).all() and (found.slope >= 0).all()):
            raise ValueError("holes and ranges should end above where they begin, and mean squares should be ≥ 0")
        return found

    def to_arrays(self) -> dict[str, Array]:
        """What a model file holds of them."""
        return {f"beyond.{name}": part for name, part in self._asdict().items()}

    def widened(self, o: Moments, z: Array) -> Moments:  # (*replicas, rows, outputs), (rows, features)
        """Outputs, with the sum over features of the squared deviations added to the variance of the first of them."""
        assert o.variance is not None
        extra = torch.from_numpy(self.deviations(z) ** 2 @ self.slope.T)  # (rows, outputs)
        rest = o.variance.shape[-1] - extra.shape[-1]
        return Moments(o.mean, o.variance + torch.nn.functional.pad(extra, (0, rest)))

    def deviations(self, z: Array) -> Array:  # (rows, features) -> (rows, features)
        """d min(w - d, 2 + d)/2; 0 where a value is missing."""
        z = np.where(np.isnan(z), self.least, z)
        d = np.clip(np.maximum(z - self.most, self.least - z), 0.0, _LARGEST_DISTANCE)
        found: Array = d * (2 + d) / 2
        for place, low, high in self.holes:
            left, right = z[:, int(place)] - low, high - z[:, int(place)]
            d = np.maximum(np.minimum(left, right), 0.0)
            found[:, int(place)] += d * np.minimum(np.maximum(left, right), 2 + d) / 2
        return found
