"""Features of a pair of nodes, from the code of each as a distribution.

Every feature is a sum of products of a number of the one node and a number of the other,

    φ_k(i, j) = Σ_c left[i, c] · right[j, c]    over the columns c with feature[c] = k,

so that a weighted sum of the features, for all pairs of many nodes, is one matrix product. Below, m and s are the mean
and variance of a node's code, and n its dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from torchnpn.links.codes import Codes
from torchnpn.moments import JointMoments, Moments

_LEAST = 1e-6  # of a dimension's mean variance: added where a logarithm is taken of what may be zero


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
    """Means of the features of pairs, and the variances of the first of them where a score should use them.

    Where dimensions of codes are correlated, so are features. A "feature" of `variance` is then the covariance of two.
    """

    mean: Products
    variance: Products | None = None  # of features that are certain, which come last, there is none
    entries: Tensor | None = None  # (features of `variance`, 2): which two each belongs to; (k, k) for a variance


Normalisation = Callable[[Codes, Tensor], Codes]  # of codes and the numbers of the training nodes
FeatureMap = Callable[[Codes, Tensor, Normalisation], PairFeatures]


# Normalisations ------------------------------------------------------------------------------------------------------


def as_they_are(x: Codes, nodes: Tensor) -> Codes:
    """Codes without a change: their products are the paper's features."""
    return x


def unit_length(x: Codes, nodes: Tensor) -> Codes:
    """√n (m - m̄)/|m - m̄| with m̄ the mean over training nodes, and the variance scaled alike; m̄ becomes zero."""
    centred = x.mean - x.mean[nodes].mean(0)
    square = centred.square().mean(1, keepdim=True)
    scale = torch.where(square > 0, square, torch.inf).rsqrt()  # 0 for 0
    if isinstance(x, JointMoments):
        return JointMoments(centred * scale, x.covariance * scale[..., None] ** 2)
    return Moments(centred * scale, None if x.variance is None else x.variance * scale**2)


NORMALISATIONS: dict[str, Normalisation] = {"cosine": unit_length, "none": as_they_are}


# Feature maps --------------------------------------------------------------------------------------------------------


def products(x: Codes, nodes: Tensor, normalise: Normalisation) -> PairFeatures:
    """m_i m_j and, where codes have variances, log s_i log s_j, each normalised (paper, Section 4.3)."""
    parts = [x.mean] if x.variance is None else [x.mean, log_variances(x, nodes)]
    values = [normalise(Moments(part), nodes).mean for part in parts]
    return PairFeatures(Products.hadamard(torch.cat(values, 1)))


def uncertain_products(x: Codes, nodes: Tensor, normalise: Normalisation) -> PairFeatures:
    """m_i m_j, normalised, with their covariances: of independent nodes with means m and covariances C

        Cov(φ_k, φ_l) = C_i,kl (C_j,kl + m_j,k m_j,l) + m_i,k m_i,l C_j,kl,

    which for dimensions that are independent, too, is a variance, s_i (s_j + m_j²) + m_i² s_j.
    """
    normalised = normalise(x, nodes)
    m = normalised.mean
    n = m.shape[1]
    if isinstance(normalised, JointMoments):
        entries = torch.triu_indices(n, n, device=m.device)
        k, other = entries
        squares, C = m[:, k] * m[:, other], normalised.covariance[:, k, other]
        factor = torch.where(k == other, 1.0, 2.0)  # (k, l) stands for (l, k), too
    else:
        squares, entries, factor = m**2, torch.arange(n, device=m.device).expand(2, n), m.new_ones(n)
        C = variances(normalised)
    left, right = torch.cat([C * factor, squares * factor], 1), torch.cat([C + squares, C], 1)
    number = torch.arange(C.shape[1], device=m.device)
    return PairFeatures(Products.hadamard(m), Products(left, right, number.repeat(2)), entries.T)


def joint(x: Codes, nodes: Tensor, normalise: Normalisation) -> PairFeatures:
    """`uncertain_products`, and sums over both nodes of m and m², normalised, and of log s: what makes a node link.

    Made for codes with covariances, so that correlated dimensions reduce a score by as much as they should.
    """
    if x.variance is None:
        raise ValueError(
            'features="joint" expects codes with variances or covariances, got means alone. Give npn.Moments(mean, '
            'variance), or take features="products".'
        )
    pairs, m = uncertain_products(x, nodes, normalise), normalise(Moments(x.mean), nodes).mean
    sums = standard_sums(torch.cat([m, m**2, log_variances(x, nodes)], 1), nodes)
    return pairs._replace(mean=pairs.mean.beside(sums))


FEATURES: dict[str, FeatureMap] = {"products": products, "joint": joint}


def variances(x: Codes) -> Tensor:
    """Variances, zeros where there are none."""
    return torch.zeros_like(x.mean) if x.variance is None else x.variance


def log_variances(x: Codes, nodes: Tensor) -> Tensor:
    """log(s + 10⁻⁶ s̄), for s may be zero; 0 where a dimension is certain throughout."""
    s, least = variances(x), _LEAST * variances(x)[nodes].mean(0)
    return torch.log(torch.where(least > 0, s + least, torch.ones_like(s)))


def standard_sums(values: Tensor, nodes: Tensor) -> Products:
    """v_i + v_j of values (nodes, features) in standard units of the training nodes."""
    return Products.sums(standardised(values, nodes))


def standardised(values: Tensor, nodes: Tensor) -> Tensor:
    """Values less their mean over training nodes, over their standard deviation there; 0 where that is 0."""
    centred, spread = values - values[nodes].mean(0), values[nodes].std(0, correction=0)
    return torch.where(spread > 0, centred / spread, 0.0)
