"""Learning with rows held out, by which what is predicted is calibrated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from torchnpn import conformal
from torchnpn.estimators import stacking
from torchnpn.estimators.learning import FitOptions
from torchnpn.families import Distribution
from torchnpn.nn import replicas_of
from torchnpn.rows import copies, variance_of_rows
from torchnpn.settings import seed_of, short

if TYPE_CHECKING:
    from torchnpn.estimators.base import Array
    from torchnpn.estimators.supervised import SupervisedEstimator

WAYS = ("split", "cross")


def check(calibrate: Any) -> None:
    """Raise unless it is a way to calibrate, or None."""
    if calibrate is not None and (not isinstance(calibrate, str) or calibrate not in WAYS):
        raise ValueError(f'calibrate expects "split", "cross", or None for neither, got {short(calibrate)}.')


def learn(
    model: SupervisedEstimator,
    X: Any,
    y: Array,
    weight: Array | None,
    X_variance: Any,
    options: FitOptions,
) -> None:
    """Learn from some of the rows, and calibrate by the others; with "cross", each row is held out by a fifth."""
    for name, given in (("sample_weight", weight), ("subsets", options.subsets)):
        if given is not None:
            raise ValueError(
                f"calibrate={model.calibrate!r} expects rows that count the same and in no order, so it does not go "
                f"with {name}. Leave out {name}, or take calibrate=None."
            )
    rows = X.shape[0]
    if model.calibrate == "split":
        seen, out = conformal.split(rows, seed_of(model.random_state))
        model._learn(X[seen], y[seen], None, variance_of_rows(X_variance, seen, X.shape), options)
        X_variance, part = variance_of_rows(X_variance, out, X.shape), np.zeros(len(out), np.int64)
        X, y = X[out], y[out]
    else:
        if rows < stacking.LEAST_ROWS:
            raise ValueError(f'calibrate="cross" expects at least {stacking.LEAST_ROWS} rows, got {rows}.')
        model._learn(X, y, None, X_variance, options)
        part = stacking.Folds.draw(copies(X, y), 1, model._seed).fold
    with torch.no_grad():
        model._hold_out(model._outputs(X, X_variance), y, part)


def parts(model: SupervisedEstimator, each: Distribution, count: int) -> tuple[Distribution, ...]:
    """What the networks of each fold predict together, or all of them where none left out a fold."""
    return conformal.parts(each, count, model._weights, bool(replicas_of(model.network_)))
