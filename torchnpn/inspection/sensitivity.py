"""Derivatives of predicted means and variances: what moves one row's prediction, and what makes it uncertain.

A pass of moments is a smooth function of the row, so its derivatives are exact, with no samples and no model between.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from torchnpn.estimators import in_float64
from torchnpn.inspection.rows import Array
from torchnpn.likelihoods import OrderedClasses, mixture_parts
from torchnpn.moments import Moments
from torchnpn.nn import Ensemble, MeanAndNoise, Sequential, replicas_of, side_by_side
from torchnpn.rows import validation

_STEPS = 48


class Sensitivities(NamedTuple):
    """Derivatives by each feature, per unit of it: (rows, features), or (rows, targets or classes, features).

    NaN where the feature is missing in a row.
    """

    mean: Array  # of the predicted mean, or of the probabilities
    epistemic: Array  # of the epistemic variance
    aleatoric: Array  # of the aleatoric variance


class Attributions(NamedTuple):
    """Shares of features in a change of the prediction; their sums over features are the whole change."""

    mean: Array  # shares in `mean_change`, (rows, features) or (rows, targets or classes, features)
    variance: Array  # shares in `variance_change`
    mean_change: Array  # (rows,) or (rows, targets or classes)
    variance_change: Array


def sensitivities(estimator: Any, X: Any) -> Sensitivities:
    """∂ mean/∂x_j, ∂ epistemic variance/∂x_j and ∂ aleatoric variance/∂x_j of each row.

    Args:
        estimator: A fitted NPNRegressor or NPNClassifier. Calibration does not enter.
        X: (rows, features).
    """
    z, s, missing = _standardised(estimator, X)
    found = _derivatives(estimator, z, s)
    units = np.where(missing, np.nan, 1.0)[:, None, :] / estimator.inputs_.scale
    return Sensitivities(*(_flat(estimator, part * units) for part in found))


def attributions(estimator: Any, X: Any, reference: Any = None) -> Attributions:
    """What each feature adds to the mean and to the variance on the way from a reference row to each row of X.

    The integral of the derivatives along the straight line between them, times how far the feature goes (integrated
    gradients: Sundararajan, Taly, Yan, 2017), so that the shares add up to the change of the prediction. It is summed
    over 48 steps; what the derivatives in the middle of a step leave of its change, they share by their size. A missing
    value stays missing on the way, and has no share.

    Args:
        estimator: A fitted NPNRegressor or NPNClassifier.
        X: (rows, features).
        reference: (features,) a row to compare with; None: the mean of the training rows.
    """
    z, s, missing = _standardised(estimator, X)
    start = torch.from_numpy(estimator.inputs_.mean)[None].double()
    if reference is not None:
        start = _standardised(estimator, np.asarray(reference, dtype=np.float64)[None])[0]
    way = torch.where(torch.from_numpy(missing), 0.0, z - start)
    first = last = _mean_and_variance(estimator, z - way, s)
    shares = [np.zeros((*part.shape, z.shape[1])) for part in first]
    for step in range(_STEPS):
        by_mean, *by_parts = _derivatives(estimator, z - (1 - (step + 0.5) / _STEPS) * way, s)
        before, last = last, _mean_and_variance(estimator, z - (1 - (step + 1) / _STEPS) * way, s)
        for share, slope, a, b in zip(shares, (by_mean, sum(by_parts)), before, last, strict=True):
            share += _completed(slope * (way / _STEPS)[:, None, :].numpy(), b - a)
    changes = [b - a for a, b in zip(first, last, strict=True)]
    return Attributions(*(_flat(estimator, part) for part in (*shares, *changes)))


def _completed(shares: Array, change: Array) -> Array:  # (rows, targets, features), (rows, targets)
    """Shares whose sum is the change: the rest goes to each feature in proportion to its size."""
    size = np.abs(shares)
    total = size.sum(-1, keepdims=True)
    rest = (change - shares.sum(-1))[..., None]
    return np.asarray(shares + np.divide(size, total, out=np.zeros_like(size), where=total > 0) * rest)


def _mean_and_variance(estimator: Any, z: Tensor, s: Tensor | None) -> tuple[Array, Array]:
    with torch.no_grad():
        mean, epistemic, aleatoric = _predicted(estimator, z, s)
    return mean.numpy(), (epistemic + aleatoric).numpy()


def _standardised(estimator: Any, X: Any) -> tuple[Tensor, Tensor | None, Array]:  # each (rows, features)
    """Means and variances of inputs of the network but for bins, and where values are missing."""
    check_is_fitted(estimator, "network_")
    if isinstance(estimator.likelihood_, OrderedClasses):
        raise ValueError("Derivatives are there for numbers and for classes without an order, got ordered=True.")
    rows = validation.checked_rows(estimator, X, reset=False)
    if scipy.sparse.issparse(rows):
        raise ValueError("X expects a dense array, got a sparse matrix. Convert with X.toarray().")
    z, s = estimator.inputs_.moments(rows)
    return z.double(), None if s is None else s.double(), np.isnan(rows)


def _predicted(estimator: Any, z: Tensor, s: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:  # (rows, targets) each
    """Mean, epistemic and aleatoric variance, in the units of the target."""
    inputs = Moments(z, s) if estimator._bins is None else estimator._bins.beside(Moments(z, s))
    o = _output(in_float64(estimator.network_), inputs)
    each, parts = estimator.likelihood_.predict(o), estimator.likelihood_.variance_parts(o)
    mean = each.mean
    if replicas_of(estimator.network_):
        mean, parts = estimator._mixed(each).mean, mixture_parts(parts, each.mean, estimator._weights)
    if not hasattr(estimator, "units_"):
        return mean, parts.epistemic, parts.aleatoric
    shift, scale = map(torch.from_numpy, estimator.units_)
    return shift + scale * mean, scale**2 * parts.epistemic, scale**2 * parts.aleatoric


def _output(network: Sequential | Ensemble, inputs: Moments) -> Moments:
    """As the network gives it, with the gradient that `MeanAndNoise` keeps from features in training."""
    if isinstance(network, Ensemble):
        return side_by_side([_output(one, first) for one, first in network.with_inputs(inputs)])
    last = network[-1]
    if not isinstance(last, MeanAndNoise):
        o: Moments = network(inputs)
        return o
    features = network[:-1](inputs)
    return Moments(*(torch.cat(parts, -1) for parts in zip(last.mean(features), last.noise(features), strict=True)))


def _derivatives(estimator: Any, z: Tensor, s: Tensor | None) -> list[Array]:  # (rows, targets, features) each
    """Of the three by standardised features. Rows do not meet in the network: a sum over them has each one's own."""
    with torch.enable_grad():
        z = z.detach().requires_grad_()
        outputs = _predicted(estimator, z, s)
        return [np.stack([_gradient(part[:, k].sum(), z) for k in range(part.shape[1])], 1) for part in outputs]


def _gradient(total: Tensor, z: Tensor) -> Array:
    """Of a sum over rows; zero for what does not depend on them, such as constant noise."""
    if not total.requires_grad:
        return np.zeros(z.shape)
    (found,) = torch.autograd.grad(total, z, retain_graph=True, allow_unused=True)
    return np.zeros(z.shape) if found is None else found.numpy()


def _flat(estimator: Any, values: Array) -> Array:
    """Without the dimension of targets where there is a single one."""
    return np.asarray(values[:, 0] if getattr(estimator, "_flat", False) else values)
