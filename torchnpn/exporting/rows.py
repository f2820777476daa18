"""Rows of numbers as they enter a graph, (rows, columns) in float64: encoded, standardised, gaps as distributions.

A cell is a number: a category its place among the levels that the metadata lists, a date or time the seconds since
1970, and NaN is missing. The rest is arithmetic of the graph, the same as `columns` and `rows` do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from torchnpn import maps
from torchnpn.columns import Bins, Category, Column, Date
from torchnpn.moments import Moments
from torchnpn.rows import Beyond, Inputs

_DAY, _YEAR, _ERA = 86_400.0, 365.2425, 146_097.0  # seconds, days, days of 400 years
_LARGEST_ERROR, _LARGEST_DISTANCE, _WIDTHS = 10.0, 10.0, 10.0  # as in `rows.inputs` and `rows.beyond`


class Encode(nn.Module):
    """Inputs of the network from cells, (rows, columns) -> (rows, inputs).

    Args:
        columns: What each column holds; those of tables are rounded to float32, as `tables.Schema` does.
        single: Whether to round.
    """

    def __init__(self, columns: Sequence[Column], single: bool = False) -> None:
        super().__init__()
        self.columns, self.single = tuple(columns), single

    def forward(self, cells: Tensor) -> Tensor:
        parts, place = [], 0
        while place < len(self.columns):
            column, first = self.columns[place], place
            place += 1
            if isinstance(column, Category):
                parts.append(_levels(cells[:, first : first + 1], column))
            elif isinstance(column, Date):
                parts.append(_times(cells[:, first : first + 1], column))
            else:
                while place < len(self.columns) and not isinstance(self.columns[place], Category | Date):
                    place += 1
                origins = torch.tensor([one.origin for one in self.columns[first:place]], dtype=torch.float64)  # type: ignore[union-attr]
                parts.append(cells[:, first:place] - origins)
        encoded = torch.cat(parts, 1) if len(parts) > 1 else parts[0]
        return encoded.float().double() if self.single else encoded


def _levels(code: Tensor, column: Category) -> Tensor:  # (rows, 1) -> (rows, inputs)
    """0 or 1 for each level; NaN in all where the level is missing."""
    one_hot = (code == torch.arange(len(column.inputs), dtype=torch.float64)).double()
    return torch.where(code.isnan(), torch.nan, one_hot)


def _times(seconds: Tensor, column: Date) -> Tensor:  # (rows, 1) -> (rows, inputs)
    """Days since the origin, and waves of the year, the week and the day."""
    days = seconds / _DAY
    whole = torch.floor(days)
    turns = {"week": torch.floor(days) - 7 * torch.floor(whole / 7), "day": days - whole}
    turns["week"] = turns["week"] / 7
    parts = [days - column.origin] if column.has_days else []
    for period in column.periods:
        turn = 2 * torch.pi * (_of_year(days, whole) if period == "year" else turns[period])
        parts += [torch.sin(turn), torch.sin(turn + torch.pi / 2)]  # older onnxruntimes have no cosine in float64
    return torch.cat(parts, 1)


def _of_year(days: Tensor, whole: Tensor) -> Tensor:
    """How far in its year a moment is, from days since 1970: years of the proleptic Gregorian calendar.

    Year y begins at f(y) = 365 (y - 1970) + ⌊(y-1)/4⌋ - ⌊(y-1)/100⌋ + ⌊(y-1)/400⌋ - 477.
    """

    def start(year: Tensor) -> Tensor:
        before = year - 1
        leaps = torch.floor(before / 4) - torch.floor(before / 100) + torch.floor(before / 400)
        return 365 * (year - 1970) + leaps - 477

    guess = torch.floor(whole / _YEAR) + 1970
    year = guess + (start(guess + 1) <= whole).double() - (start(guess) > whole).double()
    first = start(year)
    return (days - first) / (start(year + 1) - first)


class Standardise(nn.Module):
    """What `Inputs.moments` and `Bins.beside` do: (rows, inputs) with NaN -> moments.

    Rows without gaps, and within the limits, are by far the most: they take the short branch of an `If`.

    Args:
        inputs: How features are scaled.
        bins: That stand beside them, if any.
    """

    def __init__(self, inputs: Inputs, bins: Bins | None) -> None:
        super().__init__()
        self.center, self.scale, self.low, self.high = (
            _constant(part) for part in (inputs.center, inputs.scale, inputs.low, inputs.high)
        )
        self.mean, self.variance = _constant(inputs.mean), _constant(inputs.variance)
        self.farthest = _constant(_WIDTHS * (inputs.high - inputs.low))
        self.correlation = _constant(inputs.correlation)
        self.bins = _Beside(bins) if bins is not None and len(bins.feature) else None

    def forward(self, x: Tensor) -> Moments:
        scaled = (x - self.center) / self.scale
        inside = torch.minimum(torch.maximum(scaled, self.low), self.high)
        return Moments(*torch.cond((inside == scaled).all(), self._known, self._uncertain, (scaled,)))

    def _known(self, scaled: Tensor) -> tuple[Tensor, Tensor]:
        z = scaled.float()
        z = z.clone() if self.bins is None else self.bins.of_points(z)
        return z, 0 * z

    def _uncertain(self, scaled: Tensor) -> tuple[Tensor, Tensor]:
        inside = torch.minimum(torch.maximum(scaled, self.low), self.high)
        distance = (scaled - inside).abs()
        beyond = distance.clamp_max(_LARGEST_ERROR) ** 2
        missing = scaled.isnan() | (distance > self.farthest)
        mean, variance = self._of_missing(inside, missing)
        m = torch.where(missing, mean, inside).float()
        s = torch.where(missing, variance, beyond).float()
        return (m, s) if self.bins is None else self.bins.of_moments(m, s)

    def _of_missing(self, z: Tensor, missing: Tensor) -> tuple[Tensor, Tensor]:
        """Moments of what is missing; with correlations, given what is there, taken in feature by feature.

        Of a Gaussian with covariance P, the value of feature j says m += P_j (z_j - m_j)/P_jj, P -= P_j P_jᵀ/P_jj.
        """
        if not self.correlation.numel():
            return self.mean, self.variance
        std = torch.where(self.variance > 0, self.variance, 1.0).sqrt()
        known = torch.where(missing, 0.0, z / std)
        gaps = missing.double()
        m, P = torch.zeros_like(known), self.correlation + torch.zeros_like(known).unsqueeze(-1)
        for j in range(len(std)):
            column = P[:, :, j]  # (rows, features)
            gain = column * ((1 - gaps[:, j : j + 1]) / column[:, j : j + 1].clamp_min(1e-300))
            m = m + gain * (known[:, j : j + 1] - m[:, j : j + 1])
            P = P - gain.unsqueeze(-1) * column.unsqueeze(-2)
        left = (P * torch.eye(len(std), dtype=P.dtype)).sum(-1).clamp_min(0.0)
        return m * std, left * self.variance


class Widen(nn.Module):
    """`Beyond.widened`: what is added to the variance of outputs for rows beyond the training rows."""

    def __init__(self, inputs: Inputs, beyond: Beyond) -> None:
        super().__init__()
        self.center, self.scale, self.low, self.high = (
            _constant(part) for part in (inputs.center, inputs.scale, inputs.low, inputs.high)
        )
        self.farthest = _constant(_WIDTHS * (inputs.high - inputs.low))
        self.least, self.most, self.slope = (_constant(part) for part in (beyond.least, beyond.most, beyond.slope.T))
        feature = beyond.holes[:, 0].astype(np.int64)
        self.feature, self.of_feature = torch.from_numpy(feature), _constant(np.eye(len(beyond.least))[feature])
        self.begins, self.ends = _constant(beyond.holes[:, 1]), _constant(beyond.holes[:, 2])

    def forward(self, o: Moments, x: Tensor) -> Moments:
        assert o.variance is not None
        z = (x - self.center) / self.scale
        missing = z.isnan() | (torch.maximum(self.low - z, z - self.high) > self.farthest)
        z = torch.where(missing, self.least, z)
        d = torch.maximum(z - self.most, self.least - z).clamp(0.0, _LARGEST_DISTANCE)
        deviations = d * (2 + d) / 2
        if len(self.feature):
            left, right = z[:, self.feature] - self.begins, self.ends - z[:, self.feature]
            d = torch.minimum(left, right).clamp_min(0.0)
            deviations = deviations + (d * torch.minimum(torch.maximum(left, right), 2 + d) / 2) @ self.of_feature
        extra = (deviations * deviations) @ self.slope
        first = o.variance.double()[..., : extra.shape[-1]] + extra
        return Moments(o.mean, torch.cat([first, o.variance.double()[..., extra.shape[-1] :]], -1))


class _Beside(nn.Module):
    """`Bins.beside`, the bins of all features in one: those with a stop at both ends, below alone, or above alone."""

    def __init__(self, bins: Bins) -> None:
        super().__init__()
        self.feature = torch.from_numpy(bins.feature)
        self.left, self.width, self.mean, self.scale = (
            _constant(part).float() for part in (bins.left, bins.right - bins.left, bins.mean, bins.scale)
        )
        change = np.diff(bins.feature) != 0
        self.is_first = torch.from_numpy(np.append(True, change))
        self.is_last = torch.from_numpy(np.append(change, True))
        self.lowest, self.highest = (
            torch.where(self.is_first, -torch.inf, 0.0),
            torch.where(self.is_last, torch.inf, 1.0),
        )

    def of_points(self, z: Tensor) -> Tensor:
        e = (z[:, self.feature] - self.left) / self.width
        e = torch.minimum(torch.maximum(e, self.lowest), self.highest)
        return torch.cat([z, (e - self.mean) / self.scale], 1)

    def of_moments(self, z: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        e, v = (z[:, self.feature] - self.left) / self.width, s[:, self.feature] / self.width**2
        both = maps.hardtanh(Moments(e, v), 0.0, 1.0)
        one = maps.relu(Moments(torch.where(self.is_first, 1 - e, e), v))
        mean = torch.where(self.is_first, 1 - one.mean, torch.where(self.is_last, one.mean, both.mean))
        variance = torch.where(self.is_first | self.is_last, one.variance, both.variance)  # type: ignore[arg-type]
        m = torch.cat([z, (mean - self.mean) / self.scale], 1)
        return m, torch.cat([s, variance / self.scale**2], 1)


def _constant(values: Any) -> Tensor:
    return torch.from_numpy(np.array(values, dtype=np.float64))
