"""Classes: independent Gaussian logits, and ways to make probabilities of them."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from torchnpn import maps
from torchnpn.families import Categorical, at_label
from torchnpn.finite import clamped
from torchnpn.kernels import cpu
from torchnpn.likelihoods import targets
from torchnpn.likelihoods.base import Likelihood, VarianceParts, latent
from torchnpn.likelihoods.guards import clamp_straight_through, is_ordinary, logit, sigmoid_parts, soft_clamp
from torchnpn.maps import log_sum_exp_of_others
from torchnpn.moments import Moments

_FAR = 1e30  # logits beyond are taken as this: a probability of e^-1e30 is zero, but the loss of it is a number
_FAR_LOGIT = 1e15  # logits, and variances of logits, beyond are drawn back to it before they are folded


class _Classes(Likelihood):
    """What likelihoods for labels share: one output for each of K ≥ 2 classes, labels y of shape (batch,)."""

    arguments: ClassVar = {"classes": int}

    def __init__(self, classes: int) -> None:
        super().__init__()
        if classes < 2:
            raise ValueError(f"{type(self).__name__} expects at least 2 classes, got {classes}.")
        self.classes = classes

    def check_targets(self, y: Tensor) -> None:
        targets.check_labels(type(self).__name__, y, self.classes)

    def _check_shapes(self, o: Moments, y: Tensor) -> None:
        shape = o.mean.shape
        if len(shape) < 2 or shape[-1] != self.classes or y.ndim < 1 or y.shape[-1] != shape[-2]:
            raise ValueError(
                f"{type(self).__name__} expects outputs of shape (*replicas, batch, {self.classes}) and labels of "
                f"shape (batch,), got o.mean of shape {tuple(shape)} and y of shape {tuple(y.shape)}."
            )


class SoftmaxMean(_Classes):
    """p_k = E softmax(o)_k by matching the moments of log-sum-exp (`maps.softmax_mean`); the loss is -log p_y.

    Off by at most 1.5e-3 at unit variance, exact for zero variance; in training, on a CPU, a hundred times the cost of
    `ScaledSoftmax`.

    Args:
        classes: Number of classes K.
    """

    def predict(self, o: Moments) -> Categorical:
        p = maps.sigmoid(_against_others(o)).mean
        return Categorical(p / p.sum(-1, keepdim=True))

    def variance_parts(self, o: Moments) -> VarianceParts:
        return _softmax_parts(self.predict(o), o)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        return -self.predict(o).log_prob(y)


class ScaledSoftmax(_Classes):
    """p = softmax(o_m/√(1 + π o_s/8)): the softmax of logits that shrink with their uncertainty; the loss is -log p_y.

    Cheap, and off by 0.1 at unit variance; a network trained with it learns to make up for that.

    Args:
        classes: Number of classes K.
    """

    def predict(self, o: Moments) -> Categorical:
        return Categorical(torch.softmax(scaled_logits(o), -1))

    def variance_parts(self, o: Moments) -> VarianceParts:
        return _softmax_parts(self.predict(o), o)

    def closed_form(self) -> cpu.ClosedForm:
        return cpu.losses.scaled_softmax

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        z = scaled_logits(o)
        if not is_ordinary(z):
            z = clamp_straight_through(z, -_FAR, _FAR)
        return -at_label(torch.log_softmax(z, -1), y)


class Sigmoids(_Classes):
    """The paper's head: K independent answers yes or no with P_k = E σ(o_k), trained by their cross-entropy.

    The loss is -log P_y - Σ_{k≠y} log(1 - P_k); the predicted probabilities are P_k/Σ P. The parts of the variance are
    those of the K answers themselves: total P(1 - P), epistemic Var σ(o).

    Args:
        classes: Number of classes K.
    """

    def predict(self, o: Moments) -> Categorical:
        p = maps.sigmoid(logit(*latent(o))).mean
        return Categorical(p / p.sum(-1, keepdim=True))

    def variance_parts(self, o: Moments) -> VarianceParts:
        above, below, share = sigmoid_parts(logit(*latent(o)))
        return VarianceParts.of(share * above * below, (1 - share) * above * below)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        m, s = latent(o)
        own = y.unsqueeze(-1) == torch.arange(self.classes, device=y.device)  # (batch, K)
        right = maps.sigmoid(logit(torch.where(own, m, -m), s)).mean  # P_y, and 1 - P_k = E σ(-o_k) with its own digits
        return -right.log().sum(-1)


class ScaledSigmoids(_Classes):
    """The paper's head to the letter: `Sigmoids` with its approximation P_k = σ(o_m/√(1 + π o_s/8)), for comparison.

    The loss is -log P_y - Σ_{k≠y} log(1 - P_k); the predicted probabilities are P_k/Σ P. Off by up to 0.02.

    Args:
        classes: Number of classes K.
    """

    def predict(self, o: Moments) -> Categorical:
        log_p = torch.nn.functional.logsigmoid(scaled_logits(o))
        return Categorical(torch.softmax(log_p, -1))

    def variance_parts(self, o: Moments) -> VarianceParts:
        return Sigmoids(self.classes).variance_parts(o)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        z = clamp_straight_through(scaled_logits(o), -_FAR, _FAR)
        own = y.unsqueeze(-1) == torch.arange(self.classes, device=y.device)  # (batch, K)
        return torch.nn.functional.softplus(torch.where(own, -z, z)).sum(-1)


def scaled_logits(o: Moments) -> Tensor:
    """o_m/√(1 + π o_s/8): logits that shrink with their uncertainty."""
    m, s = latent(o)
    return m * torch.rsqrt(1 + (math.pi / 8) * s)


def _against_others(o: Moments) -> Moments:
    """The logit x_k - log Σ_{j≠k} exp(x_j) of each class against all others: softmax(x)_k is its sigmoid."""
    m, s = latent(o)
    m = clamped(m - m.detach().amax(-1, keepdim=True))
    x = Moments(soft_clamp(m, _FAR_LOGIT), soft_clamp(s, _FAR_LOGIT))
    gap = x - log_sum_exp_of_others(x)
    assert gap.variance is not None
    return logit(gap.mean, gap.variance)


def _softmax_parts(predicted: Categorical, o: Moments) -> VarianceParts:
    """Total p(1 - p), of which the share Var σ/P(1 - P) of the class against all others is epistemic.

    The share comes from the matching of `SoftmaxMean`, which alone gives a variance of softmax(x)_k in closed form, off
    by 3 % at unit variance and 8 % at ten; times the p of `ScaledSoftmax` it inherits the errors of that p.
    """
    _, _, share = sigmoid_parts(_against_others(o))
    return VarianceParts.split(predicted.variance, share)
