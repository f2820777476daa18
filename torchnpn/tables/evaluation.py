"""How a model does on rows whose target is known, beside the target's own distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from torchnpn import metrics
from torchnpn.estimators import NPNClassifier, NPNRegressor, Predictive
from torchnpn.moments import Moments
from torchnpn.tables.record import NLL, Figure
from torchnpn.tables.rows import Rows
from torchnpn.tables.target import Target, marginal_moments

Array = NDArray[Any]
_MOST_ROWS, _MOST_UNITS = 50_000, 20_000_000  # rows, and neurons of them, that are predicted at a time


class NumberOutcome(NamedTuple):
    """Predictions of numbers and what came; each of shape (rows,)."""

    y: Array
    mean: Array
    low: Array
    high: Array
    log_prob: Array
    crps: Array
    pit: Array  # predicted probability of a target as small as y

    def measures(self, level: float) -> dict[str, tuple[float, bool]]:
        """Each measure with whether it is a share."""
        return {
            "RMSE": (metrics.rmse(self.mean, self.y), False),
            NLL: (float(-self.log_prob.mean()), False),
            "CRPS": (float(self.crps.mean()), False),
            f"in the {100 * level:.4g}% interval": (metrics.interval_coverage(self.low, self.high, self.y), True),
            "width of the interval": (metrics.interval_width(self.low, self.high), False),
        }


class ClassOutcome(NamedTuple):
    """Predicted probabilities of classes and the class that came."""

    y: Array  # (rows,) codes from 0
    probs: Array  # (rows, classes)

    @property
    def bins(self) -> int:
        """Groups of like confidence: a group of few rows says nothing."""
        return int(np.clip(len(self.y) // 20, 5, 15))

    def measures(self, level: float) -> dict[str, tuple[float, bool]]:
        """Each measure with whether it is a share."""
        wrong = float((self.probs.argmax(1) != self.y).mean())
        return {
            "error rate": (wrong, True),
            NLL: (metrics.categorical_nll(self.probs, self.y), False),
            "Brier score": (float(metrics.brier_score(self.probs, self.y).mean()), False),
            "calibration error": (metrics.calibration_error(self.probs, self.y, self.bins), True),
        }


Outcome = NumberOutcome | ClassOutcome


def outcome(estimator: NPNRegressor | NPNClassifier, target: Target, X: Array, y: Array, level: float = 0.9) -> Outcome:
    """What a model says of some rows, and what is true.

    Args:
        estimator: Fitted.
        target: What it predicts.
        X: (rows, inputs) encoded columns.
        y: (rows,) numbers, or codes of classes.
        level: Of intervals.
    """
    size = rows_at_once(estimator)
    parts = [slice(start, start + size) for start in range(0, len(y), size)]
    if isinstance(estimator, NPNClassifier):
        return ClassOutcome(y.astype(np.int64), np.concatenate([estimator.predict_proba(X[part]) for part in parts]))
    return join_outcomes([_numbers(estimator.predict_dist(X[part]), target, y[part], level) for part in parts])


def rows_at_once(estimator: NPNRegressor | NPNClassifier) -> int:
    """How many rows to predict at a time, so that the neurons of the widest layer fit into memory."""
    hidden = getattr(estimator, "hidden_", estimator.hidden) or (1,)
    return int(np.clip(_MOST_UNITS // (max(hidden) * (estimator.n_estimators or 30)), 1, _MOST_ROWS))


def marginal_outcome(target: Target, y: Array, level: float = 0.9, exposures: Array | None = None) -> Outcome:
    """The same for a model that knows the distribution of the training targets, and looks at nothing but exposures."""
    if target.is_class:
        return ClassOutcome(
            y.astype(np.int64), np.broadcast_to(np.array(target.marginal), (len(y), len(target.classes)))
        )
    each = Moments(*(torch.from_numpy(part)[:, None] for part in marginal_moments(target, len(y), exposures)))
    return _numbers(Predictive(target.likelihood.marginal(each)), target, y, level)


def figures(model: Outcome, marginal: Outcome, level: float = 0.9) -> tuple[Figure, ...]:
    """All measures of a model, beside those of the marginal distribution."""
    beside = marginal.measures(level)
    return tuple(Figure(name, value, beside[name][0], share) for name, (value, share) in model.measures(level).items())


def tested(estimator: NPNRegressor | NPNClassifier, target: Target, rows: Rows) -> tuple[Outcome, tuple[Figure, ...]]:
    """What a model says of rows that it has not seen, and how good that is."""
    found = outcome(estimator, target, *rows)
    return found, figures(found, marginal_outcome(target, rows.y, exposures=target.exposures(rows.X)))


def join_outcomes(parts: Sequence[Outcome]) -> Outcome:
    """Outcomes of several batches as one."""
    return type(parts[0])(*map(np.concatenate, zip(*parts, strict=True)))


def _numbers(predicted: Predictive, target: Target, y: Array, level: float) -> NumberOutcome:
    at = predicted.cdf(y)
    pit = metrics.pit_for_counts(predicted.cdf(y - 1), at, random_state=0) if target.is_count else at
    low, high = predicted.interval(level)
    return NumberOutcome(y, predicted.mean, low, high, predicted.log_prob(y), predicted.crps(y), pit)
