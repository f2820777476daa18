"""`npn fit` and `npn predict` on a table of a million rows and three: time, and the most memory that they held.

    python benchmarks/large_table.py [--rows 1000000 3000000]

Writes large_table.json to studies/results. The tables have 20 columns: 14 of numbers, a twentieth of whose cells is
empty, 5 of categories, and the target; training is as `npn fit` does it by default, but for two epochs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import records, summaries

RECORD = records.RESULTS / "large_table.json"
CHUNK = 100_000
EPOCHS = 2


def write_table(path: Path, rows: int) -> None:
    """A table whose target depends on four of its columns."""
    writer = None
    for start in range(0, rows, CHUNK):
        rng = np.random.default_rng(start)
        n = min(CHUNK, rows - start)
        numbers = rng.normal(size=(n, 14)).round(4)
        kinds = rng.integers(0, 8, size=(n, 5))
        y = numbers[:, 0] + np.sin(2 * numbers[:, 1]) + 0.5 * kinds[:, 0] + 0.5 * rng.normal(size=n)
        columns: dict[str, Any] = {
            f"x{i}": pa.array(column, mask=rng.random(n) < 0.05) for i, column in enumerate(numbers.T)
        }
        columns |= {f"k{i}": [f"kind {code}" for code in column] for i, column in enumerate(kinds.T)}
        batch = pa.table({**columns, "y": y.round(4)})
        writer = writer or pa.csv.CSVWriter(path, batch.schema)
        writer.write_table(batch)
    assert writer is not None
    writer.close()


def measured(*command: str) -> dict[str, float]:
    """Seconds that a command of `npn` takes, and its largest resident memory in GB."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "torchnpn", *command], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"npn {' '.join(command)} failed.")
    return {"seconds": round(time.perf_counter() - start, 1), "peak_gb": round(used.ru_maxrss * 1024 / 1e9, 2)}


def render(record: dict[str, Any]) -> str:
    """Time and memory as a markdown table."""
    head = ["rows", "file, GB", "fit, s", "most memory, GB", "predict, s", "most memory, GB"]
    rows = [
        [f"{t['rows']:,}", f"{t['file_gb']:.2f}"]
        + [f"{t[step][key]:g}" for step in ("fit", "predict") for key in ("seconds", "peak_gb")]
        for t in record["tables"]
    ]
    return summaries.table(head, rows, words=0)


def with_table(page: str, record: dict[str, Any]) -> str:
    """The page with the table of the record between its comments."""
    return summaries.with_table(page, "large_table.py", render(record))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 3_000_000])
    parser.add_argument("--out", type=Path, default=RECORD)
    parser.add_argument("--render", type=Path, metavar="PAGE", help="write the table of the record into a page")
    options = parser.parse_args()
    if options.render:
        return records.render(options.render, options.out, with_table)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        table, model, out = (Path(folder) / name for name in ("table.csv", "model.npn", "out.csv"))
        for rows in options.rows:
            write_table(table, rows)
            size = round(table.stat().st_size / 1e9, 3)
            fit = measured("fit", f"{table}", "-t", "y", "-o", f"{model}", "--epochs", f"{EPOCHS}", "--no-report")
            predict = measured("predict", f"{model}", f"{table}", "-o", f"{out}")
            found.append({"rows": rows, "columns": 20, "file_gb": size, "fit": fit, "predict": predict})
            print(found[-1])
    configuration = {"epochs": EPOCHS, "report": False, "max_rows": 1_000_000}
    records.write_json(options.out, {"configuration": configuration, **records.circumstances(), "tables": found})


if __name__ == "__main__":
    main()
