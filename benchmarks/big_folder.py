"""A folder larger than memory: `npn fit` and `npn predict` beside reading its files alone, in rows a second and memory.

`python benchmarks/big_folder.py FOLDER ROWS STEP…` with steps of make, read, fit, fit2 (two processes, by torchrun) and
predict; each is timed by the CPU seconds of its processes, since a machine has other work. Writes
studies/results/big_folder.json.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS, FILE_ROWS, GROUP_ROWS = 20, 1_000_000, 250_000
RECORD = Path(__file__).parents[1] / "studies" / "results" / "big_folder.json"
QUICK = ["--hidden", "50", "--epochs", "1", "--device", "cpu", "--no-report"]


def make(folder: Path, rows: int) -> None:
    """Numbers of float32, whose bytes do not shrink: 80 bytes a row with 20 columns, the target among them."""
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(rows // FILE_ROWS):
        rng = np.random.default_rng(k)
        x = rng.standard_normal((COLUMNS - 1, FILE_ROWS), np.float32)
        y = x[0] + np.sin(2 * x[1]) + x[2] * x[3] + np.exp(0.3 * x[4]) * rng.standard_normal(FILE_ROWS, np.float32)
        table = pa.table({**{f"x{i}": column for i, column in enumerate(x)}, "y": y})
        pq.write_table(table, folder / f"part-{k:03}.parquet", row_group_size=GROUP_ROWS)


def read(folder: Path) -> None:
    """All cells, as Arrow has them, batch after batch."""
    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(50_000):
                assert batch.num_columns == COLUMNS


def command(step: str, folder: Path) -> list[str]:
    """What a step runs."""
    model, npn = folder.parent / "big.npn", ["-m", "torchnpn"]
    fit = [*npn, "fit", str(folder), "-t", "y", "-o", str(model), *QUICK]
    match step:
        case "make" | "read":
            return [sys.executable, __file__, str(folder), "0", f"only-{step}"]
        case "fit":
            return [sys.executable, *fit]
        case "fit2":
            return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *fit]
    out = str(folder.parent / "predicted")
    return [sys.executable, *npn, "predict", str(model), str(folder), "-o", out, "--bare", "--workers", "2"]


def measured(step: str, folder: Path, rows: int) -> dict[str, float]:
    """CPU seconds of a step's processes, and the memory of the largest."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command(step, folder), check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu seconds": cpu, "seconds": seconds, "rows a cpu second": rows / cpu, "most MiB": after.ru_maxrss / 1024}


def main(folder: Path, rows: int, steps: list[str]) -> None:
    """Run the steps, and add what was measured to the record."""
    if steps == ["only-read"]:
        return read(folder)
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    record |= {"machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs", "rows": rows}
    for step in steps:
        if step == "make":
            make(folder, rows)
            continue
        record[step] = {**measured(step, folder, rows), "load": os.getloadavg()[0]}
        print(step, record[step], flush=True)
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    return None


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
