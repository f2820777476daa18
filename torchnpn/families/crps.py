"""The continuous ranked probability score where a family has no closed form, and what closed forms share.

    CRPS(F, y) = ∫ (F(x) - 1{y ≤ x})² dx = E|X - y| - ½ E|X - X'|

It is in the units of y, and the absolute error of a certain prediction; smaller is better. Closed forms stand in the
files of the families. Where a distribution is normal to more digits than the difference of large numbers in its closed
form would leave, the score is that of the normal distribution.

The score of a mixture is the mean of its members' scores, by their weights, less what they disagree on: with V(x) the
variance of F_k(x) over the members k,  ∫ (mean F_k - 1{y ≤ x})² dx = mean ∫ (F_k - 1{y ≤ x})² dx - ∫ V(x) dx.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from scipy import special

from torchnpn.families.tails import Array, Tails
from torchnpn.metrics import saturated

TAIL = 1e-12  # probability beyond the ends of a sum or an integral
NORMAL = 1e12  # a gamma, beta or count variable of larger shapes is normal to six digits
_STEP, _REACH = 0.08, 3.2  # of the double exponential rule: its ends are at e^-38
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_TERMS = 512  # of a sum over counts; more of them are taken in blocks


def by_quantiles(quantile: Callable[[Array], Array], at_y: Tails, y: Array) -> Array:
    """Of a density, by the double exponential rule on either side of y:

    CRPS = 2 ∫_0^P u (y - q(u)) du + 2 ∫_P^1 (1 - u) (q(u) - y) du,  P = F(y).

    Args:
        quantile: From (nodes, *rows) probabilities in (0, 1) to their quantiles q(u).
        at_y: P(x ≤ y) and P(x > y).
        y: (*rows,) numbers.
    """
    t = np.arange(-_REACH, _REACH + _STEP / 2, _STEP)
    share = special.expit(np.pi * np.sinh(t))  # of P, and of 1 - P
    weight = _STEP * np.pi * np.cosh(t) * share * (1 - share)
    share, weight = (x.reshape(-1, *[1] * y.ndim) for x in (share, weight))
    low, high = share * at_y.below, share * at_y.above
    least, most = np.finfo(np.float64).tiny, 1 - np.finfo(np.float64).epsneg
    below = low * saturated(np.maximum(y - saturated(quantile(np.clip(low, least, most))), 0.0)) * at_y.below
    above = high * saturated(np.maximum(saturated(quantile(np.clip(1 - high, least, most))) - y, 0.0)) * at_y.above
    return np.asarray(2 * (weight * (below + above)).sum(0))


def by_counting(tails: Callable[[Array], Tails], y: Array, low: Array, high: Array) -> Array:
    """Of counts y: Σ F(k)² over all counts k < y and Σ (1 - F(k))² over the others.

    Args:
        tails: From (rows,) counts to P(x ≤ k) and P(x > k).
        y: (rows,) counts.
        low: (rows,) counts below which there is no mass.
        high: (rows,) counts above which there is no mass.
    """
    below = _sum(lambda k: tails(k).below ** 2, low, np.minimum(y - 1, high))
    above = _sum(lambda k: tails(k).above ** 2, np.maximum(y, low), high)
    return np.asarray(below + above + np.maximum(low - y, 0.0) + np.maximum(y - 1 - high, 0.0))


def disagreement(cdf: Callable[[Array], Array], weights: Array, breaks: Array) -> Array:
    """∫ V(x) dx of a mixture of densities, by ten Gauss-Legendre nodes between each two of the breaks.

    Args:
        cdf: From (rows,) numbers to the (members, rows) probabilities of less.
        weights: (members, 1) of the members.
        breaks: (breaks, rows) rising numbers for each row: an end below which no member has mass, places where the
            members' distribution functions turn, and an end above.
    """
    total = np.zeros(breaks.shape[1:])
    for low, high in itertools.pairwise(breaks):
        half = 0.5 * high - 0.5 * low
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            total += half * weight * _variance(cdf((0.5 * low + 0.5 * high) + node * half), weights)
    return total


def disagreement_on_counts(cdf: Callable[[Array], Array], weights: Array, low: Array, high: Array) -> Array:
    """Σ V(k) of a mixture of counts, over all counts between two for each row outside which no member has mass."""
    return _sum(lambda k: _variance(cdf(k), weights), low, high)


def _variance(x: Array, weights: Array) -> Array:
    """Over the members."""
    return np.asarray((weights * (x - (weights * x).sum(0)) ** 2).sum(0))


def rising_half(x: Array) -> Array:
    """Γ(x + ½)/Γ(x)."""
    return np.asarray(special.poch(x, 0.5))


def _sum(term: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Σ term(k) for k from low to high, over blocks of counts, each by its middle, where there are many."""
    count = np.maximum(high - low + 1, 0)
    block = 2 * np.ceil(count / _TERMS // 2) + 1  # odd, so that its middle is a count, too
    total = np.zeros(np.shape(low))
    for i in range(int(np.ceil(count / block).max(initial=0))):
        size = np.clip(count - i * block, 0, block)  # the last block is a smaller one
        total += size * term(low + i * block + np.maximum(size - 1, 0) // 2)
    return total
