"""The predictive distribution over classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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

    @property
    def batch_shape(self) -> torch.Size:
        return self.probs.shape[:-1]

    def cdf(self, labels: Tensor) -> Tensor:
        """P(label ≤ each of these), in the order of the classes."""
        return at_label(self.probs.cumsum(-1), labels)

    def log_mass(self, lower: Tensor, upper: Tensor) -> Tensor:
        """log P(lower < label ≤ upper), in the order of the classes."""
        return torch.log(self.cdf(upper) - self.cdf(lower))

    def quantile(self, q: Tensor | float) -> Tensor:
        """The first label with P(label ≤ it) ≥ q."""
        levels = torch.as_tensor(q, dtype=self.probs.dtype, device=self.probs.device).expand(self.batch_shape)
        below: Tensor = self.probs.cumsum(-1)[..., :-1] < levels.unsqueeze(-1)
        return below.sum(-1)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """`n` labels, shape (n, *batch_shape)."""
        draws = torch.multinomial(self.probs.reshape(-1, self.probs.shape[-1]), n, True, generator=generator)
        return draws.T.reshape(n, *self.batch_shape)

    def crps(self, labels: Tensor) -> Tensor:
        """The ranked probability score Σ_k (P(label ≤ k) - 1{its label ≤ k})², for classes that have an order."""
        classes = torch.arange(self.probs.shape[-1], device=self.probs.device)
        reached = (labels.unsqueeze(-1) <= classes).to(self.probs.dtype)
        return ((self.probs.cumsum(-1) - reached) ** 2).sum(-1)

    def scaled(self, shift: Tensor, scale: Tensor) -> Categorical:
        """The same: classes have no units, and any shift or scale is an error."""
        if bool((shift != 0).any()) or bool((scale != 1).any()):
            raise ValueError("Categorical cannot be shifted or scaled: classes have no units.")
        return self

    def __getitem__(self, rows: Any) -> Categorical:
        """The distributions at these places of the batch."""
        return Categorical(self.probs[rows])


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
