"""The logistic model of links: Laplace's approximation with a precision learnt by evidence, on any device.

It is the model of `BayesianLogisticRegression` for exact features, as one program of tensors: hundreds of thousands of
pairs are learnt from in a second on a GPU.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

_INTERCEPT_PRECISION = 1e-6  # a standard deviation of 1000 logits
_MOST_ROUNDS, _MOST_STEPS, _MOST_HALVINGS = 30, 50, 40
_GAIN = 1e-9  # nats that a step of Newton must promise
_CHANGE = 1e-2  # of the logarithm of the precision, too small to go on for


class LinkPosterior(NamedTuple):
    """w ~ N(mean, covariance); the last weight is the intercept."""

    mean: Tensor  # (features + 1,)
    covariance: Tensor  # (features + 1, features + 1)
    precision: float  # of the prior


def learn(features: Tensor, linked: Tensor, precision: float | None) -> LinkPosterior:
    """The posterior N(w*, H⁻¹) of p(link) = σ(w·φ + b) with the prior w ~ N(0, 1/precision) (Bishop 2006, 4.5).

    Where `precision` is None it is MacKay's fixed point α = Σ (1 - α S_kk) / Σ w_k².

    Args:
        features: (pairs, features), scaled alike.
        linked: (pairs,) 0 or 1.
        precision: A number above 0, or None.
    """
    x = F.pad(features.double(), (0, 1), value=1.0)
    y, alpha = linked.double(), 1.0 if precision is None else precision
    w = x.new_zeros(x.shape[1])
    w[-1] = torch.logit(y.mean())
    for _ in range(_MOST_ROUNDS):
        prior = torch.full_like(w, alpha)
        prior[-1] = _INTERCEPT_PRECISION
        w, covariance = _laplace(x, y, prior, w)
        if precision is not None:
            break
        known = len(w) - 1 - alpha * float(covariance.diagonal()[:-1].sum())
        if known <= 0:  # features that say nothing, of which any precision is as good
            break
        before, alpha = alpha, known / max(float(w[:-1] @ w[:-1]), 1e-12 * known)
        if abs(math.log(alpha / before)) < _CHANGE:
            break
    return LinkPosterior(w, covariance, float(alpha))


def _laplace(x: Tensor, y: Tensor, prior: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """The maximum, by Newton's steps, halved until they gain; and the inverse of the curvature there."""
    value = _log_posterior(x, y, prior, w)
    for _ in range(_MOST_STEPS):
        p = torch.sigmoid(x @ w)
        factor = torch.linalg.cholesky(torch.diag(prior) + (x * (p * (1 - p))[:, None]).T @ x)
        slope = (y - p) @ x - prior * w
        direction = torch.cholesky_solve(slope[:, None], factor)[:, 0]
        gain = float(direction @ slope)
        if gain <= _GAIN:
            break
        for halvings in range(_MOST_HALVINGS):
            step = direction * 0.5**halvings
            higher = _log_posterior(x, y, prior, w + step)
            if higher >= value + 1e-4 * 0.5**halvings * gain - 1e-12 * abs(value):  # but for rounding
                break
        w, value = w + step, higher
    return w, torch.cholesky_inverse(factor)


def _log_posterior(x: Tensor, y: Tensor, prior: Tensor, w: Tensor) -> float:
    a = x @ w
    return float(y @ a - F.softplus(a).sum() - 0.5 * prior @ w**2)
