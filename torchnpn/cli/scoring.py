"""The work of `npn predict` on a folder: its files in several processes, each to a file of its own."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet
import torch

from torchnpn import table_files, tables
from torchnpn.cli.console import NOTE, bars, say
from torchnpn.cli.errors import fail, writing
from torchnpn.cli.models import load_model
from torchnpn.cli.predicting import write_predictions

_MARK = "npn"  # key of what a written file says of its origin
_model: list[tables.TableModel] = []  # of a process that predicts


class _Task(NamedTuple):
    """A file to predict."""

    shard: Path
    out: Path
    level: float
    keep: list[str] | None
    top: int | None
    origin: str  # of what is written: the model, the settings and the file


class _Outcome(NamedTuple):
    rows: int
    bad: str = ""  # why a file could not be used


def predict_folder(
    model: Path,
    folder: Path,
    out: Path,
    level: float,
    keep: list[str] | None,
    top: int | None,
    workers: int | None,
    skip_bad: bool,
) -> None:
    """Write a Parquet file for each file of a folder; those that are there already are not written again."""
    load_model(model)  # an error is said once
    tasks = list(_tasks(model, folder, out, level, keep, top))
    todo = [task for task in tasks if not _is_done(task)]
    if len(todo) < len(tasks):
        say(f"{len(tasks) - len(todo):,} of {len(tasks):,} files are there already.")
    rows, bad, sizes = 0, list[str](), {task.shard: task.shard.stat().st_size for task in todo}
    with bars() as bar:
        progress, done = bar("Predicting"), 0
        for task, found in _outcomes(todo, model, min(workers or os.cpu_count() or 1, len(todo))):
            if found.bad and not skip_bad:
                fail(f"{task.shard} cannot be used: {found.bad} To go on without: --on-bad skip.")
            if found.bad:
                bad.append(f"{task.shard}: {found.bad}")
            rows, done = rows + found.rows, done + sizes[task.shard]
            progress(done / max(sum(sizes.values()), 1))
    for line in bad:
        say(f"left out: {line}", style=NOTE)
    say(f"{rows:,} rows in {len(todo) - len(bad):,} files: {out}")


def _tasks(
    model: Path, folder: Path, out: Path, level: float, keep: list[str] | None, top: int | None
) -> Iterator[_Task]:
    made_by = hashlib.sha256(model.read_bytes()).hexdigest()
    for shard in table_files.shard_paths(folder):
        place = out.joinpath(*shard.relative_to(folder).parts)
        place = place if place.suffix == ".parquet" else place.with_name(f"{place.name}.parquet")
        with writing(place):
            place.parent.mkdir(parents=True, exist_ok=True)
        about = shard.stat()
        origin = {"model": made_by, "size": about.st_size, "modified": about.st_mtime_ns}
        settings = {"level": level, "keep": keep, "top": top}
        yield _Task(shard, place, level, keep, top, json.dumps({**origin, **settings}))


def _outcomes(tasks: list[_Task], model: Path, workers: int) -> Iterator[tuple[_Task, _Outcome]]:
    """Each task once it is done, in any order."""
    if workers <= 1:
        _begin(model)
        yield from ((task, _predict(task)) for task in tasks)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin, (model,)) as pool:
        try:
            futures = {pool.submit(_predict, task): task for task in tasks}
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _is_done(task: _Task) -> bool:
    """Whether the output is there; a file of another origin is not touched."""
    if not task.out.exists():
        return False
    try:
        marks = pyarrow.parquet.read_schema(task.out).metadata or {}
    except (OSError, pyarrow.ArrowException):
        marks = {}
    if marks.get(_MARK.encode()) != task.origin.encode():
        fail(
            f"{task.out} holds something else than the predictions of this model for {task.shard} as it is now. "
            "Delete it, or choose another folder with -o."
        )
    return True


def _begin(model: Path) -> None:
    """Load the model in a process of the pool, which has a CPU for itself."""
    if multiprocessing.parent_process() is not None:
        torch.set_num_threads(1)
    _model[:] = [load_model(model)]


def _predict(task: _Task) -> _Outcome:
    model = _model[0]
    try:
        if not task.shard.stat().st_size:
            return _Outcome(0, "it is empty.")
        table = table_files.open_table(task.shard, model.schema.names)
        marks = {_MARK: task.origin}
        return _Outcome(write_predictions(model, table, task.out, task.level, task.keep, task.top, marks=marks))
    except table_files.TableError as error:
        return _Outcome(0, str(error).removeprefix(f"{task.shard}").strip(": "))
