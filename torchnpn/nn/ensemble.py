"""Networks of several shapes as members of one ensemble."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from torchnpn.families import zero_if_point
from torchnpn.moments import Moments
from torchnpn.nn.container import Sequential
from torchnpn.nn.layer import as_moments
from torchnpn.nn.linear import Linear, MeanAndNoise


class Ensemble(nn.ModuleList):
    """Networks side by side on the same inputs; each holds members of one shape, along a leading dimension.

    A network that takes fewer inputs than there are gets the first of them. Outputs have shape (members, batch,
    outputs), the members of the first network first.
    """

    def __init__(self, networks: Iterable[Sequential]) -> None:
        super().__init__(networks)

    def forward(self, a: Moments | Tensor) -> Moments:  # (batch, in) -> (members, batch, out)
        return side_by_side([network(inputs) for network, inputs in self.with_inputs(as_moments(a))])

    def with_inputs(self, a: Moments) -> Iterator[tuple[Sequential, Moments]]:
        """Each network, and the inputs that it takes."""
        for network in self:
            assert isinstance(network, Sequential) and isinstance(network[0], Linear | MeanAndNoise)
            yield network, leading(a, network[0].in_features)


def leading(a: Any, count: int) -> Any:  # (…, in) -> (…, count)
    """The first so many inputs, of moments or of a CSR matrix; all of them as they are."""
    if not isinstance(a, Moments):
        return a if a.shape[1] == count else a[:, :count]
    if a.mean.shape[-1] == count:
        return a
    return Moments(a.mean[..., :count], None if a.variance is None else a.variance[..., :count])


def side_by_side(outputs: Sequence[Moments]) -> Moments:  # (members_k, …) each -> (Σ members_k, …)
    """Outputs of several networks, one after another along the dimension of their members."""
    return Moments(torch.cat([o.mean for o in outputs]), torch.cat([zero_if_point(o) for o in outputs]))
