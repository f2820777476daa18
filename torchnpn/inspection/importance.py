"""Which columns a model relies on: how much worse it does, and how its answers change, when one is shuffled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from torchnpn.inspection import rows as table
from torchnpn.inspection.rows import Array


class Importance(NamedTuple):
    """Columns by falling importance for the loss."""

    names: tuple[str, ...]
    increase: Array  # of the NLL in nats per row, mean over shuffles
    error: Array  # standard error of these means
    mean: Array  # root mean square change of the predicted mean, or of the probabilities of classes
    uncertainty: Array  # root mean square change of the standard deviation, or of the entropy of classes in nats


def permutation_importance(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Mapping[str, Any] | None = None,
    rows: int = 1000,
    shuffles: int = 5,
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> Importance:
    """Increase of the NLL, and change of what is predicted, when the cells of a column change places between rows.

    Columns with the same information share their importance. A column may matter for the uncertainty alone: it then
    says how noisy a row is, or whether rows like it were seen.

    Args:
        estimator: Fitted, with `predict_dist`.
        X: (rows, columns) rows that it was not fitted on, an array or a frame of pandas.
        y: Their targets.
        groups: Columns to shuffle together under a name, as slices or numbers, such as those of one category; None:
            each for itself.
        rows: At most so many of them are used.
        shuffles: Of each column.
        seed: Decides rows and shuffles.
        progress: Called with the share of the work that is done.
    """
    X, y = table.checked(X), np.asarray(y)
    if len(y) != len(X) or shuffles < 2 or rows < 1:
        raise ValueError(
            f"permutation_importance expects a target for each of {len(X)} rows, two shuffles or more and rows, got "
            f"{len(y)} targets, shuffles={shuffles}, rows={rows}."
        )
    rng = np.random.default_rng(seed)
    some = rng.permutation(len(y))[:rows]
    X, y = table.taken(X, some), y[some]
    chosen = {name: [j] for j, name in enumerate(table.names(estimator, X))} if groups is None else groups
    before, every = _answers(estimator, X, y), np.arange(X.shape[1])
    change = np.empty((3, len(chosen), shuffles))
    for i, place in enumerate(chosen.values()):
        for j in range(shuffles):
            after = _answers(estimator, table.shuffled(X, every[place], rng.permutation(len(y))), y)
            change[0, i, j] = (after.loss - before.loss).mean()
            change[1, i, j] = np.sqrt(((after.mean - before.mean) ** 2).mean())
            change[2, i, j] = np.sqrt(((after.uncertainty - before.uncertainty) ** 2).mean())
        progress((i + 1) / len(chosen))
    increase, mean, uncertainty = change.mean(2)
    error = change[0].std(1, ddof=1) / np.sqrt(shuffles)
    order = np.argsort(-increase, kind="stable")
    names = [*chosen]
    return Importance(tuple(names[i] for i in order), increase[order], error[order], mean[order], uncertainty[order])


class _Answers(NamedTuple):
    loss: Array  # (rows,)
    mean: Array
    uncertainty: Array


def _answers(estimator: Any, X: Any, y: Array) -> _Answers:
    """NLL of each row, what is predicted, and how uncertain that is."""
    predicted = estimator.predict_dist(X)
    loss = -predicted.log_prob(y)
    if hasattr(predicted, "probs"):
        return _Answers(loss, predicted.probs, predicted.entropy)
    return _Answers(loss, predicted.mean, predicted.std)
