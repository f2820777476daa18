"""Levels of a category as random rows of a table, and what is known of a level that was never seen."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from torchnpn import families
from torchnpn._torch import has_values
from torchnpn.families import ExponentialFamily, mean_and_variance
from torchnpn.finite import Pair, cast, saturated
from torchnpn.moments import Moments
from torchnpn.nn.layer import Layer, check_sizes
from torchnpn.nn.parameter import RandomParameter, initial_moments


class Embedding(Layer):
    """The random row of each code, and for the code -1, out of the vocabulary, the mixture of all rows.

    With means M_k and variances S_k of the rows k = 0, …, K - 1, element by element,

        a_m = M_k,               a_s = S_k                              for the code k,
        a_m = (1/K) Σ_k M_k,     a_s = (1/K) Σ_k (S_k + (M_k - a_m)²)   for the code -1 (law of total variance).

    A level that was never seen is taken for one of those that were, nobody knows which: the more they differ, the wider
    the answer. Where the table is the first parameter of a network, `EmpiricalBayes` learns a variance for each column
    of it, which all levels share: rare levels are drawn towards zero.

    Args:
        num_embeddings: Number of rows K; codes are -1, 0, …, K - 1.
        embedding_dim: Numbers in a row.
        family: Family of the rows, by class or name.
        replicas: Leading dimensions: independent copies of the table, looked up at once. Codes are then (batch,), the
            same for all, or (*replicas, batch).
        generator: Source of the initial values.

    >>> colour = Embedding(3, 2, generator=torch.Generator().manual_seed(0))
    >>> colour(torch.tensor([1, -1])).variance.detach()  # of a colour that is known, and of one that is not
    tensor([[0.01, 0.01],
            [2.446, 0.658]])
    """

    arguments: ClassVar = {
        "num_embeddings": int, "embedding_dim": int, "family": ExponentialFamily, "replicas": tuple,
    }  # fmt: skip
    in_features = 0  # codes come in, and no features

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        family: str | type[ExponentialFamily] = "gaussian",
        *,
        replicas: tuple[int, ...] = (),
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_sizes("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        family = families.resolve(family)
        initial = initial_moments(family, (*replicas, num_embeddings, embedding_dim), 1, generator)
        self.weight = RandomParameter(family, initial, in_dims=1)

    @property
    def family(self) -> type[ExponentialFamily]:
        """Family of the rows."""
        return self.weight.family

    @property
    def replicas(self) -> tuple[int, ...]:
        """Leading dimensions of the table."""
        return self.weight.replicas

    @property
    def out_features(self) -> int:
        """Size of the last dimension of what the layer gives."""
        return self.embedding_dim

    def forward(self, codes: Tensor | Moments) -> Moments:  # (*replicas, …) -> (*replicas, …, embedding_dim)
        places = self._checked(codes) + 1  # the mixture stands first
        table = self._table() if torch.compiler.is_compiling() else self.weight.cached("table", self._table)
        return Moments(*(_rows(part, places) for part in table))

    def _table(self) -> Pair:  # (*replicas, 1 + num_embeddings, dim)
        mean, variance = self.weight.moments
        assert variance is not None
        centre, between = mean_and_variance(mean.movedim(-2, 0))
        within, _ = mean_and_variance(variance.movedim(-2, 0))
        first, spread = (saturated(cast(part, mean.dtype)).unsqueeze(-2) for part in (centre, within + between))
        return torch.cat([first, mean], -2), torch.cat([spread, variance], -2)

    def _checked(self, codes: Tensor | Moments) -> Tensor:
        """Codes of the shape of the replicas. On a GPU, which would wait for a look at values, torch finds bad ones."""
        values = codes.mean if isinstance(codes, Moments) and codes.variance is None else codes
        if not isinstance(values, Tensor) or values.is_floating_point() or values.dtype == torch.bool:
            what = f"a tensor of {values.dtype}" if isinstance(values, Tensor) else f"a {type(values).__name__}"
            raise TypeError(f"Embedding expects codes, a tensor of whole numbers, got {what}. Convert it with .long().")
        if values.is_cpu and values.numel() and not torch.compiler.is_compiling() and has_values(values):
            low, high = (int(end) for end in values.aminmax())
            if low < -1 or high >= self.num_embeddings:
                raise ValueError(
                    f"Embedding expects codes from -1 to {self.num_embeddings - 1}, got {low if low < -1 else high}. "
                    "Give a level that is not in the vocabulary as -1."
                )
        if self.replicas and (values.dim() < 1 or values.shape[:-1] not in ((), self.replicas)):
            raise ValueError(
                f"Embedding with replicas {self.replicas} expects codes (batch,) or (*replicas, batch), got shape "
                f"{tuple(values.shape)}."
            )
        return values.long().expand(*self.replicas, *values.shape[-1:]) if self.replicas else values.long()


def _rows(table: Tensor, places: Tensor) -> Tensor:  # (*replicas, rows, dim), (*replicas, …) -> (*replicas, …, dim)
    if table.dim() == 2:
        return F.embedding(places, table)  # its gradient is a sum in one order, on a GPU too
    pairs = zip(places.flatten(0, -2), table.flatten(0, -3), strict=True)
    return torch.stack([F.embedding(of_one, rows) for of_one, rows in pairs]).view(*places.shape, table.shape[-1])
