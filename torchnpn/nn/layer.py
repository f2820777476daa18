"""What all layers share: what they say of themselves, and what they take."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, ClassVar

import scipy.sparse
from torch import Tensor, nn

from torchnpn.moments import Moments
from torchnpn.sparse import SparseBatch


class Layer(nn.Module):
    """A module from moments to moments that model files can hold.

    A network takes any module from moments to moments; those of this package say here what files ask.
    """

    arguments: ClassVar[Mapping[str, Any]] = {}
    """Arguments of the constructor, each also an attribute, with its type."""
    later: ClassVar[Mapping[str, Any]] = {}  # those that early files lack, and what they mean there

    def extra_repr(self) -> str:
        """Numbers among the arguments."""
        values = {name: getattr(self, name) for name, kind in self.arguments.items() if kind in (int, float, tuple)}
        shown = {name: f"{value:g}" if isinstance(value, float) else value for name, value in values.items()}
        return ", ".join(f"{name}={value}" for name, value in shown.items() if value != ())


def as_moments(a: Moments | Tensor) -> Moments:
    """`a` as moments; a tensor is a point. Sparse rows pass as they are, for a first linear layer."""
    if isinstance(a, Tensor):
        return Moments(a)
    if isinstance(a, (Moments, SparseBatch)) or scipy.sparse.issparse(a):
        return a
    raise TypeError(f"A layer expects a tensor or npn.Moments(mean, variance), got {type(a).__name__}.")


def check_sizes(layer: str, **sizes: int) -> None:
    """Raise unless each is a whole number, at least one."""
    for name, size in sizes.items():
        if not isinstance(size, numbers.Integral) or size < 1:
            raise ValueError(f"{layer} expects {name}, a whole number ≥ 1, got {size!r}.")
