"""What a baseline answers: a mixture, with one part for each member or sample; a single network is a mixture of one."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class PredictedReal(NamedTuple):
    """The mixture (1/M) Σ_k N(m_k, v_k) of real targets.

    Attributes:
        member_means: m_k (members, rows, outputs); with replicas (members, replicas, rows, outputs).
        member_variances: v_k, of the same shape, noise included.
    """

    member_means: Tensor
    member_variances: Tensor

    @property
    def mean(self) -> Tensor:  # (..., rows, outputs)
        """E y = mean of m_k."""
        return self.member_means.mean(0)

    @property
    def variance(self) -> Tensor:  # (..., rows, outputs)
        """Var y = mean of v_k + variance of m_k."""
        return self.member_variances.mean(0) + self.epistemic

    @property
    def epistemic(self) -> Tensor:  # (..., rows, outputs)
        """Variance of m_k: what the members do not agree on."""
        return self.member_means.var(0, correction=0)

    def log_prob(self, y: Tensor) -> Tensor:  # (..., rows, outputs) -> (..., rows)
        """log (1/M) Σ_k N(y; m_k, v_k), a row's outputs being independent within a member."""
        logs = gaussian_log_prob(y, self.member_means, self.member_variances).sum(-1)
        return torch.logsumexp(logs, 0) - math.log(len(logs))


class PredictedClasses(NamedTuple):
    """The mean of members' probabilities.

    Attributes:
        member_probs: (members, rows, classes); with replicas (members, replicas, rows, classes).
    """

    member_probs: Tensor

    @property
    def probs(self) -> Tensor:  # (..., rows, classes)
        """Mean over members."""
        return self.member_probs.mean(0)

    def log_prob(self, labels: Tensor) -> Tensor:  # (..., rows) -> (..., rows)
        """log of the probability of each label."""
        probs = self.probs
        return probs.gather(-1, labels.expand(probs.shape[:-1])[..., None]).squeeze(-1).log()


Predicted = PredictedReal | PredictedClasses


def replica(predicted: Predicted, number: int) -> Predicted:
    """The prediction of one replica alone."""
    return type(predicted)(*(part[:, number] for part in predicted))


def gaussian_log_prob(y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """log N(y; m, v) = -½ (log 2πv + (y - m)²/v)."""
    return -0.5 * (math.log(2 * math.pi) + variance.log() + (y - mean) ** 2 / variance)
