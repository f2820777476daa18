"""What docs/cluster.md shows of records (big_folder, processes, kill_workers, scoring, nccl), and its plan on paper.

`python benchmarks/cluster_page.py` writes it into the page.
"""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import records, summaries

PAGE = records.DOCS / "cluster.md"
STEPS = {
    "read": "reading the files alone",
    "survey": "the first reading: what the columns hold",
    "fit1": "`npn fit`, one process on one core",
    "fit": "`npn fit`, one process",
    "fit2": "`npn fit`, two processes",
    "predict": "`npn predict`, two processes",
}
ROWS, PROCESSES = 10**9, 64  # of the plan
LINK, LATENCY = 50e9, 50e-6  # bytes a second and seconds of a message: assumed, of the plan


def recorded(name: str) -> dict[str, Any]:
    """A record."""
    found: dict[str, Any] = json.loads((records.RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def folders(record: dict[str, Any]) -> str:
    """Rows a second and memory of each step, by the number of rows."""
    head = ["rows", "step", "seconds", "CPU seconds", "rows a CPU second", "of reading alone", "most MiB", "load"]
    rows = []
    for count, run in sorted(record["runs"].items(), key=lambda item: int(item[0])):
        for step in sorted(run.keys() - {"bytes"}, key=lambda step: [*STEPS].index(step.partition("@")[0])):
            found, (name, _, hidden) = run[step], step.partition("@")
            words = STEPS[name] + (f", `--hidden {hidden}`" if hidden else "")
            share = run["read"]["rows a CPU second"] / found["rows a CPU second"]
            ratio = "" if step == "read" else f"1/{share:.0f}"
            seconds, cpu = f"{found['seconds']:,.0f}", f"{found['CPU seconds']:,.1f}"
            memory, load = f"{found['most MiB']:,}", f"{found['load']:g}"
            rate = f"{found['rows a CPU second']:,}"
            rows.append([f"{int(count):,}", words, seconds, cpu, rate, ratio, memory, load])
    said = []
    for count, run in record["runs"].items():
        for step in (step for step in run if step.startswith("fit2") and step.replace("2", "1", 1) in run):
            both, one = run[step]["CPU seconds"], run[step.replace("2", "1", 1)]["CPU seconds"]
            said.append(
                f"{STEPS['fit2']}{step[4:].replace('@', ' of --hidden ')}, {int(count):,} rows: {both / one:.2f}"
            )
    versions = record["versions"]
    about = f"{record['columns']} columns, {record['CPUs']} CPUs, torch {versions['torch']}, {record['date']}."
    times = (
        f"CPU seconds of two processes beside those of one: {'; '.join(said)}. Two free cores would divide that by two."
    )
    return f"{summaries.table(head, rows, words=2)}\n\n{about} {times}"


def processes(record: dict[str, Any]) -> str:
    """A step of one process beside a step of two, for each size."""
    head = [
        "units",
        "rows in a step",
        "one: CPU, ms",
        "each of two: CPU, ms",
        "faster with a core each",
        "on the clock",
    ]
    rows = []
    for row in record["rows"]:
        one, two = row["one"], row["two"]
        cpu = [f"{one['cpu'] / 1e3:,.1f}", f"{two['cpu'] / 1e3:,.1f}", f"{one['cpu'] / two['cpu']:.2f}"]
        units = "-".join(map(str, row["hidden"]))
        rows.append([units, f"{row['batch']:,}", *cpu, f"{one['clock'] / two['clock']:.2f}"])
    about = f"{record['columns']} columns, {record['CPUs']} CPUs, load {record['load']:g}, {record['date']}."
    return f"{summaries.table(head, rows)}\n\n{about}"


def kills(record: dict[str, Any]) -> str:
    """What each training went through, and what came in the end."""
    rows = []
    for one in record["trainings"]:
        what = "undisturbed"
        if "kills" in one:
            what = f"a worker killed after {', '.join(str(kill['epochs']) for kill in one['kills'])} epochs"
        if "cuts" in one:
            torn = sum(cut["half-written files"] for cut in one["cuts"])
            what = f"the job killed as it wrote a checkpoint, which {torn} times was left half-written"
        apart = one["largest difference of predictions"]
        rows.append([what, *(f"{number:.6g}" for number in one["figures"].values()), f"{apart:g}"])
    head = ["", *record["trainings"][0]["figures"], "largest difference of predictions"]
    about = f"{record['rows']:,} rows, {record['processes']} processes, six epochs, {record['date']}."
    return f"{summaries.table(head, rows, words=1)}\n\n{about}"


def scoring(record: dict[str, Any]) -> str:
    """Each way to predict with its version."""
    names = {"by_npn": "npn predict", "by_polars": "polars", "by_dask": "Dask", "by_ray": "Ray Data"}
    names |= {"by_spark_arrow": "Spark, `mapInArrow`", "by_spark_pandas": "Spark, `mapInPandas`"}
    rows = [[names[way], found["version"], f"{found['largest difference']:g}"] for way, found in record["ways"].items()]
    return summaries.table(["", "version", "largest difference from `predict`"], rows, words=1)


def nccl(record: dict[str, Any]) -> str:
    """How far the losses with NCCL are from those of a plain training."""
    curves = record["curves"]
    most = max(curve["largest relative difference"] for curve in curves.values())
    count = "one process" if record["processes"] == 1 else f"{record['processes']} processes"
    where = f"{record['device']}, torch {record['torch']}, NCCL {record['NCCL']}, {count}"
    return (
        f"On a GPU ({where}) the sum by NCCL lies inside the recorded step: the losses of {len(curves)} networks "
        f"differ from those of a plain training by {most:.0e} at most."
    )


class Plan:
    """One pass over a table by many processes, from what one process was measured to do."""

    def __init__(self, columns: int, units: list[int], batch: int, seconds: float, bytes_a_second: float) -> None:
        self.units, self.batch, self.seconds = units, batch, seconds
        self.bytes = 4 * columns * ROWS
        numbers = 2 * sum((inputs + 1) * outputs for inputs, outputs in pairwise(units))
        self.message = 2 * (PROCESSES - 1) / PROCESSES * 4 * numbers
        self.steps = -(-ROWS // (batch * PROCESSES))
        self.sending = LATENCY + self.message / LINK
        self.learning = self.steps * (seconds + self.sending)
        self.reading = self.bytes / PROCESSES / bytes_a_second
        self.alone = -(-ROWS // batch) * seconds

    def cells(self) -> list[str]:
        """A column of the table."""
        return [
            "-".join(map(str, self.units)),
            f"{self.bytes / 1e9:,.0f} GB",
            f"{self.batch:,} × {PROCESSES}",
            f"{self.steps:,}",
            f"{1e3 * self.seconds:.2f} ms",
            f"{self.message / 1e6:.3g} MB",
            f"{1e3 * self.sending:.2f} ms",
            f"{duration(self.learning)}",
            f"{duration(self.reading)}",
            f"{duration(self.alone)}",
            f"{self.alone / max(self.learning, self.reading):.0f} times",
        ]


def duration(seconds: float) -> str:
    """In words."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"


def plan(folder: dict[str, Any], step: dict[str, Any]) -> str:
    """The arithmetic for 10⁹ rows and 64 processes."""
    run = folder["runs"][max((n for n in folder["runs"] if {"fit", "read"} <= folder["runs"][n].keys()), key=int)]
    columns, survey = folder["columns"], [one["survey"] for one in folder["runs"].values() if "survey" in one][-1]
    reading = 4 * columns * run["read"]["rows a CPU second"]
    wide = {row["contestant"]: row for row in step["tables"]["wide"]["rows"]}["npn-graph"]["step_us"] / 1e6
    small = Plan(columns, [columns - 1, 100, 2], 1_024, 1_024 / run["fit"]["rows a CPU second"], reading)
    large = Plan(4_096, [4_096, 4_096, 4_096, 10], 8_192, wide, reading)
    words = [
        "network", "in the files", "rows in a step", "steps of a pass", "one step of one process, measured",
        "sent by each process in a step", "which takes", "a pass: learning", "a pass: reading by one thread each",
        "a pass by one process", "faster",
    ]  # fmt: skip
    rows = [[word, *both] for word, *both in zip(words, small.cells(), large.cells(), strict=True)]
    head = ["", f"{columns} columns, CPU cores", "4,096 columns, H200"]
    return (
        f"{summaries.table(head, rows, words=1)}\n\n"
        f"Assumed: {LINK / 1e9:.0f} GB/s between processes, {1e6 * LATENCY:.0f} µs for a message. Measured: reading at "
        f"{reading / 1e6:,.0f} MB/s a thread. The first reading, for what {columns} columns hold, is by one process: "
        f"{duration(ROWS / survey['rows a CPU second'])}."
    )


def with_tables(page: str) -> str:
    """The page with the figures of all records."""
    folder = recorded("big_folder")
    page = summaries.with_table(page, "big_folder.py", folders(folder))
    page = summaries.with_table(page, "processes.py", processes(recorded("processes")))
    page = summaries.with_table(page, "kill_workers.py", kills(recorded("kill_workers")))
    page = summaries.with_table(page, "scoring.py", scoring(recorded("scoring")))
    page = summaries.with_table(page, "nccl.py", nccl(recorded("nccl")))
    return summaries.with_table(page, "cluster_page.py", plan(folder, recorded("step_cuda")))


if __name__ == "__main__":
    records.write(PAGE, with_tables(PAGE.read_text(encoding="utf-8")))
