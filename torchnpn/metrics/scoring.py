"""Scores of predicted distributions under names, for scikit-learn's searches and cross-validations.

`GridSearchCV(model, grid, scoring=scorers["crps"])` keeps the settings whose distributions are best, and not those
whose means are. As scikit-learn wants it, larger is better: each score is minus the mean loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from torchnpn.metrics.calibration import calibration_error, regression_calibration_error
from torchnpn.metrics.checks import Array
from torchnpn.metrics.intervals import interval_score, pinball

_LEVEL = 0.9
_LEVELS = np.arange(1, 20) / 20  # of the quantiles whose pinball losses are averaged


@dataclass(frozen=True)
class Scorer:
    """Minus the mean loss of what an estimator predicts for rows X whose targets y are known."""

    name: str
    loss: Callable[[Any, Any, Any], Any]  # of estimator, X and y

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        return -float(np.mean(self.loss(estimator, X, y)))

    def __repr__(self) -> str:
        return f'scorers["{self.name}"]'


def _log_loss(estimator: Any, X: Any, y: Any) -> Array:
    if not hasattr(estimator, "log_likelihood"):
        raise TypeError(f"neg_log_likelihood expects an estimator with log_likelihood, {_came(estimator)}.")
    return np.asarray(-estimator.log_likelihood(X, y))


def _crps(estimator: Any, X: Any, y: Any) -> Array:
    return np.asarray(_numbers("crps", estimator, X).crps(y))


def _interval_score(estimator: Any, X: Any, y: Any) -> Array:
    low, high = _numbers("interval_score", estimator, X).interval(_LEVEL)
    return interval_score(low, high, y, _LEVEL)


def _pinball(estimator: Any, X: Any, y: Any) -> Array:
    quantiles = _numbers("pinball", estimator, X).quantile(_LEVELS)
    return np.stack([pinball(quantiles[..., i], y, level) for i, level in enumerate(_LEVELS)])


def _calibration(estimator: Any, X: Any, y: Any) -> float:
    if hasattr(estimator, "classes_"):
        return calibration_error(estimator.predict_proba(X), np.searchsorted(estimator.classes_, y))
    return regression_calibration_error(np.ravel(_numbers("calibration", estimator, X).pit(y)))


def _numbers(score: str, estimator: Any, X: Any) -> Any:
    """Predicted distributions of numbers."""
    if not hasattr(estimator, "predict_dist") or hasattr(estimator, "classes_"):
        raise TypeError(f"{score} expects an estimator that predicts distributions of numbers, {_came(estimator)}.")
    return estimator.predict_dist(X)


def _came(estimator: Any) -> str:
    return f"such as NPNRegressor, got {type(estimator).__name__}"


scorers: Mapping[str, Scorer] = MappingProxyType(
    {
        scorer.name: scorer
        for scorer in (
            Scorer("neg_log_likelihood", _log_loss),
            Scorer("crps", _crps),
            Scorer("interval_score", _interval_score),
            Scorer("pinball", _pinball),
            Scorer("calibration", _calibration),
        )
    }
)
