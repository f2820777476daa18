"""What an estimator predicts for each row: a distribution, with numpy arrays in and out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from torch import Tensor

from torchnpn.censoring import bounds_of
from torchnpn.conformal import levels
from torchnpn.families import Calibrated, Distribution
from torchnpn.likelihoods import Categorical, Mixture
from torchnpn.metrics import concordance
from torchnpn.rows import places_among, real_numbers, score_weight
from torchnpn.settings import generator_of, short

Array = NDArray[Any]
_MOST_DRAWS = 10**9  # in one call: 8 GB
_TOGETHER = 100_000  # quantiles to search at once: for few rows a search costs what its calls do


class ArrayMoments(NamedTuple):
    """Mean and variance as numpy arrays of one shape: what `Moments` is for tensors."""

    mean: Array
    variance: Array


class ArrayVarianceParts(NamedTuple):
    """The parts of `VarianceParts` as arrays: total = epistemic + aleatoric."""

    total: Array
    epistemic: Array  # what more data would take away
    aleatoric: Array  # what no data takes away


class Interval(NamedTuple):
    """Ends of an interval for each row."""

    low: Array
    high: Array


class Predictive:
    """The predictive distribution of the target of each row.

    Arrays have one entry for each row, and a second dimension where the target has several columns.

    Args:
        distribution: Of shape (rows, targets): a member of a family, or a mixture of such members.
        flat: Whether the target is a single column, so that arrays are (rows,).
    """

    def __init__(self, distribution: Distribution, flat: bool = True) -> None:
        self.distribution, self._flat = distribution, flat

    @property
    def mean(self) -> Array:
        return self._array(self.distribution.mean)

    @property
    def variance(self) -> Array:
        return self._array(self.distribution.variance)

    @property
    def std(self) -> Array:
        """Standard deviation."""
        deviation: Array = np.sqrt(self.variance)
        return deviation

    @property
    def median(self) -> Array:
        return self.quantile(0.5)

    def log_prob(self, y: ArrayLike) -> Array:
        """Log density of `y`, or log probability for counts and for ranges (`npn.censored`), in nats."""
        bounds, distribution = bounds_of(y), self.distribution
        if bounds is None:
            return self._array(distribution.log_prob(self._tensor(y)))
        lower, upper = map(self._tensor, bounds)
        exact = lower == upper
        of_ranges = distribution.log_mass(torch.where(exact, 0.0, lower), torch.where(exact, torch.inf, upper))
        return self._array(torch.where(exact, distribution.log_prob(lower), of_ranges))

    def cdf(self, y: ArrayLike) -> Array:
        """P(target ≤ y)."""
        return self._array(self.distribution.cdf(self._tensor(y)))

    def survival(self, t: ArrayLike) -> Array:
        """P(target > t), with its own digits where it is small."""
        lower = self._tensor(t)
        return self._array(torch.exp(self.distribution.log_mass(lower, torch.full_like(lower, torch.inf))))

    def quantile(self, q: ArrayLike) -> Array:
        """The smallest y with P(target ≤ y) ≥ q; several q make a last dimension of their own."""
        levels = real_numbers(q, "quantile")
        if levels.ndim > 1 or not levels.size or not ((levels >= 0) & (levels <= 1)).all():
            raise ValueError(f"quantile expects probabilities in [0, 1], a number or a list of them, got {short(q)}.")
        if levels.ndim and len(self) * levels.size <= _TOGETHER:
            return np.stack(self._together(levels.tolist()), axis=-1)
        values = [self._array(self.distribution.quantile(level)) for level in np.atleast_1d(levels)]
        return values[0] if levels.ndim == 0 else np.stack(values, axis=-1)

    def interval(self, level: float = 0.9) -> Interval:
        """The central interval: `level` lies inside (for counts at least that), the rest equally below and above."""
        inside = real_numbers(level, "interval")
        if inside.ndim or not 0 < inside < 1:
            raise ValueError(f"An interval expects a level between 0 and 1, such as 0.9, got {short(level)}.")
        if isinstance(self.distribution, Calibrated):
            return Interval(*self._together(self.distribution.central_levels(float(inside))))
        return Interval(*self._together([float(1 - inside) / 2, float(1 + inside) / 2]))

    def _together(self, levels: Sequence[float]) -> list[Array]:
        """Several quantiles of each row, in one search."""
        repeated = self.distribution[np.tile(np.arange(len(self)), len(levels))]
        of_rows = torch.tensor(levels, dtype=torch.float64).repeat_interleave(len(self))
        found = self._array(repeated.quantile(of_rows.unsqueeze(-1).expand(repeated.batch_shape)))
        return np.split(found, len(levels))

    def pit(self, y: ArrayLike, random_state: Any = 0) -> Array:
        """P(target < y) + v P(target = y), v uniform on [0, 1): uniform where calibrated, for counts and zeros, too."""
        values = self._tensor(y).numpy()
        return self._array(torch.from_numpy(levels(self.distribution, values, generator_of(random_state))))

    def crps(self, y: ArrayLike) -> Array:
        """Continuous ranked probability score ∫ (P(target ≤ t) - 1{y ≤ t})² dt of each row, in units of y."""
        return self._array(self.distribution.crps(self._tensor(y)))

    def sample(self, n: int = 1, random_state: Any = None) -> Array:
        """`n` draws for each row, shape (n, rows) or (n, rows, targets); the same for the same whole `random_state`."""
        if not isinstance(n, (int, np.integer)) or n < 1:
            raise ValueError(f"sample expects a whole number n of draws, at least 1, got {short(n)}.")
        if int(n) * self.distribution.batch_shape.numel() > _MOST_DRAWS:
            raise ValueError(
                f"sample expects up to {_MOST_DRAWS:,} draws in one call, got n={short(n)} for each of {len(self)} "
                "rows. Draw a part at a time."
            )
        generator = torch.Generator().manual_seed(generator_of(random_state).integers(2**62).item())
        return self._array(self.distribution.sample(int(n), generator))

    def __getitem__(self, rows: Any) -> Predictive:
        """The predictions of some rows: a slice, a mask or a list of row numbers."""
        number = isinstance(rows, (int, np.integer)) and not isinstance(rows, bool)
        return Predictive(self.distribution[np.arange(len(self))[[rows] if number else rows]], self._flat)

    def __len__(self) -> int:
        return int(self.distribution.batch_shape[0])

    def __repr__(self) -> str:
        kind, several = type(self.distribution).__name__, ""
        if isinstance(self.distribution, Mixture):
            several = f" of {len(self.distribution.members.mean)} {type(self.distribution.members).__name__}"
        return f"Predictive({kind}{several}, rows={len(self)})"

    def _array(self, values: Tensor) -> Array:  # (…, rows, targets) -> (…, rows) for a single target
        array = _numpy(values)
        return array[..., 0] if self._flat else array

    def _tensor(self, y: ArrayLike) -> Tensor:  # (rows,) or (rows, targets) -> (rows, targets)
        array = real_numbers(y, "y")
        shape = tuple(self.distribution.batch_shape)
        if array.ndim == 0:
            array = np.broadcast_to(array, shape)
        elif array.shape == shape[:1] and self._flat:
            array = array[:, None]
        if array.shape != shape:
            raise ValueError(
                f"A prediction for {shape[0]} rows expects y of shape {shape[:1] if self._flat else shape} or a "
                f"number, got {np.shape(y)}."
            )
        if np.isnan(array).any():
            raise ValueError(f"A prediction expects y without NaN, got {int(np.isnan(array).sum())}. Drop these rows.")
        return torch.from_numpy(np.array(array))


class DistributionRegressor(RegressorMixin):  # type: ignore[misc]
    """What follows from `predict_dist`."""

    @abstractmethod
    def predict_dist(self, X: Any, *, X_variance: Any = None, exposure: Any = None) -> Predictive:
        """The predictive distribution of each row."""

    def predict(self, X: Any, return_std: bool = False, *, X_variance: Any = None, exposure: Any = None) -> Any:
        """Mean of the target for each row; with `return_std`, also its standard deviation.

        Args:
            X: Rows, as for `fit`.
            return_std: Whether to give a pair.
            X_variance: As for `fit`.
            exposure: A number, or one for each row, where the model was fitted with exposures; None takes those of the
                column of X that `fit` was told of. What is predicted is the target for that exposure.
        """
        predictive = self.predict_dist(X, X_variance=X_variance, exposure=exposure)
        return (predictive.mean, predictive.std) if return_std else predictive.mean

    def score(self, X: Any, y: Any, sample_weight: Any = None, exposure: Any = None) -> float:
        """The coefficient of determination R² of the predicted means; of censored targets, `metrics.concordance`."""
        if bounds_of(y) is not None:
            return concordance(y, self.predict_dist(X).median)
        predicted = self.predict(X, exposure=exposure)
        return float(r2_score(real_numbers(y, "y"), predicted, sample_weight=score_weight(sample_weight)))

    def predict_interval(self, X: Any, level: float = 0.9, *, X_variance: Any = None, exposure: Any = None) -> Interval:
        """Central intervals that hold a new target with probability `level`, as (low, high)."""
        return self.predict_dist(X, X_variance=X_variance, exposure=exposure).interval(level)

    def predict_quantile(self, X: Any, q: ArrayLike = 0.5, *, X_variance: Any = None, exposure: Any = None) -> Array:
        """Quantiles of each row: (rows,) for a number q, (rows, len(q)) for several."""
        return self.predict_dist(X, X_variance=X_variance, exposure=exposure).quantile(q)

    def log_likelihood(self, X: Any, y: Any, *, X_variance: Any = None, exposure: Any = None) -> Array:
        """log p(y) of each row in nats, summed over its targets."""
        logs = self.predict_dist(X, X_variance=X_variance, exposure=exposure).log_prob(y)
        return logs if logs.ndim == 1 else logs.sum(axis=1)


class ClassPredictive(NamedTuple):
    """The predictive distribution over classes of each row."""

    classes: Array  # (classes,) the labels
    probs: Array  # (rows, classes)

    @property
    def entropy(self) -> Array:
        """-Σ p log p in nats: 0 where the answer is certain."""
        return _numpy(Categorical(torch.from_numpy(self.probs)).entropy)

    @property
    def variance(self) -> Array:
        """p (1 - p) of each class."""
        spread: Array = self.probs * (1 - self.probs)
        return spread

    def log_prob(self, y: ArrayLike) -> Array:
        """Log probability of each label; minus infinity for labels never seen."""
        labels = np.asarray(y)
        if labels.shape != self.probs.shape[:1]:
            raise ValueError(
                f"A prediction for {len(self.probs)} rows expects as many labels, got shape {labels.shape}."
            )
        place, known = places_among(self.classes, labels)
        with np.errstate(divide="ignore"):
            logs = np.log(self.probs[np.arange(len(labels)), place])
        result: Array = np.where(known, logs, -np.inf)
        return result


def _numpy(values: Tensor) -> Array:
    array: Array = values.detach().cpu().double().numpy()
    return array
