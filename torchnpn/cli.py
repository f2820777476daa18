"""The `npn` command: a thin layer that reads arguments, shows progress, writes files and turns errors into one line."""

from __future__ import annotations

import os
import tempfile
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

try:
    import matplotlib  # noqa: F401  # the figures need it; said here, before any work is done
    import rich.box
    import sklearn  # noqa: F401
    import typer
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Table
except ModuleNotFoundError as missing:
    raise SystemExit(f"npn: {missing.name} is not installed. The command needs: pip install 'torchnpn[cli]'") from None

import torchnpn
from torchnpn import plots
from torchnpn.demo import counts, digits, page, toy

app = typer.Typer(
    name="npn",
    help="Natural-parameter networks: predictions that come with their uncertainty.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # an error that is ours shows a plain traceback, an error of use a single line
)
_USAGE_ERROR = 2


def main() -> None:
    """Entry point of the `npn` script."""
    app()


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"torchnpn {torchnpn.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Options before any subcommand; also keeps `demo` a subcommand while it is the only one."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report and the figures.")] = Path("npn-demo"),
    open_report: Annotated[bool, typer.Option("--open/--no-open", help="Show the report in a browser.")] = False,
) -> None:
    """Three small studies, offline, in under two minutes: a table, figures and one HTML report."""
    with _writing(out):
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):  # before a minute's work, not after
            pass
    console, start = Console(), time.perf_counter()
    results = _run_studies(console)
    drawn = {f"{name}.png": plots.png(figure) for name, figure in page.figures(results).items()}
    text = page.html(results, time.perf_counter() - start)
    with _writing(out):
        for name, content in {**drawn, "report.html": text.encode()}.items():
            _write(out / name, content)
    _print_tables(console, results)
    report = (out / "report.html").resolve()
    console.print(f"Done in {time.perf_counter() - start:.0f} s. Report and {len(drawn)} figures:")
    console.print(f"{report}", style=f"link {report.as_uri()}", soft_wrap=True, highlight=False)
    if open_report:
        webbrowser.open(report.as_uri())


def _run_studies(console: Console) -> page.Results:
    columns = TextColumn("{task.description:<26}"), BarColumn(40), TextColumn("{task.percentage:>3.0f} %")
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:

        def bar(name: str) -> Callable[[float], None]:
            task = progress.add_task(name, total=1.0)
            return lambda share: progress.update(task, completed=share)

        return page.Results(
            toy.run(progress=bar("Twenty points of x³")),
            digits.run(progress=bar("Digits from few examples")),
            counts.run(progress=bar("Counts with a known rate")),
        )


def _print_tables(console: Console, results: page.Results) -> None:
    for title, content in page.tables(results).items():
        table = Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
        for i, name in enumerate(content.header):
            table.add_column(name, justify="right" if i else "left", style="cyan" if i == 1 else None)
        for row in content.rows:
            table.add_row(*row)
        console.print(title, style="bold", highlight=False)
        console.print(table)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Errors of the file system become one line and exit status 2."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        typer.echo(f"npn: cannot write to {path}: {reason}. Choose another folder with --out.", err=True)
        raise typer.Exit(_USAGE_ERROR) from None


def _write(path: Path, content: bytes) -> None:
    """Beside and then renamed: a file is whole or not there."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
