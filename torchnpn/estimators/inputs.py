"""From rows of features to moments: standardised, with missing values and measurement errors as distributions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray

from torchnpn.estimators.missing import MOST_FEATURES, conditional, correlations
from torchnpn.moments import Moments

Array = NDArray[Any]
_CHUNK = 65_536  # rows that are float64 at a time


class Inputs(NamedTuple):
    """How features enter the network: z = (x - center)/scale, and what is known of a feature that is missing.

    Dense features are centred and scaled to unit variance. Sparse ones stay sparse: they are divided by their largest
    absolute value and not centred.
    """

    center: Array  # (features,)
    scale: Array  # (features,), > 0
    mean: Array  # (features,) of the training rows, after scaling
    variance: Array  # (features,) likewise
    correlation: Array  # (features, features) where missing values follow the others of their row, else (0, 0)

    @classmethod
    def learn(cls, X: Any, weight: Array | None, missing: str = "marginal") -> Inputs:
        """Weighted means and variances of the values that are there, and correlations if they are asked for."""
        if scipy.sparse.issparse(X):
            return cls._learn_sparse(X, weight)
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
        scale, correlation = np.where(constant, 1.0, std), np.empty((0, 0))
        if missing == "conditional":
            if len(center) > MOST_FEATURES:
                raise ValueError(
                    f'missing="conditional" expects at most {MOST_FEATURES} features, got {len(center)}. '
                    'Take missing="marginal".'
                )
            correlation = correlations((X - center) / scale, w)
        return cls(center, scale, np.zeros_like(center), np.where(constant, 0.0, 1.0), correlation)

    @classmethod
    def _learn_sparse(cls, X: Any, weight: Array | None) -> Inputs:
        w = np.ones(X.shape[0]) if weight is None else weight
        largest = abs(X).max(axis=0).toarray().ravel()
        scale = np.where(largest > 0, largest, 1.0)
        z = X.multiply(1 / scale).tocsr()
        mean = z.T @ w / w.sum()
        variance = np.maximum(z.multiply(z).T @ w / w.sum() - mean**2, 0.0)
        return cls(np.zeros_like(scale), scale, mean, variance, np.empty((0, 0)))

    def moments(self, X: Any, X_variance: Array | None = None) -> Any:
        """(rows, features) as float32 moments; CSR stays CSR.

        A missing value has the mean and the variance of its feature in the training rows, or those given the values
        that its row has; a value with a measurement error has that variance, in the units of the square of the feature.
        """
        if scipy.sparse.issparse(X):
            return X.multiply(1 / self.scale).tocsr().astype(np.float32)
        z = np.empty(X.shape, np.float32)
        s = None if X_variance is None else np.empty(X.shape, np.float32)
        for rows in _chunks(len(X)):
            scaled = (X[rows] - self.center) / self.scale
            missing = np.isnan(scaled)
            if s is None and missing.any():
                s = np.zeros(X.shape, np.float32)
            if s is not None:
                error = 0.0 if X_variance is None else X_variance[rows] / self.scale**2
                s[rows] = np.where(missing, self.variance, error)
            z[rows] = np.where(missing, self.mean, scaled)
            if len(self.correlation) and missing.any():
                mean, variance = conditional(scaled, self.correlation)
                z[rows] = mean
                s[rows] = np.where(missing, variance * self.variance, s[rows])  # type: ignore[index]
        return Moments(torch.from_numpy(z), None if s is None else torch.from_numpy(s))


def check_variance(X_variance: Any, X: Any) -> Array | None:
    """Measurement variances as an array of the shape of X, or None."""
    if X_variance is None:
        return None
    if scipy.sparse.issparse(X):
        raise ValueError("X_variance expects dense X, got a sparse matrix. Convert with X.toarray().")
    s = np.asarray(X_variance, dtype=np.float64)
    if s.shape not in ((), X.shape[1:], X.shape):
        raise ValueError(
            f"X_variance expects a number, one for each of the {X.shape[1]} features, or the shape of X {X.shape}, "
            f"got shape {s.shape}."
        )
    if not (np.isfinite(s) & (s >= 0)).all():
        raise ValueError("X_variance expects finite variances ≥ 0, got others. A value that is missing is NaN in X.")
    return np.broadcast_to(s, X.shape)


def _chunks(rows: int) -> list[slice]:
    return [slice(start, start + _CHUNK) for start in range(0, rows, _CHUNK)]
