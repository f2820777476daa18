"""Log-odds of links under the posterior of the weights: of some pairs, and of all pairs of many nodes by products.

With features φ of mean m and covariance C, and weights w ~ N(μ, S) without the intercept's place in φ, which is 1:

    a_m = μ·m,    a_s = mᵀ S m + Σ_kl C_kl (μ_k μ_l + S_kl).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from torchnpn.links.features import PairFeatures
from torchnpn.moments import JointMoments, Moments


def pair_moments(pairs: Tensor, features: PairFeatures, weights: JointMoments) -> Moments:
    """Mean and variance of the log-odds of each pair of nodes, (pairs,), in float64."""
    m = F.pad(features.mean.of(pairs).double(), (0, 1), value=1.0)
    variance = ((m @ weights.covariance) * m).sum(1)
    if features.variance is not None:
        of_codes = features.variance.of(pairs).double() @ _squared_weights(features, weights)
        variance = variance + of_codes.clamp_min(0)  # ≥ 0 but for rounding
    return Moments(m @ weights.mean, variance)


def score(rows: Tensor, columns: Tensor, features: PairFeatures, weights: JointMoments) -> Tensor:
    """The log-odds of all pairs of `rows` and `columns`, float32: their means, moderated where features have variances.

    Moderated log-odds are a_m/√(1 + π/8 Σ C (μ μᵀ + S)), for E σ(a) rises with them, nearly. What the weights add to
    the variance, mᵀ S m, falls with every pair learnt from, and would cost a product for each weight: it is left out.
    """
    weight = weights.mean.to(features.mean.left.dtype)
    mean = features.mean.weighted(rows, columns, weight[:-1]) + weight[-1]
    if features.variance is None:
        return mean
    variance = features.variance.weighted(rows, columns, _squared_weights(features, weights).to(weight))
    return mean * torch.rsqrt(1 + math.pi / 8 * variance.clamp_min(0))  # ≥ 0 but for rounding


def _squared_weights(features: PairFeatures, weights: JointMoments) -> Tensor:
    """μ_k μ_l + S_kl, what the covariance of two features is multiplied by."""
    assert features.entries is not None
    k, other = features.entries.T
    return weights.mean[k] * weights.mean[other] + weights.covariance[k, other]
