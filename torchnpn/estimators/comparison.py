"""`family="auto"`: the family under which rows that networks have not seen are most likely, among those that can be."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from torchnpn.estimators import stacking
from torchnpn.io import checks
from torchnpn.likelihoods import BY_NAME
from torchnpn.progress import Watch
from torchnpn.rows import copies

if TYPE_CHECKING:
    from torchnpn.estimators.regressor import NPNRegressor

Array = NDArray[Any]
AUTO = "auto"
_MOST_ROWS = 4_000  # that are compared
_NETWORKS = stacking.Candidates((50,), (1.0,), 800)
_WORTH = 0.005  # nats per row, by which a family later in the list has to be better
_LEAST_COUNT, _LARGEST_COUNT = 10, 1_000  # whole numbers that all lie above, or reach beyond, measure something
_ZEROS = 0.01  # the share of zeros among amounts from which on they are no chance


def choice(model: NPNRegressor, X: Any, y: Array, weight: Array | None) -> tuple[str, dict[str, float]]:
    """The first family that none is clearly better than, and the mean log-likelihood in nats per row by family.

    The likelihood is that of rows left out, by a small network of each family. A count has a probability and a number a
    density; where all targets are whole, a density stands for the probability of what is less than a half away, and
    counts for one at most. Of very few rows the usual family is taken.

    Args:
        model: Has settings for the networks.
        X: Rows that have been checked.
        y: Their targets, as `_begin` takes them.
        weight: Of rows.
    """
    columns = model._parts(y)[0]
    names = candidates(columns, censored=model._censored, exposed=model.exposure_ is not None)
    if len(y) < stacking.LEAST_ROWS:
        return names[0], {}
    if scipy.sparse.issparse(X):
        raise ValueError('family="auto" expects dense X, got a sparse matrix. Name the family, such as "gaussian".')
    if len(X) > _MOST_ROWS:
        drawn = np.sort(np.random.default_rng(0).choice(len(X), _MOST_ROWS, replace=False))
        X, y, weight = X[drawn], y[drawn], None if weight is None else weight[drawn]
    most = 0.0 if (columns == np.round(columns)).all() else np.inf
    left_out = {name: np.minimum(_left_out(model, name, X, y, weight), most) for name in names}
    found = {name: float(np.average(logs, weights=weight)) for name, logs in left_out.items()}
    if model.verbose:
        told = ", ".join(f"{name} {mean:.3f}" for name, mean in found.items())
        print(f"[{type(model).__name__}] log-likelihood of a row left out: {told}")
    return next(name for name in names if found[name] >= max(found.values()) - _WORTH), found


def from_plain(plain: dict[str, Any]) -> tuple[str, dict[str, float]]:
    """The same of a model file; a ValueError for what cannot have been written."""
    found = {
        name: checks.number(name, mean) for name, mean in checks.mapping("families", plain.get("families")).items()
    }
    family = checks.text("family", plain.get("family"))
    if unknown := {family, *found} - BY_NAME.keys():
        raise ValueError(f"families should be known, got {sorted(unknown)}")
    return family, found


def candidates(y: Array, *, censored: bool, exposed: bool) -> list[str]:
    """Families for targets (rows, targets), the simplest first; of those whose support holds them, the usual ones."""
    if censored:
        return ["lognormal", "weibull"]
    zeros = float((y == 0).mean())
    if is_count(y):
        names = ["negative_binomial", *(["zero_inflated_negative_binomial"] if zeros else []), "gaussian"]
    elif (y > 0).all():
        names = ["gaussian", "student_t", "beta"] if (y < 1).all() else ["gaussian", "student_t", "gamma", "lognormal"]
    elif (y >= 0).all() and zeros > _ZEROS:  # a probability at 0 and a density cannot be compared
        names = ["hurdle_gamma", "hurdle_lognormal"]
    else:
        names = ["gaussian", "student_t"]
    if exposed and not (names := [name for name in names if BY_NAME[name].log_link]):
        raise ValueError("exposure goes with counts and with amounts, which are not below 0; got other targets.")
    return names


def is_count(y: Array) -> bool:
    """Whether these are whole numbers from 0, or from not far above, up to some hundreds."""
    return bool((y == np.round(y)).all() and 0 <= y.min() < _LEAST_COUNT and y.max() <= _LARGEST_COUNT)


def _left_out(model: NPNRegressor, name: str, X: Any, y: Array, weight: Array | None) -> Array:
    """log p(y) of each row, summed over its targets, by a network that has not seen it."""
    trial = copy.copy(model)  # whose attributes are assigned, and not changed
    trial.family_, trial.random_state = name, 0
    trial.batch_size, trial.max_epochs, trial.dropout, trial.activation = None, None, 0.0, "relu"
    trial._mixing = trial._bins = None
    t, targets = trial._begin_family(X, y, weight, len(X))
    trial._start_again()
    data = trial._inputs(X, None), t, weight
    trained = trial._trained(_NETWORKS, data, targets, copies(X, y), _NETWORKS.member_kl_weights, Watch())
    logs: Array = trained.left_out[0]
    return logs if trial._censored else logs - np.log(trial.units_.scale).sum()
