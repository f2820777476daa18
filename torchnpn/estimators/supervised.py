"""Learning from rows and their targets: what the regressor and the classifier share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

from torchnpn.estimators.base import Array, NPNEstimator
from torchnpn.estimators.learning import Progress, all_or_nothing
from torchnpn.estimators.validation import (
    check_enough_rows,
    check_progress,
    checked_rows,
    checked_subsets,
    checked_variance,
    checked_weight,
)


class SupervisedEstimator(NPNEstimator):
    """`fit` for any target; subclasses say what targets are to the network."""

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        X_variance: Any = None,
        progress: Progress | None = None,
        subsets: Any = None,
    ) -> Self:
        """Learn from rows X (rows, features) and their targets.

        Args:
            X: Array, frame or CSR matrix; NaN where a value is missing.
            y: Numbers (rows,) or (rows, targets) for a regressor; labels (rows,) of any type that can be sorted for a
                classifier.
            sample_weight: (rows,) how many rows each one stands for.
            X_variance: Variances of measurement errors: a number, one for each feature, or the shape of X.
            progress: Called with the share of training that is done, from 0 to 1.
            subsets: (n_estimators, n) numbers of the rows that each network may see, as for a bootstrap or
                cross-validation; None: all see all. Scales of features and targets are those of all rows.
        """
        check_progress(progress)
        X, y, weight = self._checked(X, y, sample_weight, reset=True)
        rows = checked_subsets(subsets, self.n_estimators, X.shape[0], weight)
        t = self._begin(X, y, weight, X.shape[0] if rows is None else rows.shape[1])
        check_enough_rows(self, X, weight)
        self._train(self._inputs(X, X_variance), t, weight, progress, rows)
        return self

    def _checked(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> tuple[Any, Array, Array | None]:
        """Rows, targets and weights, once settings make sense."""
        self._check_settings()
        X, y = checked_rows(self, X, y, reset=reset, **self._target_options)
        return X, y, checked_weight(sample_weight, X)

    def _inputs(self, X: Any, X_variance: Any) -> Any:
        return self.inputs_.moments(X, checked_variance(X_variance, X))

    @property
    def _target_options(self) -> dict[str, bool]:
        """Of scikit-learn's `validate_data`, for targets."""
        return {}

    @abstractmethod
    def _begin(self, X: Any, y: Array, weight: Array | None, seen: int) -> Array:
        """Scales and a new network, each of whose members sees so many rows; the targets as it learns them."""
