"""Words, tables and bars on a terminal; without one, words and tables alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import rich.box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from torchnpn.tables import Figure


def say(text: str = "", style: str | None = None) -> None:
    """A line, never broken but by the terminal."""
    Console().print(text, style=style, soft_wrap=True, highlight=False, markup=False)


def show(
    header: Sequence[str], rows: Sequence[Sequence[str]], accent: int | None = 1, left: Sequence[int] = (0,)
) -> None:
    """A table; `accent` is the number of the column that matters, `left` those that are not numbers."""
    table = Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(header):
        table.add_column(Text(name), justify="left" if i in left else "right", style="cyan" if i == accent else None)
    for row in rows:
        table.add_row(*map(Text, row))  # a name such as [x] is no markup
    Console().print(table)


def show_figures(figures: Sequence[Figure]) -> None:
    """Measures of a model, beside those of the target's own distribution."""
    show(["", "model", "baseline"], [figure.shown() for figure in figures])
    say("The baseline knows how the target is distributed, and looks at no column.", style="dim")


@contextmanager
def bars() -> Iterator[Callable[[str], Callable[[float], None]]]:
    """Progress bars on the error stream: call with a name, then with shares of the work; silent without a terminal."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description:<26}"), BarColumn(40), TextColumn("{task.percentage:>3.0f} %")
    with Progress(*columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal) as progress:

        def bar(name: str) -> Callable[[float], None]:
            task = progress.add_task(name, total=1.0)
            return lambda share: progress.update(task, completed=share)

        yield bar
