"""Log-odds of links under the posterior of the weights: of some pairs, and of all pairs of many nodes by products.

With features φ of mean m and variance s, and weights w ~ N(μ, S) without the intercept's place in φ, which is 1:

    a_m = μ·m,    a_s = mᵀ S m + s·(μ² + diag S).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from torchnpn.estimators.link_posterior import LinkPosterior
from torchnpn.estimators.pair_features import PairFeatures
from torchnpn.moments import Moments


def pair_moments(pairs: Tensor, features: PairFeatures, posterior: LinkPosterior) -> Moments:
    """Mean and variance of the log-odds of each pair of nodes, (pairs,), in float64."""
    m = F.pad(features.mean.of(pairs).double(), (0, 1), value=1.0)
    variance = ((m @ posterior.covariance) * m).sum(1)
    if features.variance is not None:
        variance = variance + features.variance.of(pairs).double() @ _of_features(posterior)
    return Moments(m @ posterior.mean, variance)


def score(rows: Tensor, columns: Tensor, features: PairFeatures, posterior: LinkPosterior) -> Tensor:
    """The log-odds of all pairs of `rows` and `columns`, float32: their means, moderated where features have variances.

    Moderated log-odds are a_m/√(1 + π a_s/8), for E σ(a) rises with them, nearly.
    """
    weight = posterior.mean.to(features.mean.left.dtype)
    mean = features.mean.weighted(rows, columns, weight[:-1]) + weight[-1]
    if features.variance is None:
        return mean
    variance = features.variance.weighted(rows, columns, _of_features(posterior).to(weight))
    variance += _of_weights(rows, columns, features, posterior)
    return mean * torch.rsqrt(1 + math.pi / 8 * variance)


def _of_features(posterior: LinkPosterior) -> Tensor:
    """μ² + diag S, what a feature's variance is multiplied by."""
    return (posterior.mean**2 + posterior.covariance.diagonal())[:-1]


def _of_weights(rows: Tensor, columns: Tensor, features: PairFeatures, posterior: LinkPosterior) -> Tensor:
    """mᵀ S m of all pairs: Σ λ (e·m)² over the eigenvectors e of S, a product for each."""
    values, vectors = torch.linalg.eigh(posterior.covariance)
    total = torch.zeros(len(rows), len(columns), device=rows.device)
    for value, vector in zip(values.to(total), vectors.T.to(total), strict=True):
        total += value * (features.mean.weighted(rows, columns, vector[:-1]) + vector[-1]).square()
    return total
