"""Rows that were held out: how many, of which part, and what is remembered of them."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from torchnpn.families import Distribution, mixed
from torchnpn.io import checks

Array = NDArray[Any]
SHARE = 0.2  # of the rows that a split holds out
LEAST = 19  # of them, for intervals of level 0.9
_MOST = 20_000  # that are remembered
_MOST_PARTS = 100


class HeldOut(NamedTuple):
    """How rows that were not used in training fell in what was predicted for them.

    A prediction has one or several parts, such as the networks of the folds of a cross-validation; each row belongs to
    the part that has not seen it.
    """

    values: Array  # (rows, targets) levels of numbers, or (rows, 1) scores of labels
    part: Array  # (rows,) from 0

    @property
    def by_part(self) -> tuple[Array, ...]:
        """Values (n, targets) of each part."""
        return tuple(self.values[self.part == k] for k in range(int(self.part.max()) + 1))

    @classmethod
    def of(cls, values: Array, part: Array, seed: int) -> Self:
        """These rows or, of very many, some at random."""
        some = np.random.default_rng(seed).permutation(len(part))[:_MOST] if len(part) > _MOST else slice(None)
        return cls(values[some], part[some])

    def to_arrays(self) -> dict[str, Array]:
        """What a model file holds of them."""
        return {"held_out.values": self.values, "held_out.part": self.part.astype(np.float64)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], targets: int, members: int) -> Self:
        """The inverse of `to_arrays`, for so many networks; a ValueError for anything that cannot have been learnt."""
        rows = np.asarray(arrays["held_out.part"]).size
        values = checks.array("held_out.values", arrays, (rows, targets))
        part = checks.array("held_out.part", arrays, (rows,))
        count = int(min(part.max(initial=-1), _MOST_PARTS)) + 1
        if set(part.tolist()) != set(range(count)) or not count or (count > 1 and members % count):
            raise ValueError(f"held_out.part should be parts of {members} networks, from 0, got others")
        if not ((values >= 0) & (values <= 1)).all():
            raise ValueError("held_out.values should be from 0 to 1, got others")
        return cls(values, part.astype(np.int64))


def split(rows: int, seed: int) -> tuple[Array, Array]:
    """Numbers of the rows to train on, and of those to hold out: a fifth, and 19 at least.

    Raises:
        ValueError: If fewer rows would be left for training.
    """
    out = max(round(SHARE * rows), LEAST)
    if rows < 2 * out:
        raise ValueError(
            f'calibrate="split" expects at least {2 * LEAST} rows, of which it holds out {LEAST}, got {rows}. Take '
            'calibrate="cross", which holds out each row once.'
        )
    order = np.random.default_rng(seed).permutation(rows)
    return np.sort(order[out:]), np.sort(order[:out])


def parts(each: Distribution, count: int, weights: torch.Tensor | None, replicated: bool) -> tuple[Distribution, ...]:
    """The mixtures of so many equal parts of the networks: the k-th part has number k, k + count, k + 2 count, …

    Args:
        each: What the networks predict, along a leading dimension if there are several.
        count: Of parts.
        weights: Of the networks; None where all count the same.
        replicated: Whether there is a leading dimension.
    """
    if not replicated:
        return (each,)
    if count == 1:
        return (mixed(each, weights),)
    members = int(each.batch_shape[0])
    w = torch.full((members,), 1 / members, dtype=torch.float64) if weights is None else weights
    if members == count:
        return tuple(each[k] for k in range(count))
    return tuple(mixed(each[np.arange(k, members, count)], w[k::count] / w[k::count].sum()) for k in range(count))
