"""Codes with covariances: what a word moves, it moves in all units together.

The paper's pass takes the units of a layer to be independent. They are not where inputs are uncertain, as by masks in
closed form, for all units see the same words. Here the covariances go along; the cost is a product of the units with
themselves for each document, so this is for encoding, not for training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import nn

from torchnpn.documents.layers import WordLinear
from torchnpn.moments import JointMoments, Moments
from torchnpn.nn import Linear
from torchnpn.sparse import SparseBatch

Array = NDArray[Any]


class JointArrayMoments(NamedTuple):
    """Mean and covariance of codes, as arrays."""

    mean: Array  # (documents, units)
    covariance: Array  # (documents, units, units)

    @property
    def variance(self) -> Array:  # (documents, units)
        """The diagonal of the covariance."""
        variance: Array = self.covariance.diagonal(axis1=-2, axis2=-1)
        return variance


def code(encoder: Sequence[nn.Module], x: SparseBatch, p: float) -> JointMoments:
    """The code of documents: a `WordLinear` first, then activations and linear layers."""
    first, *others = encoder
    assert isinstance(first, WordLinear)
    a = of_words(first, x, p)
    for module in others:
        a = linear(module, a) if isinstance(module, Linear) else activated(module, a)
    return a


def of_words(layer: WordLinear, x: SparseBatch, p: float) -> JointMoments:
    """o = x Wᵀ + b for words x with variances k x², k = p/(1 - p), as in `WordLinear`:

    Cov(o) = k Σ_w x_w² W_m,w W_m,wᵀ + diag((1 + k) x² W_sᵀ + b_s),    w over the words of the document.
    """
    o, k = layer.noisy(x, p), p / (1 - p)
    assert o.variance is not None
    each = layer.weight.moments.mean.mT[x.columns.long()] * x.values.unsqueeze(-1)  # (documents, words, units)
    together = k * each.mT @ each
    own = (o.variance - together.diagonal(dim1=-2, dim2=-1)).clamp_min(0)  # ≥ 0 but for rounding
    return JointMoments(o.mean, together + torch.diag_embed(own))


def linear(layer: Linear, a: JointMoments) -> JointMoments:
    """o = a Wᵀ + b: Cov(o) = W_m Cov(a) W_mᵀ + diag(W_s (a_m² + a_s) + b_s), exactly."""
    W_m, W_s = layer.weight.moments
    assert W_s is not None
    mean, own = a.mean @ W_m.mT, (a.mean**2 + a.variance) @ W_s.mT
    if layer.bias is not None:
        b_m, b_s = layer.bias.moments
        assert b_s is not None
        mean, own = mean + b_m, own + b_s
    return JointMoments(mean, W_m @ a.covariance @ W_m.mT + torch.diag_embed(own))


def activated(activation: nn.Module, o: JointMoments) -> JointMoments:
    """a = f(o) of Gaussian o: moments of each unit as the activation has them, and for k ≠ l, to first order in it,

        Cov(a_k, a_l) = E f'(o_k) E f'(o_l) Cov(o_k, o_l),    E f'(o) = ∂a_m/∂o_m    (Price 1958).

    It is a covariance: a_s ≥ (E f')² o_s, so that what is left for the diagonal is ≥ 0.
    """
    variance = o.variance.contiguous()
    with torch.enable_grad():
        o_m = o.mean.detach().requires_grad_()
        a: Moments = activation(Moments(o_m, variance))
        (slope,) = torch.autograd.grad(a.mean.sum(), o_m)
    assert a.variance is not None
    own = (a.variance.detach() - slope**2 * variance).clamp_min(0)  # ≥ 0 but for rounding
    together = slope.unsqueeze(-1) * o.covariance * slope.unsqueeze(-2)
    return JointMoments(a.mean.detach(), together + torch.diag_embed(own))
