"""Words, tables and bars on a terminal; without one, words and tables alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import rich.box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from torchnpn.report import printable

if TYPE_CHECKING:
    from torchnpn.tables import Figure, Record

WIN, LOSS, NOTE, WARNING = "cyan", "red", "yellow", "bold red"
_with_bars: ContextVar[Console | None] = ContextVar("with_bars", default=None)  # the terminal on which bars are moving


def is_first() -> bool:
    """Whether this process speaks and writes for all that torchrun started."""
    return "TORCHELASTIC_RUN_ID" not in os.environ or os.environ.get("RANK") == "0"


def _console() -> Console:
    """That of words; where bars are moving on the same terminal, theirs, which writes above them."""
    own, moving = Console(quiet=not is_first()), _with_bars.get()
    return moving if moving is not None and own.is_terminal else own


def say(text: str = "", style: str | None = None) -> None:
    """A line, never broken but by the terminal."""
    _console().print(printable(text), style=style, soft_wrap=True, highlight=False, markup=False)


def show(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    accent: int | None = 1,
    left: Sequence[int] = (0,),
    styles: Sequence[str | None] | None = None,
) -> None:
    """A table; `accent` is the number of the column that matters, `left` those that are not numbers.

    With `styles`, the column that matters has a style for each row.
    """
    table = Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(header):
        table.add_column(Text(printable(name)), justify="left" if i in left else "right")
    for number, row in enumerate(rows):
        style = "cyan" if styles is None else styles[number]
        cells = [Text(printable(cell), style=(style or "") if i == accent else "") for i, cell in enumerate(row)]
        table.add_row(*cells)  # a name such as [x] is no markup
    _console().print(table)


def show_figures(figures: Sequence[Figure]) -> None:
    """Measures of a model, beside those of a baseline; cyan where the model is better, red where it is worse."""
    styles = [None if figure.wins is None else WIN if figure.wins else LOSS for figure in figures]
    show(["", "model", "baseline"], [figure.shown() for figure in figures], styles=styles)
    lower = ", ".join(figure.name for figure in figures if figure.less_is_better)
    say(
        "The baseline uses no column: it predicts the distribution of the training targets for every row. "
        f"Lower is better: {lower}.",
        "dim",
    )


def show_record(record: Record) -> None:
    """How well a model did on the held-out rows, and what is to be said of it."""
    show_figures(record.figures)
    for note in record.notes:
        say(note, style=WARNING if record.is_worse else NOTE)


@contextmanager
def bars() -> Iterator[Callable[[str], Callable[[float], None]]]:
    """Progress bars on the error stream: call with a name, then with shares of the work; silent without a terminal."""
    console = Console(stderr=True, quiet=not is_first())
    columns = TextColumn("{task.description:<26}"), BarColumn(40), TextColumn("{task.percentage:>3.0f} %")
    are_shown = console.is_terminal and not console.quiet
    before = _with_bars.set(console if are_shown else None)
    with Progress(*columns, TimeElapsedColumn(), console=console, disable=not are_shown) as progress:

        def bar(name: str) -> Callable[[float], None]:
            task = progress.add_task(printable(name), total=1.0)
            return lambda share: progress.update(task, completed=share)

        try:
            yield bar
        finally:
            _with_bars.reset(before)
