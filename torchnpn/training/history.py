"""What training leaves behind."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
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
    stopped_early: bool = False

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
