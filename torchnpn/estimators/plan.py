"""How large a network, and how long to train it: chosen by the number of rows; and the ramp of the KL."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from torchnpn.training import Ramp, geometric_ramp

_LEAST_EPOCHS = 10
_BATCH = 32, 1_024
_REGRESSION_STEPS = 10_000, 80_000
_MANY_ROWS = 20_000
Array = NDArray[Any]


class Plan(NamedTuple):
    """Batch size and epochs."""

    batch_size: int
    epochs: int

    @classmethod
    def of(
        cls, rows: int, batch_size: int | None, epochs: int | None, steps: int = 10_000, most_epochs: int = 1_000
    ) -> Plan:
        """What was asked for, or else what suits that many rows: batches of about √rows, and so many steps."""
        batch = batch_size or min(max(2 ** round(math.log2(rows) / 2), _BATCH[0]), _BATCH[1])
        batch = int(min(batch, max(rows, _BATCH[0])))
        in_epoch = -(-rows // batch)
        return cls(batch, epochs or min(max(round(steps / in_epoch), _LEAST_EPOCHS), most_epochs))


def units(rows: int) -> tuple[int, ...]:
    """Hidden layers of a regression: one of 50 units, or of 100 for many rows, as the published networks have."""
    return (50,) if rows < _MANY_ROWS else (100,)


def regression_steps(rows: int) -> int:
    """10,000, and two for each row beyond so many, up to a limit; 40,000 rows still gain from seven times the least."""
    least, most = _REGRESSION_STEPS
    return min(max(least + 2 * (rows - least), least), most)


def ramp(kl_weight: float, least: Callable[[], float | Array]) -> Ramp:
    """β rises twentyfold over the first 80 % of training, and is never below a share `least` of its end.

    Where `least` gives a share for each replica, so does the ramp.

    Low at first, so that structure is found before units are pruned; but where much of the target is noise there is
    little to find and much to overfit, and `least` keeps it up.
    """
    rising = geometric_ramp(0.05, 1.0)

    def beta(progress: float) -> float | Array:
        share: float = rising(progress)
        bound = least()
        return kl_weight * (max(share, bound) if isinstance(bound, float) else np.maximum(share, bound))

    return beta
