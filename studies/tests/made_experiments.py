"""Made experiments for tests of how they run, a screen that remembers, and what every experiment must pass."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from npn_studies.experiments import EXPERIMENTS, Cell, Experiment, Options
from npn_studies.experiments import record as records
from npn_studies.experiments.run import Screen, run

from torchnpn import plots

CPU = torch.device("cpu")
FULL, QUICK = Options(CPU), Options(CPU, quick=True)


def made(name: str = "made", settings: tuple[int, ...] = (1, 2, 3), log: list | None = None, **more) -> Experiment:
    """Cells "a/1", "a/2", …, whose figure is the square of their setting; a negative one stops the run."""
    log = [] if log is None else log

    def work(n):
        def cell(progress):
            if n < 0:
                raise KeyboardInterrupt
            log.append(n)
            progress(1.0)
            return {"square": n**2}

        return cell

    def cells(options):
        return [Cell(f"a/{i}", {"n": (n,)}, work(n)) for i, n in enumerate(settings)]

    about = {"title": "Squares", "place": "Nowhere", "data": (), "minutes": 0.1, "section": lambda record: "Text."}
    return Experiment(name=name, cells=cells, **{**about, **more})


class Told:
    """A screen that remembers."""

    def __init__(self):
        self.lines, self.shares = [], []

    @property
    def screen(self) -> Screen:
        @contextmanager
        def bars():
            yield lambda name: self.shares.append

        return Screen(self.lines.append, bars)


def ran(experiment: Experiment, folder: Path, options: Options = FULL, again: bool = False) -> Told:
    told = Told()
    run(experiment, options, folder, again, told.screen)
    return told


def assert_runs_from_end_to_end(experiment: Experiment, folder: Path) -> None:
    """At tiny size: a whole record, its section, headline and figure; a second run finds all of it."""
    told = ran(experiment, folder, QUICK)
    if any("left out" in line for line in told.lines):
        pytest.skip(told.lines[0])  # a package that nothing else needs is missing
    record = records.read(experiment, folder)
    assert records.is_whole(record)
    assert "|" in (page := experiment.section(record)) and not re.search(r"\bnan\b", page)
    if experiment.headline is not None:
        assert all(len(row) == 3 for row in experiment.headline(record))
    if experiment.figure is not None:
        assert plots.png(experiment.figure(record)).startswith(b"\x89PNG")
    assert f"{record['planned']} of {record['planned']} found" in ran(experiment, folder, QUICK).lines[0]


@contextmanager
def only(experiments: dict[str, Experiment]):
    """As if there were no others; afterwards all are back, in their order."""
    usual = dict(EXPERIMENTS)
    EXPERIMENTS.clear()
    EXPERIMENTS.update(experiments)
    try:
        yield
    finally:
        EXPERIMENTS.clear()
        EXPERIMENTS.update(usual)
