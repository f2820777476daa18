"""Learning from rows and their targets: what the regressor and the classifier share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import scipy.sparse
import torch

from torchnpn.estimators import stacking
from torchnpn.estimators.base import Array, NPNEstimator
from torchnpn.estimators.bins import Bins
from torchnpn.estimators.forward import outputs
from torchnpn.estimators.inputs import Inputs
from torchnpn.estimators.learning import Plan, Progress, all_or_nothing
from torchnpn.estimators.settings import check_choice, short
from torchnpn.estimators.validation import (
    check_enough_rows,
    check_progress,
    checked_rows,
    checked_subsets,
    checked_weight,
)
from torchnpn.nn import with_members
from torchnpn.training import Recipe


class SupervisedEstimator(NPNEstimator):
    """`fit` for any target; subclasses say what targets are to the network."""

    effort: str

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
            X: Array, CSR matrix, or frame (pandas, polars, Arrow) with columns of every kind; NaN or None where a value
                is missing.
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
        if self.effort == "best":
            self._fit_stacked(X, y, weight, X_variance, progress, subsets)
            return self
        self._weights = self._bins = None
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

    def _fit_stacked(
        self, X: Any, y: Array, weight: Array | None, X_variance: Any, progress: Progress | None, subsets: Any
    ) -> None:
        """Learn networks with several settings that leave out parts of the rows, and how much each of them counts."""
        if subsets is not None:
            raise ValueError('subsets go with effort="quick": "best" chooses itself which rows each network sees.')
        rows, settings = X.shape[0], len(stacking.KL_WEIGHTS)
        if rows < stacking.LEAST_ROWS:
            raise ValueError(
                f'effort="best" expects at least {stacking.LEAST_ROWS} rows, since it holds out a fifth of them, got '
                f'{rows}. Take effort="quick".'
            )
        self._weights = torch.full((settings * stacking.FOLDS,), 1 / (settings * stacking.FOLDS), dtype=torch.float64)
        t = self._begin(X, y, weight, rows - -(-rows // stacking.FOLDS))
        check_enough_rows(self, X, weight)
        folds, x = stacking.Folds.draw(rows, settings, self._seed), self._inputs(X, X_variance)
        self._train(x, t, weight, progress, folds.subsets, np.repeat(stacking.KL_WEIGHTS, stacking.FOLDS))
        self._rows_seen = rows if weight is None else float(weight.sum())
        with torch.no_grad():
            logs = self.likelihood_.predict(outputs(self.network_, x)).log_prob(torch.from_numpy(t))
        by_row = logs.numpy().reshape(*logs.shape[:2], -1).sum(-1)  # (members, rows), over all targets
        shares = stacking.weights(folds.left_out(by_row), weight)
        self._keep_members(np.repeat(shares / stacking.FOLDS, stacking.FOLDS))

    def _keep_members(self, shares: Array) -> None:
        """Leave out the members that count for nothing."""
        kept = np.flatnonzero(shares)
        self._weights = torch.from_numpy(shares[kept])
        self.network_ = with_members(self.network_, kept)
        self.likelihood_ = with_members(self.likelihood_, kept)

    def _learn_inputs(self, X: Any, weight: Array | None) -> None:
        """How features are scaled, and with effort the bins that stand beside them."""
        self.inputs_ = Inputs.learn(X, weight, self.missing, self._least_scale)
        self._bins = None
        if self.effort == "best" and not scipy.sparse.issparse(X):
            self._bins = Bins.learn((X - self.inputs_.center) / self.inputs_.scale)

    def _plan(self, rows: int) -> Plan:
        if self.effort == "quick":
            return super()._plan(rows)
        return Plan.of(rows, self.batch_size, self.max_epochs, stacking.steps(rows))

    def _check_settings(self) -> None:
        super()._check_settings()
        check_choice("effort", self.effort, ("quick", "best"))
        if self.effort == "quick":
            return
        default: Any = type(self)()
        for name in ("kl_weight", "learning_rate", "dropout", "adversarial", "n_estimators"):
            if getattr(self, name) != getattr(default, name):
                raise ValueError(
                    f'effort="best" chooses {name} by itself, got {name}={short(getattr(self, name))}. Leave {name} '
                    'out, or take effort="quick".'
                )

    def _recipe(self, seed: int, batch_size: int, **others: Any) -> Recipe:
        if self.effort == "quick":
            return super()._recipe(seed, batch_size, **others)
        return Recipe(seed=seed, batch_size=batch_size, learning_rate=stacking.LEARNING_RATE, **others)

    @property
    def _target_options(self) -> dict[str, bool]:
        """Of scikit-learn's `validate_data`, for targets."""
        return {}

    @abstractmethod
    def _begin(self, X: Any, y: Array, weight: Array | None, seen: int) -> Array:
        """Scales and a new network, each of whose members sees so many rows; the targets as it learns them."""
