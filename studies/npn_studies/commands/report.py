"""`npn report`: pages from the records of experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from torchnpn.cli import OTHER, fail, in_one_line, say


@in_one_line
def report(
    results: Annotated[
        Path | None, typer.Option(help="Folder of the records; studies/results in a clone, or results.")
    ] = None,
    docs: Annotated[Path, typer.Option(help="Folder of the pages: results.md, tables.md and images.")] = Path("docs"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; status 1 if a page would change.")] = False,
) -> None:
    """Render the results of experiments.

    Writes docs/results.md, docs/tables.md and their figures from the records of `npn reproduce`.

    \b
    Examples:
      npn report
      npn report --check
    """
    from npn_studies.experiments import EXPERIMENTS
    from npn_studies.experiments.report import report as rendered
    from npn_studies.experiments.run import usual_folder

    try:
        pages = rendered(EXPERIMENTS, results or usual_folder(), docs)
    except ValueError as error:
        fail(str(error))
    outdated = ", ".join(map(str, pages.outdated()))
    if check and outdated:
        fail(f"these pages differ from the records: {outdated}. Run `npn report`.", OTHER)
    if not check:
        pages.write()
    say(f"Changed: {outdated}" if outdated else "All pages agree with the records.")
