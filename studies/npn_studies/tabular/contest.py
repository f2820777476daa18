"""One method on one split of one table, and many of them in worker processes, each figure written as it comes."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray

from npn_studies.tabular import scores
from npn_studies.tabular.collection import TABLES
from npn_studies.tabular.ours import NPN, NPN_BEST
from npn_studies.tabular.rivals import RIVALS, Inputs, Method, Task
from npn_studies.tabular.rows import NotInstalled, Rows, read, split

METHODS: dict[str, Method] = {"npn": NPN, "npn_best": NPN_BEST, **RIVALS}
Array = NDArray[Any]
Figures = dict[str, float]


class Job(NamedTuple):
    """What a worker does."""

    method: str
    table: str
    seed: int
    folder: Path | None  # of written tables; None takes them from their packages


def table(name: str, folder: Path | None) -> Rows:
    """From a folder of written tables, or from the package that has it."""
    if folder is not None:
        return read(name, folder)
    try:
        from npn_studies.tabular.form import rows
    except ImportError as error:
        raise NotInstalled("needs pandas, or a folder of written tables") from error
    return rows(TABLES[name])


def figures(method: Method, found: Rows, seed: int) -> Figures:
    """Scores of one split, and seconds of one core."""
    return judged(method, found, *split(found, seed), seed)


def judged(method: Method, found: Rows, train: Array, test: Array, seed: int) -> Figures:
    """Scores of the rows `test` by what was learnt from the rows `train`, and seconds of one core."""
    kind = found.table.kind
    rows = [Inputs(found.X[part], found.coded[part], found.categorical) for part in (train, test)]
    task = Task(kind, rows[0], found.y[train], int(found.y.max()) + 1 if kind == "classes" else 0, seed)
    start = time.process_time()
    predict = method.fit(task)
    fitted = time.process_time()
    answer: Any = predict(rows[1])
    told = (scores.of_classes if kind == "classes" else scores.of_numbers)(answer, found.y[test])
    return {**told, "rows": float(len(found.y)), "fit_s": fitted - start, "predict_s": time.process_time() - fitted}


def unfit(method: Method, found: Rows) -> str | None:
    """Why a method is not tried on a table, on any machine."""
    if found.table.kind not in method.kinds:
        return f"{method.label} has no {found.table.kind}"
    if len(found.y) > method.most_rows:
        return f"{method.label} would take too long for {len(found.y)} rows"
    return None


def splits_of(name: str, method: Method, seeds: Iterable[int], folder: Path | None) -> Iterator[Figures | str]:
    """Figures of each split; for a method that does not fit the table, why, and no more.

    Raises:
        NotInstalled: If the table's package or the method's is not there.
    """
    found = table(name, folder)
    if importlib.util.find_spec(method.package) is None:
        raise NotInstalled(f"needs {method.package}: pip install {method.package}")
    if (reason := unfit(method, found)) is not None:
        yield reason
        return
    for seed in seeds:
        yield figures(method, found, seed)


def work(job: Job) -> dict[str, Any]:
    """A record of one job: figures, or why there are none."""
    torch.set_num_threads(1)
    record: dict[str, Any] = {"method": job.method, "table": job.table, "split": job.seed}
    try:
        [judged] = splits_of(job.table, METHODS[job.method], [job.seed], job.folder)
    except NotInstalled as error:
        return {**record, "left_out": str(error)}
    except Exception as error:  # of somebody else's library: that it fails on a table is a result
        return {**record, "failed": f"{type(error).__name__}: {error}"[:300]}
    if isinstance(judged, str):
        return {**record, "unfit": judged}
    return {**record, **{key: float(f"{value:.6g}") for key, value in judged.items()}}


def jobs(methods: Sequence[str], tables: Sequence[str], seeds: Iterable[int], folder: Path | None) -> Iterator[Job]:
    """All splits of one number before the next, so that a run that is stopped has whole ones."""
    return (Job(method, table, seed, folder) for seed in seeds for table in tables for method in methods)


def run(wanted: Sequence[Job], parts: Path, workers: int, say: Callable[[str], None]) -> None:
    """Do what the file of parts does not hold yet: a line of JSON for each job, unless a package is missing."""
    done = {(part["method"], part["table"], part["split"]) for part in read_parts([parts])}
    todo = [job for job in wanted if (job.method, job.table, job.seed) not in done]
    say(f"{len(wanted) - len(todo)} of {len(wanted)} found in {parts}")
    reasons: set[str] = set()
    parts.parent.mkdir(parents=True, exist_ok=True)
    with multiprocessing.get_context("spawn").Pool(workers) as pool, parts.open("a", encoding="utf-8") as file:
        for record in pool.imap_unordered(work, todo):
            if "left_out" in record:
                reasons.add(f"{record['table']}, {record['method']}: left out, {record['left_out']}")
                continue
            file.write(json.dumps(record) + "\n")
            file.flush()
            if "failed" in record:
                say(f"{record['table']}, {record['method']}: failed, {record['failed']}")
    for reason in sorted(reasons):
        say(reason)


def read_parts(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """The lines of some files; of a job that several have, the last."""
    found: dict[tuple[str, str, int], dict[str, Any]] = {}
    for path in paths:
        if path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines():
                part = json.loads(line)
                found[part["method"], part["table"], part["split"]] = part
    return list(found.values())


def known(tables: Sequence[str]) -> list[str]:
    """The names, all where none is given."""
    if unknown := [name for name in tables if name not in TABLES]:
        raise ValueError(f"There is no table {unknown[0]!r}. There are: {', '.join(TABLES)}.")
    return list(tables or TABLES)
