"""The predictive distribution over classes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from torchnpn._torch import register_pytree


@dataclass(frozen=True, eq=False)
class Categorical:
    """One of K classes, with probabilities along the last dimension; mean and variance are those of the K indicators.

    >>> Categorical(torch.tensor([0.25, 0.75])).log_prob(torch.tensor(1))
    tensor(-0.2877)
    """

    probs: Tensor  # (…, K), ≥ 0, sum 1

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def variance(self) -> Tensor:
        """p (1 - p) of each class."""
        return self.probs * (1 - self.probs)

    @property
    def entropy(self) -> Tensor:
        """-Σ p log p in nats."""
        return -torch.xlogy(self.probs, self.probs).sum(-1)

    def log_prob(self, labels: Tensor) -> Tensor:
        """Log probability of each label, an integer from 0 to K - 1; labels broadcast to the probabilities' rows."""
        return at_label(self.probs, labels).log()


def at_label(x: Tensor, labels: Tensor) -> Tensor:  # (…, K), (…) -> (…)
    """The entry of `x` along its last dimension that the label names."""
    index = labels.long().expand(x.shape[:-1]).unsqueeze(-1)
    return x.gather(-1, index).squeeze(-1)


register_pytree(
    Categorical,
    "torchnpn.likelihoods.Categorical",
    lambda member: ({"probs": member.probs}, None),
    lambda leaves, _: Categorical(*leaves),
)
