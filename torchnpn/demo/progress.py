"""How a study says how far it is, without printing."""

from __future__ import annotations

from collections.abc import Callable

from torchnpn.training import History

Progress = Callable[[float], None]  # takes the share of the work that is done


def no_progress(share: float) -> None:
    """Tells nobody."""


def part(progress: Progress, epochs: int, low: float = 0.0, high: float = 1.0) -> Callable[[History], None]:
    """A callback of `train` that reports its epochs as the part from `low` to `high` of the whole."""
    return lambda history: progress(low + (high - low) * len(history.epochs) / epochs)
