"""`npn demo`: three small studies, a table, figures and a report."""

from __future__ import annotations

import tempfile
import time
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from torchnpn.cli.console import bars, say, show
from torchnpn.cli.errors import in_one_line, writing

_ADVICE = " Choose another folder with --out."


@in_one_line
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report and the figures.")] = Path("npn-demo"),
    open_report: Annotated[bool, typer.Option("--open/--no-open", help="Show the report in a browser.")] = False,
) -> None:
    """Run three small studies, for a first look.

    Needs no download. Writes a table, figures and one HTML report.
    """
    with writing(out, _ADVICE):
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):  # before a minute's work, not after
            pass
    from torchnpn._files import whole_file
    from torchnpn.demo import page

    start = time.perf_counter()
    with bars() as bar:
        studies = {bar(title): study for title, study in page.STUDIES.items()}
        found = []
        for progress, study in studies.items():
            found.append(study.run())
            progress(1.0)
    results = page.Results(*found)
    pictures = page.pictures(results)
    sections = page.sections(results, pictures)
    drawn = {f"{name}.png": picture.wide.light for name, picture in pictures.items()}
    text = page.html(sections, time.perf_counter() - start)
    with writing(out, _ADVICE):
        for name, content in {**drawn, "report.html": text.encode()}.items():
            with whole_file(out / name) as file:
                file.write(content)
    for section in sections:
        say(section.title, style="bold")
        assert section.table is not None  # every study has one
        show(section.table.header, section.table.rows)
    report = (out / "report.html").resolve()
    say(f"Done in {time.perf_counter() - start:.0f} s. Report and {len(drawn)} figures:")
    say(f"{report}", style=f"link {report.as_uri()}")
    if open_report:
        webbrowser.open(report.as_uri())
