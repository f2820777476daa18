"""From rows of features to moments: standardised, with missing values and measurement errors as distributions."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray

from torchnpn.io import checks
from torchnpn.moments import Moments
from torchnpn.rows.missing import MOST_FEATURES, conditional, correlations

Array = NDArray[Any]
_CHUNK = 65_536  # rows that are float64 at a time
LARGEST = 1e15  # of a standardised value: its square, times weights and summed, is a float32 number yet
_LARGEST_VARIANCE = 1e12  # of a feature in standard units
_LARGEST_RAW = 1e290  # of a value: sums over rows are float64 numbers yet
_MIDDLE = 0.05, 0.95  # quantiles of a feature that say how wide it is
_WIDTHS = 10.0  # beyond so many times that, a value in the training rows is a wild one; or, later, of their whole range
_MARGIN = 0.5  # of the range of the training rows: so far beyond them a feature is taken at its word
_MOST_ROWS = 100_000  # that quantiles are learnt from
_LARGEST_ERROR = 10.0  # standardised, of a value beyond the margin


class Inputs(NamedTuple):
    """How features enter the network: z = (x - center)/scale, and what is known of a feature that is missing.

    Dense features are centred and scaled to unit variance. Sparse ones stay sparse: they are divided by their largest
    absolute value and not centred.

    Of a value far beyond the training rows a network knows no more than that it is far out. It enters as the nearest
    value that is not, with the distance as its standard deviation: the further out, the wider the prediction. Wild
    values of the training rows, ten times as far out as most are wide, have no say in what is far. A value ten times as
    far beyond the limits as these are apart is none of the feature, but a wrong unit or a code: it counts as missing.
    """

    center: Array  # (features,)
    scale: Array  # (features,), > 0
    mean: Array  # (features,) of the training rows, after scaling
    variance: Array  # (features,) likewise
    correlation: Array  # (features, features) where missing values follow the others of their row, else (0, 0)
    low: Array  # (features,) standardised: below, a value counts as this one with an error; -LARGEST where none does
    high: Array  # (features,) likewise

    @classmethod
    def learn(cls, X: Any, weight: Array | None, missing: str = "marginal", least_scale: Array | float = 0.0) -> Inputs:
        """Weighted means and variances of the values that are there, and correlations if they are asked for.

        No scale is below `least_scale`: an input of a category that few rows have would be far from all others.
        """
        _check_raw(X)
        if weight is not None and not weight.all():
            X, weight = X[weight > 0], weight[weight > 0]  # others say nothing, however far out they are
        if scipy.sparse.issparse(X):
            return cls._learn_sparse(X, weight)
        X = _without_wild_values(X)
        w = np.ones(len(X)) if weight is None else weight
        known, total = np.zeros(X.shape[1]), np.zeros(X.shape[1])
        for rows in _chunks(len(X)):
            there = ~np.isnan(X[rows])
            known += w[rows] @ there
            total += w[rows] @ np.where(there, X[rows], 0.0).astype(np.float64)
        center = total / np.where(known > 0, known, 1.0)
        farthest, square = np.zeros(X.shape[1]), np.zeros(X.shape[1])
        for rows in _chunks(len(X)):
            farthest = np.fmax(farthest, np.fmax.reduce(np.abs(X[rows] - center), axis=0))
        unit = np.where(farthest > 0, farthest, 1.0)  # squares of the numbers themselves may overflow
        for rows in _chunks(len(X)):
            square += w[rows] @ np.where(np.isnan(X[rows]), 0.0, (X[rows] - center) / unit) ** 2
        std = unit * np.sqrt(square / np.where(known > 0, known, 1.0))
        constant = ~(std > 1e-12 * np.abs(center))  # what rounding leaves of a constant column is not a feature
        rounding = np.maximum(1.0, 1e-12 * np.abs(center))
        scale, correlation = np.where(constant, rounding, np.maximum(std, least_scale)), np.empty((0, 0))
        if missing == "conditional":
            if len(center) > MOST_FEATURES:
                raise ValueError(
                    f'missing="conditional" expects at most {MOST_FEATURES} features, got {len(center)}. '
                    'Take missing="marginal".'
                )
            correlation = correlations((X - center) / np.where(constant, rounding, std), w)
        variance = np.where(constant, 0.0, (std / scale) ** 2)
        far = (_extreme(X, center, end) for end in (np.fmin, np.fmax))
        low, high = ((end - center) / scale for end in far)
        margin = np.where(constant, LARGEST, _MARGIN * (high - low))
        return cls(center, scale, np.zeros_like(center), variance, correlation, low - margin, high + margin)

    @classmethod
    def _learn_sparse(cls, X: Any, weight: Array | None) -> Inputs:
        w = np.ones(X.shape[0]) if weight is None else weight
        largest = abs(X).max(axis=0).toarray().ravel()
        scale = np.where(largest > 0, largest, 1.0)
        z = _divided(X, scale)
        mean = z.T @ w / w.sum()
        variance = np.maximum(z.multiply(z).T @ w / w.sum() - mean**2, 0.0)
        endless = np.full_like(scale, LARGEST)
        return cls(np.zeros_like(scale), scale, mean, variance, np.empty((0, 0)), -endless, endless)

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], features: int) -> Inputs:
        """The inverse of `to_arrays`; a ValueError for anything that cannot have been learnt."""
        shapes = dict.fromkeys(cls._fields, (features,)) | {"correlation": (features, features)}
        found: dict[str, Array] = {"correlation": np.empty((0, 0))}
        limits = {"low": np.full(features, -LARGEST), "high": np.full(features, LARGEST)}  # of early files
        for name, shape in shapes.items():
            if name in limits and f"inputs.{name}" not in arrays:
                found[name] = limits[name]
            elif name != "correlation" or "inputs.correlation" in arrays:
                found[name] = checks.array(f"inputs.{name}", arrays, shape)
        checks.scale("inputs", found["scale"], found["center"])
        if not ((found["variance"] >= 0) & (found["variance"] <= _LARGEST_VARIANCE)).all():
            raise ValueError("inputs should have variances ≥ 0, in standard units")
        if not (found["low"] <= found["high"]).all():
            raise ValueError("inputs should have limits in order, low ≤ high")
        return cls(**found | {"correlation": checks.covariance("inputs.correlation", found["correlation"])})

    def to_arrays(self) -> dict[str, Array]:
        """What a model file holds of them."""
        limited = (self.high < LARGEST).any()
        held = (name for name in self._fields if limited or name not in ("low", "high"))
        return {f"inputs.{name}": array for name in held if (array := getattr(self, name)).size}

    def standardised(self, X: Array) -> Array:
        """(rows, features) within the limits, NaN where a value is missing."""
        inside: Array = np.clip((X - self.center) / self.scale, self.low, self.high)
        return inside

    def distances(self, X: Array) -> Array:
        """(rows, features) as standardised, beyond the limits as well; NaN where a value is missing, or counts so."""
        scaled = (X - self.center) / self.scale
        beyond = np.maximum(self.low - scaled, scaled - self.high)
        found: Array = np.where(beyond > _WIDTHS * (self.high - self.low), np.nan, scaled)
        return found

    def moments(self, X: Any, X_variance: Array | None = None) -> Any:
        """(rows, features) as float32 moments; CSR stays CSR.

        A missing value has the mean and the variance of its feature in the training rows, or those given the values
        that its row has; a value with a measurement error has that variance, in the units of the square of the feature.
        So has one beyond the limits: z = clip(x, low, high), s = min(|x - z|, 10)².
        """
        if scipy.sparse.issparse(X):
            scaled = _divided(X, self.scale)
            if (entry := _too_far(scaled.data)) is not None:
                self._refuse(int(np.searchsorted(X.indptr, entry, "right")) - 1, int(X.indices[entry]))
            return scaled.astype(np.float32)
        z = np.empty(X.shape, np.float32)
        s = None if X_variance is None else np.empty(X.shape, np.float32)
        for rows in _chunks(len(X)):
            with np.errstate(over="ignore"):  # what is too large is refused in words
                scaled = (X[rows] - self.center) / self.scale
            if (entry := _too_far(scaled)) is not None:
                self._refuse(rows.start + entry // X.shape[1], entry % X.shape[1])
            inside = np.clip(scaled, self.low, self.high)
            distance = np.abs(scaled - inside)
            beyond = np.minimum(distance, _LARGEST_ERROR) ** 2
            scaled = np.where(distance > _WIDTHS * (self.high - self.low), np.nan, inside)
            missing = np.isnan(scaled)
            if s is None and (missing.any() or beyond.any()):
                s = np.zeros(X.shape, np.float32)
            if s is not None:
                error = 0.0 if X_variance is None else self._scaled_variance(X_variance[rows])
                s[rows] = np.where(missing, self.variance, error + beyond)
            z[rows] = np.where(missing, self.mean, scaled)
            if len(self.correlation) and missing.any():
                std = np.sqrt(np.where(self.variance > 0, self.variance, 1.0))  # below 1 where the scale is the least
                mean, variance = conditional(scaled / std, self.correlation)
                z[rows] = mean * std
                s[rows] = np.where(missing, variance * self.variance, s[rows])  # type: ignore[index]
        return Moments(torch.from_numpy(z), None if s is None else torch.from_numpy(s))

    def _scaled_variance(self, variance: Array) -> Array:
        """In units of the squared scale, which itself may be too small or too large for float64."""
        with np.errstate(over="ignore"):
            scaled: Array = (np.sqrt(variance) / self.scale) ** 2
        if not scaled.max(initial=0.0) <= LARGEST**2:
            column = int(scaled.max(axis=0).argmax())
            raise ValueError(
                f"X_variance expects variances up to {LARGEST**2:g} times that of their feature in the training rows, "
                f"got {variance[:, column].max():.4g} in column {column} (from 0). A value that is unknown is NaN in X."
            )
        return scaled

    def _refuse(self, row: int, column: int) -> NoReturn:
        raise ValueError(
            f"X expects values within {LARGEST:g} standard deviations ({self.scale[column]:.4g} in the training "
            f"rows) of the mean of their feature, got one beyond in row {row}, column {column} (both from 0). Look for "
            "a wrong unit or a code for missing values; what is missing is NaN."
        )


def _without_wild_values(X: Array) -> Array:
    """The same where it has no wild values; else a copy in which they are the nearest that are not."""
    rows = X[:: -(-len(X) // _MOST_ROWS)]
    last: Array = np.maximum((~np.isnan(rows)).sum(0) - 1, 0)
    place: Array = (np.array(_MIDDLE)[:, None] * last).astype(np.int64)
    below, above = np.take_along_axis(np.sort(rows, axis=0), place, 0).astype(np.float64)  # NaN come last
    width = above - below
    reach = np.where(width > 0, _WIDTHS * width, np.inf)
    low, high = below - reach, above + reach
    is_tame = np.isnan(width) | ((_extreme(X, below, np.fmin) >= low) & (_extreme(X, above, np.fmax) <= high))
    return X if is_tame.all() else np.clip(X, np.where(is_tame, -np.inf, low), np.where(is_tame, np.inf, high))


def _extreme(X: Array, start: Array, end: np.ufunc) -> Array:  # (rows, features), (features,) -> (features,)
    """The least or the largest value of each feature; `start` where there is none."""
    found: Array = end(start, end.reduce(X, axis=0))
    return found


def _too_far(scaled: Array) -> int | None:
    """The place of the largest standardised value, if the network's own numbers cannot hold it."""
    return None if largest_of(scaled) <= LARGEST else int(np.nanargmax(np.abs(scaled)))


def _check_raw(X: Any) -> None:
    """Raise for values whose sums float64 cannot hold."""
    values = X.data if scipy.sparse.issparse(X) else X
    largest = max((largest_of(values[rows]) for rows in _chunks(len(values))), default=0.0)
    if largest > _LARGEST_RAW:
        raise ValueError(
            f"X expects values up to {_LARGEST_RAW:g} in size, got {largest:.4g}. Divide the column by a power of ten; "
            "what is missing is NaN."
        )


def largest_of(values: Array) -> float:
    """The largest absolute value; NaN does not count."""
    return float(np.fmax.reduce(np.abs(values), axis=None, initial=0.0))


def _divided(X: Any, scale: Array) -> Any:
    """The columns of a CSR matrix, each divided by its scale."""
    scaled = X.astype(np.float64)  # a copy
    with np.errstate(over="ignore"):
        scaled.data /= scale[scaled.indices]
    return scaled


def _chunks(rows: int) -> list[slice]:
    return [slice(start, start + _CHUNK) for start in range(0, rows, _CHUNK)]
