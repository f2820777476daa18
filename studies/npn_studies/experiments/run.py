"""Running experiments: what both commands, `npn reproduce` and `python -m npn_studies`, have in common."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from npn_studies.bench import write
from npn_studies.experiments import record as records
from npn_studies.experiments.experiment import Experiment, MissingData, Options, Progress, Record
from torchnpn import datasets
from torchnpn._text import did_you_mean

ALL = "all"
LIST_HEADER = ("name", "", "min", "data", "record")  # minutes on an H200
Bars = Callable[[], AbstractContextManager[Callable[[str], Progress]]]  # as `torchnpn.cli.console.bars`


class Screen(NamedTuple):
    """Where a run says how it goes.

    Attributes:
        say: Shows a line.
        bars: Opens a place for progress bars; one of them is asked for by its name.
    """

    say: Callable[[str], None]
    bars: Bars


def folder_for(options: Options, folder: Path | None) -> Path:
    """The folder of records: the one that was asked for, `results`, or `results/quick` for tiny sizes."""
    if folder is not None:
        return folder
    return usual_folder() / "quick" if options.quick else usual_folder()


def usual_folder() -> Path:
    """`studies/results` in a clone of the repository, `results` elsewhere."""
    return Path("studies", "results") if Path("studies", "npn_studies").is_dir() else Path("results")


def choose(names: Sequence[str], experiments: Mapping[str, Experiment]) -> list[Experiment]:
    """The experiments called so; `all` means every one that is no search.

    Raises:
        ValueError: If there is no such name; the message lists all.
    """
    if unknown := [name for name in names if name != ALL and name not in experiments]:
        raise ValueError(f"There is no experiment {unknown[0]!r}.{did_you_mean(unknown[0], (*experiments, ALL), 40)}")
    if not names:
        raise ValueError(f"Which experiment? There are: {', '.join(experiments)}; or {ALL}.")
    every = [name for name, experiment in experiments.items() if not experiment.search]
    wanted = dict.fromkeys(name for given in names for name in (every if given == ALL else [given]))  # each once
    return [experiments[name] for name in wanted]


def absent(experiment: Experiment, quick: bool = False) -> list[str]:
    """The data sets of a run that are not on this machine; nothing is downloaded."""
    present = {info.name for info in datasets.available() if info.present}
    return [name for name in experiment.needs(quick) if name not in present]


def listing(experiments: Mapping[str, Experiment], folder: Path) -> list[list[str]]:
    """A row of texts for each experiment, under `LIST_HEADER`; searches come last."""
    return [
        [
            experiment.name,
            f"{experiment.title} ({'not in all' if experiment.search else experiment.place})",
            f"{experiment.minutes:g}",
            f"missing: {', '.join(missing)}" if (missing := absent(experiment)) else "✓",
            _state(records.read(experiment, folder)),
        ]
        for experiment in sorted(experiments.values(), key=lambda experiment: experiment.search)
    ]


def reproduce(
    chosen: Sequence[Experiment], options: Options, folder: Path, again: bool, screen: Screen
) -> dict[str, str]:
    """Run experiments one after the other.

    Args:
        chosen: Which.
        options: Device, sizes, seeds.
        folder: Of records and figures.
        again: Whether to run cells anew that the record holds already.
        screen: Where to say how it goes.

    Returns:
        What was left out for want of data, by name, and why.
    """
    left_out: dict[str, str] = {}
    for experiment in chosen:
        try:
            fetch_data(experiment, options.quick)
        except MissingData as error:
            left_out[experiment.name] = str(error)
            screen.say(f"{experiment.name}: left out. {error}")
            continue
        record = run(experiment, options, folder, again, screen)
        path = records.path_of(experiment, folder)
        screen.say(f"{experiment.name}: {record['duration_s']:g} s of work. Record: {path}")
        if experiment.figure is not None:
            screen.say(draw(experiment, record, path.with_suffix(".png")))
    return left_out


def fetch_data(experiment: Experiment, quick: bool) -> None:
    """Download what is not here.

    Raises:
        MissingData: If that is not possible; the message says what to do.
    """
    for name in absent(experiment, quick):
        try:
            datasets.fetch(name)
        except (OSError, ValueError) as error:  # no network, a file to be put in place by hand, an unknown name
            raise MissingData(str(error)) from error


def run(experiment: Experiment, options: Options, folder: Path, again: bool, screen: Screen) -> Record:
    """Run the cells that the record in `folder` does not hold yet; it is written after each."""
    cells = experiment.cells(options)
    found = None if again else records.read(experiment, folder)
    done = records.kept(found, cells, options)
    if done:
        screen.say(f"{experiment.name}: {len(done)} of {len(cells)} found in {records.path_of(experiment, folder)}")
    if found is not None and len(done) == len(cells) == len(found["cells"]):
        return found
    with screen.bars() as bar:
        whole = bar(experiment.name)
        for cell in cells:
            if cell.key not in done:
                progress = _part(whole, len(done), len(cells))
                start = time.perf_counter()
                try:
                    figures = cell.run(progress)
                except MissingData as error:
                    screen.say(f"{cell.key}: left out. {error}")
                    continue
                done[cell.key] = records.entry(cell, figures, time.perf_counter() - start, options)
                records.write(experiment, options, cells, done, folder)
            whole(len(done) / len(cells))
    return records.write(experiment, options, cells, done, folder)


def draw(experiment: Experiment, record: Record, path: Path) -> str:
    """Write the figure of a record, where matplotlib is at hand.

    Returns:
        What happened, in a line.
    """
    assert experiment.figure is not None
    if importlib.util.find_spec("matplotlib") is None:
        return f"{experiment.name}: no figure, for matplotlib is not installed. It comes with torchnpn[cli]."
    from torchnpn import plots

    write(path, plots.png(experiment.figure(record)))
    return f"{experiment.name}: figure: {path}"


def _part(whole: Progress, number: int, count: int) -> Progress:
    return lambda share: whole((number + share) / count)


def _state(record: Record | None) -> str:
    if record is None:
        return "–"
    return str(record["date"]) if records.is_whole(record) else f"{len(record['cells'])} of {record['planned']}"
