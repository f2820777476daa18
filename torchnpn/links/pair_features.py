"""Features of a pair of nodes, from what is known of each as a distribution.

Every feature is a sum of products of a number of the one node and a number of the other,

    φ_k(i, j) = Σ_c left[i, c] · right[j, c]    over the columns c with feature[c] = k,

so that a weighted sum of the features, for all pairs of many nodes, is one matrix product. Below, m and s are the mean
and variance of a node's code, n its dimensions, and m̄ and t the mean and variance of m over the training nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from torchnpn.moments import Moments

_LEAST = 1e-6  # of a dimension's mean: added where a logarithm or an inverse is taken of what may be zero


class Products(NamedTuple):
    """Features that are sums of products; see the head of this file."""

    left: Tensor  # (nodes, columns)
    right: Tensor  # (nodes, columns)
    feature: Tensor  # (columns,) which feature a column belongs to

    @classmethod
    def hadamard(cls, values: Tensor) -> Products:
        """Element by element, values (nodes, features) with themselves."""
        return cls(values, values, torch.arange(values.shape[1], device=values.device))

    @classmethod
    def sums(cls, values: Tensor) -> Products:
        """v_i + v_j of values (nodes, features)."""
        ones, number = torch.ones_like(values), torch.arange(values.shape[1], device=values.device)
        return cls(torch.cat([values, ones], 1), torch.cat([ones, values], 1), number.repeat(2))

    @property
    def features(self) -> int:
        """How many features."""
        return int(self.feature.max()) + 1

    @property
    def largest(self) -> float:
        """What no sum of products exceeds."""
        left, right = (side.abs().amax(0).double() for side in (self.left, self.right))
        return float((left * right).sum())

    def of(self, pairs: Tensor) -> Tensor:  # (pairs, 2) -> (pairs, features)
        """The features of some pairs."""
        products = self.left[pairs[:, 0]] * self.right[pairs[:, 1]]
        return products.new_zeros(len(pairs), self.features).index_add_(1, self.feature, products)

    def weighted(self, rows: Tensor, columns: Tensor, weight: Tensor) -> Tensor:
        """Σ_k weight_k φ_k of all pairs of `rows` and `columns`, (rows, columns)."""
        return (self.left[rows] * weight[self.feature]) @ self.right[columns].T

    def beside(self, other: Products) -> Products:
        """The features of both."""
        left, right = (torch.cat(sides, 1) for sides in zip(self[:2], other[:2], strict=True))
        return Products(left, right, torch.cat([self.feature, other.feature + self.features]))


class PairFeatures(NamedTuple):
    """Means of the features of pairs, and the variances of the first of them where a prediction is to know them.

    Where dimensions of codes are correlated, so are features. A "feature" of `variance` is then the covariance of two.
    """

    mean: Products
    variance: Products | None = None  # of features that are certain, which come last, there is none
    entries: Tensor | None = None  # (features of `variance`, 2): which two each belongs to; (k, k) for a variance


# Of a code, `variance` may also be the covariance of its dimensions, (nodes, n, n).
Length = Callable[[Moments, Tensor], Moments]  # of codes and the numbers of the training nodes
Use = Callable[[Moments, Tensor, Length], PairFeatures]


# Lengths -------------------------------------------------------------------------------------------------------------


def raw(x: Moments, nodes: Tensor) -> Moments:
    """Codes as they are: their products are the paper's features."""
    return x


def unit(x: Moments, nodes: Tensor) -> Moments:
    """√n (m - m̄)/|m - m̄|, and the variance scaled alike; a code at m̄ becomes zero."""
    centred = x.mean - x.mean[nodes].mean(0)
    scale = _scale(centred.square().mean(1, keepdim=True))
    if x.variance is None:
        return Moments(centred * scale)
    return Moments(centred * scale, x.variance * (scale if x.variance.ndim == 2 else scale[..., None]) ** 2)


def _scale(square: Tensor) -> Tensor:
    return torch.where(square > 0, square, torch.inf).rsqrt()  # 0 for 0


def rooted(x: Moments) -> Moments:
    """√m of codes m ≥ 0, and to first order its variance s/(4 m): large amounts then no longer drown small ones."""
    slope = torch.where(x.mean > 0, 0.5 * x.mean.rsqrt(), 0.0)
    if x.variance is None or x.variance.ndim == x.mean.ndim:
        return Moments(x.mean.sqrt(), None if x.variance is None else x.variance * slope**2)
    return Moments(x.mean.sqrt(), slope[:, :, None] * x.variance * slope[:, None, :])


def with_sums(features: PairFeatures, x: Moments, nodes: Tensor) -> PairFeatures:
    """Beside other features m_i + m_j and m_i² + m_j², in standard units: what makes a node link at all."""
    sums = _standard_sums(torch.cat([x.mean, x.mean**2], 1), nodes)
    return features._replace(mean=features.mean.beside(sums))


