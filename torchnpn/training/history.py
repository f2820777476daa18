"""What training leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any


@dataclass(frozen=True)
class Epoch:
    """Figures of one epoch, means over rows."""

    number: int  # counted from one
    loss: float  # of the likelihood alone
    kl: float  # KL / N at its end
    kl_weight: float  # β
    validation: float | None  # loss on the validation data
    seconds: float


@dataclass
class History:
    """Figures of every epoch, and how training ended."""

    epochs: list[Epoch] = field(default_factory=list)
    best_epoch: int | None = None  # whose weights were kept, where validation data were given
    stopped_early: bool = False  # for want of patience, or by a callback

    @property
    def last(self) -> Epoch:
        return self.epochs[-1]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> History:
        """The inverse of `to_dict`."""
        return cls([Epoch(**epoch) for epoch in values["epochs"]], values["best_epoch"], values["stopped_early"])


def mean_history(histories: Sequence[History]) -> History:
    """The figures of members, epoch by epoch: means over those that trained so long, but the sum of the seconds."""
    if len(histories) == 1:
        return histories[0]
    longest = max(len(history.epochs) for history in histories)
    each = [[one.epochs[k] for one in histories if k < len(one.epochs)] for k in range(longest)]
    means = []
    for epochs in each:
        figures = {name: fmean(getattr(epoch, name) for epoch in epochs) for name in ("loss", "kl", "kl_weight")}
        held_out = [epoch.validation for epoch in epochs if epoch.validation is not None]
        validation, seconds = fmean(held_out) if held_out else None, sum(epoch.seconds for epoch in epochs)
        means.append(Epoch(epochs[0].number, **figures, validation=validation, seconds=seconds))
    return History(means, stopped_early=any(history.stopped_early for history in histories))
