"""A folder larger than memory: `npn fit` and `npn predict` beside reading its files alone, in rows a second and memory.

`python benchmarks/big_folder.py FOLDER ROWS STEP…`, with steps of make, read, survey (the first reading of `npn fit`:
what columns hold), fit1 (one process on one core), fit, fit2 (two processes, by torchrun), predict and delete; fit@9,9
has such hidden layers. Beside the time on the clock there are the CPU seconds of all processes of a step and the load
of the machine, since it may have other work. Adds to studies/results/big_folder.json, under the number of rows.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS, FILE_ROWS, GROUP_ROWS = 20, 1_000_000, 250_000
ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "studies" / "results" / "big_folder.json"
SETTINGS = ["--epochs", "1", "--device", "cpu", "--no-report"]  # the default network, one pass


def make(folder: Path, rows: int) -> None:
    """Numbers of float32, whose bytes do not shrink: 80 bytes a row with 20 columns, the target among them."""
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(rows // FILE_ROWS):
        rng = np.random.default_rng(k)
        x = rng.standard_normal((COLUMNS - 1, FILE_ROWS), np.float32)
        y = x[0] + np.sin(2 * x[1]) + x[2] * x[3] + np.exp(0.3 * x[4]) * rng.standard_normal(FILE_ROWS, np.float32)
        table = pa.table({**{f"x{i}": column for i, column in enumerate(x)}, "y": y})
        pq.write_table(table, folder / f"part-{k:03}.parquet", row_group_size=GROUP_ROWS, use_dictionary=False)


def read(folder: Path) -> None:
    """All cells, as Arrow has them, batch after batch."""
    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(50_000):
                assert batch.num_columns == COLUMNS


def survey(folder: Path) -> None:
    """What the columns hold."""
    from torchnpn import table_files

    assert table_files.survey(table_files.open_folder(folder)).rows


def command(step: str, folder: Path) -> list[str]:
    """What a step runs."""
    model, npn = folder.with_suffix(".npn"), ["-m", "torchnpn"]
    fit = [*npn, "fit", str(folder), "-t", "y", "-o", str(model), *SETTINGS]
    name, _, hidden = step.partition("@")
    fit += ["--hidden", hidden] if hidden else []
    match name:
        case "read" | "survey":
            return [sys.executable, __file__, str(folder), "0", f"only-{step}"]
        case "fit1":
            return ["taskset", "-c", "0", sys.executable, *fit]
        case "fit":
            return [sys.executable, *fit]
        case "fit2":
            return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *fit]
        case "predict":
            out = str(folder.with_suffix(".predicted"))
            return [sys.executable, *npn, "predict", str(model), str(folder), "-o", out, "--bare", "--workers", "2"]
    raise ValueError(f"expected make, read, survey, fit1, fit, fit2, predict or delete, got {step!r}")


def measured(step: str, folder: Path, rows: int) -> dict[str, float]:
    """Seconds, CPU seconds of a step's processes, and the memory of the largest of them."""
    start = time.perf_counter()
    child = subprocess.Popen(command(step, folder), env={**os.environ, "OMP_NUM_THREADS": "1"})
    _, status, used = os.wait4(child.pid, 0)
    seconds, cpu = time.perf_counter() - start, used.ru_utime + used.ru_stime
    if status:
        raise RuntimeError(f"{step} ended with status {os.waitstatus_to_exitcode(status)}")
    return {
        "seconds": round(seconds, 1),
        "CPU seconds": round(cpu, 1),
        "rows a second": round(rows / seconds),
        "rows a CPU second": round(rows / cpu),
        "most MiB": round(used.ru_maxrss / 1024),
        "load": round(os.getloadavg()[0], 1),
    }


def main(folder: Path, rows: int, steps: list[str]) -> None:
    """Run the steps, and add what was measured to the record."""
    for step in steps:
        match step:
            case "only-read":
                read(folder)
            case "only-survey":
                survey(folder)
            case "make":
                make(folder, rows)
            case "delete":
                shutil.rmtree(folder)
                shutil.rmtree(folder.with_suffix(".predicted"), ignore_errors=True)
            case _:
                found = measured(step, folder, rows)
                print(step, found, flush=True)
                note(rows, step, {"bytes": sum(one.stat().st_size for one in folder.iterdir())}, found)


def note(rows: int, step: str, about: dict[str, int], found: dict[str, float]) -> None:
    """Add a step to the record."""
    sys.path.insert(0, str(ROOT))
    from benchmarks import records  # brings torch, which reading should not pay for

    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"runs": {}}
    record |= {"columns": COLUMNS, "settings": SETTINGS, "CPUs": os.cpu_count(), **records.circumstances()}
    record["runs"][str(rows)] = {**record["runs"].get(str(rows), {}), **about, step: found}
    records.write_json(RECORD, record)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
