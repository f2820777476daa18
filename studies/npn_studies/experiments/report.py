"""Records as pages: docs/results.md with its figures, and a page of its own for an experiment that has one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from npn_studies.bench import write
from npn_studies.experiments import budgets, claims
from npn_studies.experiments import record as records
from npn_studies.experiments.experiment import Experiment, Record
from npn_studies.experiments.run import draw
from npn_studies.experiments.tables import table

PAGE, IMAGES = "results.md", "images"
_INTRODUCTION = """# Results

<!-- rendered from results/ by npn report: do not edit -->

What the paper reports, and what this library reaches. Each section is rendered from a record in `results/` that
`npn reproduce` wrote, with all settings, seeds and durations ([how](reproduce.md)). A figure with ± is a mean over
seeds or splits with its standard error. Published values carry their source; settings were chosen on data that are not
reported. What of the paper holds, what holds better here, and what does not once baselines are tuned, by the
[verdicts on all its claims](paper.md#every-claim):"""
_IN_FIGURES = "In figures:"


class Report(NamedTuple):
    """What should stand on disk.

    Attributes:
        pages: Texts by their paths.
        figures: Experiments and records to draw, by the paths of their images.
    """

    pages: dict[Path, str]
    figures: dict[Path, tuple[Experiment, Record]]

    def outdated(self) -> list[Path]:
        """Pages that would change and images that are not there; their bytes differ from one matplotlib to the next."""
        pages = [path for path, text in self.pages.items() if not path.is_file() or _read(path) != text]
        return [*pages, *(path for path in self.figures if not path.is_file())]

    def write(self) -> None:
        """Write all."""
        for path, (experiment, record) in self.figures.items():
            draw(experiment, record, path)
        for path, text in self.pages.items():
            write(path, text)


def report(experiments: Mapping[str, Experiment], results: Path, docs: Path) -> Report:
    """The pages of all records in `results`.

    Raises:
        ValueError: If a record is damaged.
    """
    found = {name: records.read(experiment, results) for name, experiment in experiments.items()}
    begun = {name: record for name, record in found.items() if record is not None and record["cells"]}
    whole = {name: record for name, record in begun.items() if records.is_whole(record)}
    shown = {name: record for name, record in begun.items() if name in whole or experiments[name].in_parts}
    order = sorted(experiments.values(), key=lambda experiment: experiment.search)  # searches last
    index = table(
        ["experiment", "in the paper", "what", "device", "time"],
        [_index_row(experiment, found[experiment.name], experiment.name in shown) for experiment in order],
        words=4,
    )
    sections = [_section(e, shown[e.name]) for e in order if e.name in shown]
    brief = headline_table(experiments, whole)
    parts = [
        _INTRODUCTION,
        claims.summary(shown),
        _IN_FIGURES,
        brief,
        "All experiments:",
        index,
        budgets.section(shown),
    ]
    pages = {docs / PAGE: "\n\n".join([*filter(None, parts), *sections]) + "\n"}
    for name, record in shown.items():
        if (page := experiments[name].page) is not None:
            pages[docs / f"{name}.md"] = page(record, shown)
    figures = {
        docs / IMAGES / f"{name}.png": (experiments[name], record)
        for name, record in shown.items()
        if experiments[name].figure is not None
    }
    return Report(pages, figures)


def headline_table(experiments: Mapping[str, Experiment], found: Mapping[str, Record]) -> str:
    """The rows that experiments have for the table at the top of the page."""
    rows = [
        row
        for name, experiment in experiments.items()
        if name in found and experiment.headline is not None
        for row in experiment.headline(found[name])
    ]
    return table(["", "paper", "here"], rows)


def _section(experiment: Experiment, record: Record) -> str:
    parts = [f"## {experiment.name}", f"**{experiment.title}** ({experiment.place})."]
    if record["quick"]:
        parts.append("Tiny sizes, to see whether it runs: these are no results.")
    if not records.is_whole(record):
        parts.append(f"{_unfinished(record)}: what follows is of these alone.")
    if experiment.figure is not None:
        parts.append(f"![{experiment.title}]({IMAGES}/{experiment.name}.png)")
    parts.append(experiment.section(record).strip())
    parts.append(f"{duration(record['duration_s'])} on {_machines(record)}; {record['date']}.")
    return "\n\n".join(parts)


def _index_row(experiment: Experiment, record: Record | None, shown: bool) -> list[str]:
    name = f"[`{experiment.name}`](#{experiment.name})" if shown else f"`{experiment.name}`"
    about = [name, experiment.place, experiment.title]
    if record is None:
        return [*about, "not yet run", ""]
    state = _devices(record) if records.is_whole(record) else _unfinished(record)
    return [*about, state, duration(record["duration_s"])]


def _unfinished(record: Record) -> str:
    return f"Unfinished, {len(record['cells'])} of {record['planned']} pieces"


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _devices(record: Record) -> str:
    return "; ".join(sorted({cell["device"] for cell in record["cells"].values()}))


def _machines(record: Record) -> str:
    """Each device with the versions of its cells, or of the record where cells name none."""
    cells = record["cells"].values()
    found = {(cell["device"], tuple(cell.get("versions", record["versions"]).items())) for cell in cells}
    return "; ".join(
        f"{device} ({', '.join(f'{name} {version}' for name, version in versions)})"
        for device, versions in sorted(found)
    )


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
