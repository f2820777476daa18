"""Networks side by side: as many as x has replicas, each with settings of its own."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

Number = float | tuple[float, ...]  # for all replicas, or one for each


class Replicas(NamedTuple):
    """The networks of one fit, along the first dimension of all their tensors.

    Attributes:
        sets: How many sets of rows there are.
        members: Networks for each set, alike but for their draws; network k · sets + r is member k of replica r.
        each: The set of each network (networks,), on the device.
        dtype: Of the networks.
        leading: Whether x had the dimension; if not, answers do not have it either.
    """

    sets: int
    members: int
    each: Tensor
    dtype: torch.dtype
    leading: bool

    @property
    def networks(self) -> int:
        return self.sets * self.members

    def number(self, name: str, value: Number) -> Tensor:  # (networks, 1, 1), or (1, 1, 1) for all
        """A setting as a tensor on the device.

        Raises:
            ValueError: If it is a tuple of another length than there are replicas.
        """
        values = value if isinstance(value, tuple) else (value,)
        if isinstance(value, tuple) and len(value) != self.sets:
            raise ValueError(
                f"{name} expects one number, or a tuple of {self.sets}, one for each replica of x; "
                f"got {len(value)}. Replicas are the first dimension of x (replicas, rows, inputs)."
            )
        numbers = torch.tensor(values, dtype=self.dtype, device=self.each.device)
        return (numbers.repeat(self.members) if isinstance(value, tuple) else numbers).view(-1, 1, 1)

    def zeros(self, *shape: int) -> Tensor:  # (networks, *shape)
        """Room for a parameter of each network."""
        return torch.zeros(self.networks, *shape, dtype=self.dtype, device=self.each.device)

    def rows(self, t: Tensor, numbers: Tensor) -> Tensor:  # (sets, rows, ...) -> (networks, batch, ...)
        """Each network's rows of its own set.

        Args:
            t: What to take from; a dimension that was expanded is not copied.
            numbers: Which rows, (networks, batch), or (batch,) for all.
        """
        return t[self.each[:, None], numbers]
