"""What a fit tells on its way: a record after each epoch, to functions that may end it; and a bar, or lines of text."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from torchnpn.training import History

_WIDTH = 30  # characters of a bar


class EpochRecord(NamedTuple):
    """Where a fit stands after an epoch; losses are means over rows.

    A mixture has several trainings, one after the other: `share` goes on rising, `epoch` begins again with each.
    """

    share: float  # of the whole fit, from 0 to 1
    epoch: int  # of the training under way, counted from one
    epochs: int  # that it has at most
    loss: float  # on the rows that are learnt from
    kl: float  # of the weights, divided by the rows
    validation: float | None  # loss on the rows that `patience` holds out


Callback = Callable[[EpochRecord], Any]


@dataclass(frozen=True)
class Watch:
    """Who is told where a fit stands, and which share of it is under way."""

    name: str = ""
    callbacks: tuple[Callback, ...] = ()
    bar: Bar | None = None
    lines: bool = False
    start: float = 0.0
    size: float = 1.0

    def part(self, k: int, count: int) -> Self:
        """The same for the k-th of so many parts of the work."""
        return replace(self, start=self.start + self.size * k / count, size=self.size / count)

    def training(self, epochs: int, k: int = 0, members: int = 1) -> Callable[[History], bool] | None:
        """What `train` calls after each epoch of the k-th of so many trainings; None where nobody is to be told."""
        if not self.callbacks and self.bar is None and not self.lines:
            return None
        share = self.part(k, members)

        def told(history: History) -> bool:
            done, last = len(history.epochs), history.last
            at = share.start + share.size * done / epochs
            record = EpochRecord(at, done, epochs, last.loss, last.kl, last.validation)
            if self.bar is not None:
                self.bar.show(record)
            elif self.lines and (done % max(1, epochs // 10) == 0 or done == epochs):
                which = "" if members == 1 else f"member {k + 1}/{members}, "
                print(f"[{self.name}] {which}epoch {done}/{epochs}: {_losses(record)}")
            answers = [callback(record) for callback in self.callbacks]
            return any(isinstance(answer, (bool, np.bool_)) and bool(answer) for answer in answers)

        return told


class Bar:
    """A line on the error stream, written over and over."""

    def __init__(self, name: str) -> None:
        self.name, self.written = name, 0

    def show(self, record: EpochRecord) -> None:
        done = "#" * round(_WIDTH * record.share)
        text = f"[{self.name}] {done:.<{_WIDTH}} {record.share:4.0%}  {_losses(record)}"
        text = text[: shutil.get_terminal_size().columns - 1]
        print(f"\r{text:<{self.written}}", end="", file=sys.stderr, flush=True)
        self.written = len(text)

    def close(self) -> None:
        """End the line, if there is one."""
        if self.written:
            print(file=sys.stderr)


@contextmanager
def watching(name: str, callbacks: Iterable[Callback] = (), verbose: Any = False) -> Iterator[Watch]:
    """A watch of a fit, which draws a bar if `verbose` on a terminal; elsewhere, as in a log, it prints lines.

    Args:
        name: Of what learns.
        callbacks: Called after each epoch; one that returns True ends the training under way.
        verbose: Whether to show anything.
    """
    functions = checked_callbacks(callbacks)
    bar = Bar(name) if verbose and sys.stderr.isatty() else None
    try:
        yield Watch(name, functions, bar, bool(verbose))
    finally:
        if bar is not None:
            bar.close()


def checked_callbacks(callbacks: Any) -> tuple[Callback, ...]:
    """Functions in a tuple; a ValueError for anything else."""
    found = tuple(callbacks) if isinstance(callbacks, Iterable) else (None,)
    if not all(map(callable, found)):
        raise ValueError(
            f"callbacks expects a list of functions, each of which takes an EpochRecord, got {callbacks!r:.80}. Write "
            "callbacks=[f] for one."
        )
    return found


def _losses(record: EpochRecord) -> str:
    held_out = "" if record.validation is None else f", held out {record.validation:.4f}"
    return f"loss {record.loss:.4f}, KL {record.kl:.4f}{held_out}"
