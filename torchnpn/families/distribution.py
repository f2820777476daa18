"""What everything that is predicted offers, whether it is an exponential family or not."""

from __future__ import annotations

from typing import Any, Protocol, Self, runtime_checkable

import torch
from torch import Tensor


@runtime_checkable
class Distribution(Protocol):
    """The distributions of a batch of independent variables, as estimators and tables use them.

    `ExponentialFamily`, `Mixture` and `Categorical` are such. Tensors in and out have the shape of the batch.
    """

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the variables."""

    @property
    def mean(self) -> Tensor:
        """E x."""

    @property
    def variance(self) -> Tensor:
        """Var x."""

    def log_prob(self, y: Any) -> Tensor:
        """Log density, or log probability for counts and classes, of `y`."""

    def cdf(self, y: Any) -> Tensor:
        """P(x ≤ y)."""

    def quantile(self, q: Any) -> Tensor:
        """The smallest y with P(x ≤ y) ≥ q."""

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """`n` draws, shape (n, *batch_shape)."""

    def log_mass(self, lower: Tensor, upper: Tensor) -> Tensor:
        """log P(lower < x ≤ upper)."""

    def crps(self, y: Any) -> Tensor:
        """Continuous ranked probability score of `y`: ∫ (P(x ≤ t) - 1{y ≤ t})² dt."""

    def scaled(self, shift: Tensor, scale: Tensor) -> Self:
        """The distribution of shift + scale · x, scale > 0; an error where it is not of the same kind."""

    def __getitem__(self, rows: Any) -> Self:
        """The variables at these places of the batch."""
