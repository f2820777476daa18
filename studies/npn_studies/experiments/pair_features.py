"""Features of pairs that `links` compares, beyond those of `LinkPredictor`, and controls for uses of the variance.

Below, m and s are the mean and variance of a node's code, n its dimensions, and m̄ and t the mean and variance of m over
the training nodes.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from torchnpn.links import (
    Codes,
    FeatureMap,
    Normalisation,
    PairFeatures,
    Products,
    joint,
    log_variances,
    products,
    standard_sums,
    standardised,
    uncertain_products,
    variances,
)
from torchnpn.moments import JointMoments, Moments

_LEAST = 1e-6  # of the mean variance: added where an inverse is taken of what may be zero


def square_root(x: Codes) -> Codes:
    """√m of codes m ≥ 0, and to first order its variance s/(4 m): large amounts then no longer drown small ones."""
    mean, slope = x.mean.sqrt(), torch.where(x.mean > 0, 0.5 * x.mean.rsqrt(), 0.0)
    if isinstance(x, JointMoments):
        return JointMoments(mean, slope[:, :, None] * x.covariance * slope[:, None, :])
    return Moments(mean, None if x.variance is None else x.variance * slope**2)


# Uses of the variance ------------------------------------------------------------------------------------------------


def means(x: Codes, nodes: Tensor, normalise: Normalisation) -> PairFeatures:
    """m_i m_j, normalised."""
    return products(Moments(x.mean), nodes, normalise)


def expected_cosine(x: Codes, nodes: Tensor, normalise: Normalisation) -> PairFeatures:
    """m_i m_j of codes u = √n (m - m̄)/√(|m - m̄|² + Σ s): their length is that of a draw, so an uncertain code is short.

    Their sum is n E x_i·x_j/√(E|x_i|² E|x_j|²), the cosine that is expected; `normalise` plays no part.
    """
    centred = x.mean - x.mean[nodes].mean(0)
    square = (centred**2 + variances(x)).mean(1, keepdim=True)
    return PairFeatures(Products.hadamard(centred * torch.where(square > 0, square, torch.inf).rsqrt()))


def shrunk(x: Codes, nodes: Tensor, normalise: Normalisation) -> PairFeatures:
    """m_i m_j of codes m̄ + (m - m̄) t/(t + s), normalised: dimensions that are uncertain for this node count less.

    It is the mean of a posterior: of the prior N(m̄, t) and an observation m with variance s.
    """
    return means(_posterior_codes(x, nodes), nodes, normalise)


def weighted(x: Codes, nodes: Tensor, normalise: Normalisation) -> PairFeatures:
    """m_i m_j of codes m̄ + (m - m̄) √(t/(t + s)), normalised; half as strong as `shrunk`.

    Of centred codes, the product is m_i m_j/√((1 + s_i/t)(1 + s_j/t)).
    """
    center = x.mean[nodes].mean(0)
    return means(Moments(center + _known(x, nodes).sqrt() * (x.mean - center)), nodes, normalise)


def divergence(x: Codes, nodes: Tensor, normalise: Normalisation) -> PairFeatures:
    """m_i m_j, normalised, and for each dimension the symmetric divergence of the codes as Gaussians,

        KL(i, j) + KL(j, i) = ½ ((s_i + d²)/s_j + (s_j + d²)/s_i) - 1,    d = m_i - m_j,

    less its constant; here s is the code's variance plus t, or near-certain codes would be infinitely far apart.
    """
    mean = means(x, nodes, normalise).mean
    m = x.mean - x.mean[nodes].mean(0)
    s = variances(x) + m[nodes].square().mean(0)
    s = s + _LEAST * s[nodes].mean()
    ones, inverse, own = torch.ones_like(s), torch.where(s > 0, 0.5 / s, 0.0), s + m**2  # 0: certain, and all alike
    left = [own, inverse, m * inverse, m, m**2 * inverse, ones]
    right = [inverse, own, -2 * m, -2 * m * inverse, ones, m**2 * inverse]
    feature = torch.arange(m.shape[1], device=m.device).repeat(len(left))
    return PairFeatures(mean.beside(Products(torch.cat(left, 1), torch.cat(right, 1), feature)))


def posterior(x: Codes, nodes: Tensor, normalise: Normalisation) -> PairFeatures:
    """A code m with variance s is an observation, and N(m̄, t) the prior: features of what is known after both.

    The posterior has the mean m̄ + k (m - m̄) and the variance k s with k = t/(t + s), in each dimension (in regression
    on what is seen with errors, this is regression calibration). Its products and divergences are as in `divergence`,
    the products' variances as in `uncertain_products`; beside them, in standard units, stands log s̄_i + log s̄_j of the
    nodes' mean variances, for uncertain nodes may have more links or fewer.
    """
    known = _posterior_codes(x, nodes)
    mean_variances = Moments(x.mean, variances(x).mean(1, keepdim=True))
    sums = standard_sums(log_variances(mean_variances, nodes), nodes)
    moderating = uncertain_products(known, nodes, normalise)
    return moderating._replace(mean=divergence(known, nodes, normalise).mean.beside(sums))


def _posterior_codes(x: Codes, nodes: Tensor) -> Moments:
    center, k = x.mean[nodes].mean(0), _known(x, nodes)
    return Moments(center + k * (x.mean - center), k * variances(x))


def _known(x: Codes, nodes: Tensor) -> Tensor:
    """t/(t + s): how much of a code is known."""
    t = (x.mean[nodes] - x.mean[nodes].mean(0)).square().mean(0)
    total = t + variances(x)
    return torch.where(total > 0, t / total, torch.ones_like(total))


USES: dict[str, FeatureMap] = {  # by the names in records
    "none": means,
    "features": products,
    "predictive": uncertain_products,
    "expected cosine": expected_cosine,
    "shrunk": shrunk,
    "weighted": weighted,
    "divergence": divergence,
    "posterior": posterior,
    "joint": joint,
}
NORMALISATIONS = {"cosine": "cosine", "hadamard": "none"}  # of `LinkPredictor`, by the names in records


# Features beside them ------------------------------------------------------------------------------------------------


def with_sums(features: PairFeatures, x: Codes, nodes: Tensor) -> PairFeatures:
    """Beside other features m_i + m_j and m_i² + m_j², in standard units: what makes a node link at all."""
    sums = standard_sums(torch.cat([x.mean, x.mean**2], 1), nodes)
    return features._replace(mean=features.mean.beside(sums))


def with_traits(features: PairFeatures, traits: Tensor, nodes: Tensor) -> PairFeatures:
    """Beside other features z_i z_j, z_i + z_j and z_i² + z_j² of numbers (nodes, traits), z in standard units."""
    z = standardised(traits, nodes)
    both = Products.hadamard(z).beside(standard_sums(torch.cat([z, z**2], 1), nodes))
    return features._replace(mean=features.mean.beside(both))


# Controls ------------------------------------------------------------------------------------------------------------


def average(x: Codes) -> Codes:
    """Codes whose variance is the mean of its dimension, the same for every node."""
    return with_variance(x, torch.ones_like(x.mean))


def square_of_mean(x: Codes) -> Codes:
    """Codes whose log variance is m², but for constants: no more is known than the mean."""
    return with_variance(x, torch.exp(x.mean**2 / x.mean.square().max()))


def log_of_mean(x: Codes) -> Codes:
    """Codes whose log variance is 2 log |m|, but for constants: as if one parameter gave both moments."""
    return with_variance(x, x.mean**2)


def with_variance(x: Codes, variance: Tensor) -> Codes:
    """The codes with another variance, scaled to the mean variance of each dimension.

    Those with covariances keep their mean correlations, so that what a control lacks is what is known of each node.
    """
    scaled = variance * variances(x).mean(0) / variance.mean(0)
    if not isinstance(x, JointMoments):
        return Moments(x.mean, scaled)
    mean, std = x.covariance.mean(0), scaled.sqrt()
    size = mean.diagonal().sqrt()
    correlation = torch.where(torch.outer(size, size) > 0, mean / torch.outer(size, size), 0.0)
    return JointMoments(x.mean, std[:, :, None] * correlation * std[:, None, :])


CONTROLS: dict[str, Callable[[Codes], Codes]] = {
    "average": average,
    "m²": square_of_mean,
    "log m": log_of_mean,
}