def with_traits(features: PairFeatures, traits: Tensor, nodes: Tensor) -> PairFeatures:
    """Beside other features z_i z_j, z_i + z_j and z_i² + z_j² of numbers (nodes, traits), z in standard units."""
    z = _standard(traits, nodes)
    both = Products.hadamard(z).beside(_standard_sums(torch.cat([z, z**2], 1), nodes))
    return features._replace(mean=features.mean.beside(both))


def _standard_sums(values: Tensor, nodes: Tensor) -> Products:
    return Products.sums(_standard(values, nodes))


def _standard(values: Tensor, nodes: Tensor) -> Tensor:
    centred, spread = values - values[nodes].mean(0), values[nodes].std(0, correction=0)
    return torch.where(spread > 0, centred / spread, 0.0)


# Uses of the variance ------------------------------------------------------------------------------------------------


def without(x: Moments, nodes: Tensor, length: Length) -> PairFeatures:
    """m_i m_j, after `length`."""
    return PairFeatures(Products.hadamard(length(Moments(x.mean), nodes).mean))


def as_features(x: Moments, nodes: Tensor, length: Length) -> PairFeatures:
    """m_i m_j and log s_i log s_j, each after `length`."""
    values = [length(Moments(part), nodes).mean for part in (x.mean, _logs(x, nodes))]
    return PairFeatures(Products.hadamard(torch.cat(values, 1)))


def _logs(x: Moments, nodes: Tensor) -> Tensor:
    """log(s + 10⁻⁶ s̄), for s may be zero; 0 where a dimension is certain throughout."""
    s, least = _variance(x), _LEAST * _variance(x)[nodes].mean(0)
    return torch.log(torch.where(least > 0, s + least, torch.ones_like(s)))


def predictive(x: Moments, nodes: Tensor, length: Length) -> PairFeatures:
    """m_i m_j, after `length`, with the covariances of their products: of independent nodes with means m, covariances C

        Cov(φ_k, φ_l) = C_i,kl (C_j,kl + m_j,k m_j,l) + m_i,k m_i,l C_j,kl,

    which for dimensions that are independent, too, is a variance, s_i (s_j + m_j²) + m_i² s_j.
    """
    m, C = length(Moments(x.mean, _second(x)), nodes)
    assert C is not None
    n = m.shape[1]
    if C.ndim == 2:
        squares, entries, factor = m**2, torch.arange(n, device=m.device).expand(2, n), m.new_ones(n)
    else:
        entries = torch.triu_indices(n, n, device=m.device)
        k, other = entries
        squares, C = m[:, k] * m[:, other], C[:, k, other]
        factor = torch.where(k == other, 1.0, 2.0)  # (k, l) stands for (l, k), too
    left, right = torch.cat([C * factor, squares * factor], 1), torch.cat([C + squares, C], 1)
    number = torch.arange(C.shape[1], device=m.device)
    return PairFeatures(Products.hadamard(m), Products(left, right, number.repeat(2)), entries.T)


def expected_cosine(x: Moments, nodes: Tensor, length: Length) -> PairFeatures:
    """m_i m_j of codes u = √n (m - m̄)/√(|m - m̄|² + Σ s): their length is that of a draw, so an uncertain code is short.

    Their sum is n E x_i·x_j/√(E|x_i|² E|x_j|²), the cosine that is expected; `length` plays no part.
    """
    centred = x.mean - x.mean[nodes].mean(0)
    return PairFeatures(Products.hadamard(centred * _scale((centred**2 + _variance(x)).mean(1, keepdim=True))))


def shrunk(x: Moments, nodes: Tensor, length: Length) -> PairFeatures:
    """m_i m_j of codes m̄ + (m - m̄) t/(t + s), after `length`: dimensions that are uncertain for this node count less.

    It is the mean of a posterior: of the prior N(m̄, t) and an observation m with variance s.
    """
    return without(_given_spread(x, nodes), nodes, length)


def weighted(x: Moments, nodes: Tensor, length: Length) -> PairFeatures:
    """m_i m_j of codes m̄ + (m - m̄) √(t/(t + s)), after `length`; half as strong as `shrunk`.

    Of centred codes, the product is m_i m_j/√((1 + s_i/t)(1 + s_j/t)).
    """
    center = x.mean[nodes].mean(0)
    return without(Moments(center + _known(x, nodes).sqrt() * (x.mean - center)), nodes, length)


