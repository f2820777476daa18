"""What an experiment is: pieces of work that fill a record, and how a page shows the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Progress = Callable[[float], None]  # called with the share of the work that is done
Record = dict[str, Any]  # what results/NAME.json holds


class MissingData(Exception):
    """What an experiment or a cell needs is not here and cannot be had; the message says what to do."""


class Options(NamedTuple):
    """What the user asked for.

    Attributes:
        device: Where to work.
        quick: Tiny sizes: end to end in under 20 s on a CPU.
        seeds: How many; `None` leaves it to the experiment.
    """

    device: torch.device
    quick: bool = False
    seeds: int | None = None


class Cell(NamedTuple):
    """One piece of work; a run that was stopped goes on after the last whole one.

    Attributes:
        key: Its name in the record, e.g. "npn/boston".
        settings: JSON of all that the figures depend on; a stored cell is used again only if these are equal.
        run: Does the work and returns its figures, JSON too; per-seed figures are lists. `MissingData` leaves it out.
        device: Type of the device that it works on whatever the user asked for; `None` if it does as asked.
    """

    key: str
    settings: dict[str, Any]
    run: Callable[[Progress], dict[str, Any]]
    device: str | None = None


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table or figure of the paper.

    Attributes:
        name: Of the command's argument and of the files.
        title: One line.
        place: In the paper, e.g. "Figure 1".
        data: Names for `datasets.load`.
        minutes: How long it takes on an H200.
        cells: The work for some options, in order.
        section: Markdown from a record: tables, published values with their source, what falls short.
        figure: A figure from a record.
        headline: Rows (what, published, ours) for the table at the top of the page, from a record.
        search: Whether it is a search for settings: run by name, not by `all`.
        quick_data: What tiny sizes need instead of `data`, where that is less.
        in_parts: Whether section and figure can be made of a record that is not whole.
        page: Markdown of a page of its own, NAME.md, from its record and all others that are shown; the section is then
            a summary.
    """

    name: str
    title: str
    place: str = "beyond the paper"
    data: tuple[str, ...] = ()
    minutes: float
    cells: Callable[[Options], Sequence[Cell]]
    section: Callable[[Record], str]
    figure: Callable[[Record], Figure] | None = None
    headline: Callable[[Record], list[tuple[str, str, str]]] | None = None
    search: bool = False
    quick_data: tuple[str, ...] | None = None
    in_parts: bool = False
    page: Callable[[Record, Mapping[str, Record]], str] | None = None

    def needs(self, quick: bool) -> tuple[str, ...]:
        """Names of the data sets for a run."""
        return self.data if self.quick_data is None or not quick else self.quick_data
