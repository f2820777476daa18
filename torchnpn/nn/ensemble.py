"""Networks of several shapes as members of one ensemble."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from torchnpn.families import zero_if_point
from torchnpn.moments import Moments


class Ensemble(nn.ModuleList):
    """Networks side by side on the same inputs; each holds members of one shape, along a leading dimension.

    Outputs have shape (members, batch, outputs), the members of the first network first.
    """

    def __init__(self, networks: Iterable[nn.Module]) -> None:
        super().__init__(networks)

    def forward(self, a: Moments | Tensor) -> Moments:  # (batch, in) -> (members, batch, out)
        return side_by_side([network(a) for network in self])


def side_by_side(outputs: Sequence[Moments]) -> Moments:  # (members_k, …) each -> (Σ members_k, …)
    """Outputs of several networks, one after another along the dimension of their members."""
    return Moments(torch.cat([o.mean for o in outputs]), torch.cat([zero_if_point(o) for o in outputs]))
