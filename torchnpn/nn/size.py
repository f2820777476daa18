"""The memory of the machine, into which a network must fit before anything is allocated."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence

MOST_WEIGHTS = 200_000_000
"""Weights of all members of an ensemble together; a network of that many trains for days."""
_NUMBERS_PER_WEIGHT = 16  # mean and log standard deviation, each: itself, a gradient, two averages, a float64 copy, …
_NUMBERS_PER_UNIT = 12  # moments of a unit for one row before and after its activation, and their gradients
_BYTES = 4
_USUAL_MEMORY = 16 << 30  # where the machine does not say


def check_network_size(sizes: Sequence[int], batch_size: int, members: int = 1) -> None:
    """Raise where a network with layers of these sizes needs more memory than the machine has.

    Args:
        sizes: Inputs, hidden units and outputs.
        batch_size: Rows of a minibatch.
        members: How many such networks there are.
    """
    weights = members * sum((n_in + 1) * n_out for n_in, n_out in itertools.pairwise(sizes))
    needed = _BYTES * (_NUMBERS_PER_WEIGHT * weights + _NUMBERS_PER_UNIT * batch_size * sum(sizes))
    memory = physical_memory() or _USUAL_MEMORY
    layers = "-".join(map(str, sizes)) if len(sizes) <= 8 else f"{sizes[0]}-…-{sizes[-1]} ({len(sizes) - 2} hidden)"
    several = "" if members == 1 else f", {members} times,"
    if weights > MOST_WEIGHTS or needed > memory:
        raise ValueError(
            f"A network with layers {layers}{several} has {weights:.3g} weights and needs about "
            f"{needed / 2**30:.3g} GB of memory; expected are at most {MOST_WEIGHTS:.3g} weights, and the "
            f"{memory / 2**30:.3g} GB of this machine. Take fewer hidden units, layers or ensemble members, or a "
            "smaller batch_size."
        )


def physical_memory() -> int | None:
    """Bytes of memory of this machine; None where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not everywhere
        return None