def divergence(x: Moments, nodes: Tensor, length: Length) -> PairFeatures:
    """m_i m_j after `length`, and for each dimension the symmetric divergence of the codes as Gaussians,

        KL(i, j) + KL(j, i) = ½ ((s_i + d²)/s_j + (s_j + d²)/s_i) - 1,    d = m_i - m_j,

    less its constant; here s is the code's variance plus t, or near-certain codes would be infinitely far apart.
    """
    mean = without(x, nodes, length).mean
    m = x.mean - x.mean[nodes].mean(0)
    s = _variance(x) + m[nodes].square().mean(0)
    s = s + _LEAST * s[nodes].mean()
    ones, inverse, own = torch.ones_like(s), torch.where(s > 0, 0.5 / s, 0.0), s + m**2  # 0: certain, and all alike
    left = [own, inverse, m * inverse, m, m**2 * inverse, ones]
    right = [inverse, own, -2 * m, -2 * m * inverse, ones, m**2 * inverse]
    feature = torch.arange(m.shape[1], device=m.device).repeat(len(left))
    return PairFeatures(mean.beside(Products(torch.cat(left, 1), torch.cat(right, 1), feature)))


def posterior(x: Moments, nodes: Tensor, length: Length) -> PairFeatures:
    """A code m with variance s is an observation, and N(m̄, t) the prior: features of what is known after both.

    The posterior has the mean m̄ + k (m - m̄) and the variance k s with k = t/(t + s), in each dimension (in regression
    on what is seen with errors, this is regression calibration). Its products and divergences are as in `divergence`,
    the products' variances as in `predictive`; beside them, in standard units, stands log s̄_i + log s̄_j of the nodes'
    mean variances, for uncertain nodes may have more links or fewer.
    """
    known = _given_spread(x, nodes)
    doubts = _standard_sums(_logs(Moments(x.mean, _variance(x).mean(1, keepdim=True)), nodes), nodes)
    moderating = predictive(known, nodes, length)
    return moderating._replace(mean=divergence(known, nodes, length).mean.beside(doubts))


def joint(x: Moments, nodes: Tensor, length: Length) -> PairFeatures:
    """`predictive`, and what makes a node link at all: sums over both nodes of m and m², after `length`, and of log s.

    Made for codes with covariances. Correlated dimensions then moderate a score as they should, and nothing else
    need be done about uncertain codes.
    """
    products, m = predictive(x, nodes, length), length(Moments(x.mean), nodes).mean
    sums = _standard_sums(torch.cat([m, m**2, _logs(x, nodes)], 1), nodes)
    return products._replace(mean=products.mean.beside(sums))


def _given_spread(x: Moments, nodes: Tensor) -> Moments:
    center, k = x.mean[nodes].mean(0), _known(x, nodes)
    return Moments(center + k * (x.mean - center), k * _variance(x))


def _known(x: Moments, nodes: Tensor) -> Tensor:
    """t/(t + s): how much of a code is known."""
    t = (x.mean[nodes] - x.mean[nodes].mean(0)).square().mean(0)
    total = t + _variance(x)
    return torch.where(total > 0, t / total, torch.ones_like(total))


def _second(x: Moments) -> Tensor:
    """Variances or covariances."""
    return torch.zeros_like(x.mean) if x.variance is None else x.variance


def _variance(x: Moments) -> Tensor:
    """Variances, also of codes with covariances."""
    second = _second(x)
    return second if second.ndim == 2 else second.diagonal(dim1=1, dim2=2)


LENGTHS: dict[str, Length] = {"hadamard": raw, "cosine": unit}
USES: dict[str, Use] = {
    "none": without,
    "features": as_features,
    "predictive": predictive,
    "expected cosine": expected_cosine,
    "shrunk": shrunk,
    "weighted": weighted,
    "divergence": divergence,
    "posterior": posterior,
    "joint": joint,
}


# Controls ------------------------------------------------------------------------------------------------------------


def average(x: Moments) -> Moments:
    """Codes whose variance is the mean of its dimension, the same for every node."""
    return with_variance(x, torch.ones_like(x.mean))


def square_of_mean(x: Moments) -> Moments:
    """Codes whose log variance is m², but for constants: no more is known than the mean."""
    return with_variance(x, torch.exp(x.mean**2 / x.mean.square().max()))


def log_of_mean(x: Moments) -> Moments:
    """Codes whose log variance is 2 log |m|, but for constants: as if one parameter gave both moments."""
    return with_variance(x, x.mean**2)


def with_variance(x: Moments, variance: Tensor) -> Moments:
    """The codes with another variance, scaled to the mean variance of each dimension.

    Those with covariances keep their mean correlations, so that what a control lacks is what is known of each node.
    """
    scaled = variance * _variance(x).mean(0) / variance.mean(0)
    if _second(x).ndim == 2:
        return Moments(x.mean, scaled)
    mean, std = _second(x).mean(0), scaled.sqrt()
    size = mean.diagonal().sqrt()
    correlation = torch.where(torch.outer(size, size) > 0, mean / torch.outer(size, size), 0.0)
    return Moments(x.mean, std[:, :, None] * correlation * std[:, None, :])


CONTROLS: dict[str, Callable[[Moments], Moments]] = {
    "average": average,
    "m²": square_of_mean,
    "log m": log_of_mean,
}
