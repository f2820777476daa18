"""`npn fit` by two processes, of which one is killed at random; and all killed as a checkpoint is being written.

`python benchmarks/kill_workers.py` makes a folder of two million rows and fits it undisturbed; then with a worker
killed ten times, where torchrun's agent starts all workers again; then with all processes killed when a new checkpoint
is half-written, three times, and the same command given again. All end in the same figures. Writes
studies/results/kill_workers.json.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import big_folder
import numpy as np

import torchnpn as npn
from torchnpn.io import file

ROWS, KILLS, CUT_WRITES = 2_000_000, 10, 3
RECORD = Path(__file__).parents[1] / "studies" / "results" / "kill_workers.json"
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=100"]


def started(folder: Path, model: Path) -> subprocess.Popen[bytes]:
    """The job."""
    fit = ["-m", "torchnpn", "fit", str(folder), "-t", "y", "-o", str(model), "--hidden", "20", "--epochs", "4"]
    command = [sys.executable, *TORCHRUN, *fit, "--device", "cpu", "--no-report"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, **quiet)


def workers(job: subprocess.Popen[bytes]) -> list[int]:
    """The processes that it has started."""
    try:
        return [int(pid) for pid in Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()]
    except OSError:
        return []


def epochs_in(checkpoint: Path) -> int:
    """How many a checkpoint holds; an error unless it is whole."""
    return len(file.read(checkpoint)[1]["history/epochs"]) if checkpoint.exists() else 0


def kill_workers(folder: Path, model: Path, longest: float, rng: random.Random) -> list[dict[str, float]]:
    """When a worker was killed, at most so many seconds after the last kill, and the epochs that were done."""
    job, kills, checkpoint = started(folder, model), [], Path(f"{model}.checkpoint")
    start = time.perf_counter()
    while job.poll() is None:
        if len(kills) < KILLS:
            time.sleep(rng.uniform(0, longest))
            if found := workers(job):
                os.kill(rng.choice(found), signal.SIGKILL)
                kills.append({"seconds": round(time.perf_counter() - start, 1), "epochs": epochs_in(checkpoint)})
                print("killed", kills[-1], flush=True)
        time.sleep(0.1)
    assert job.returncode == 0 and len(kills) == KILLS, (job.returncode, len(kills))
    return kills


def cut_writes(folder: Path, model: Path) -> list[dict[str, int]]:
    """Kill all processes while a checkpoint is half-written; the epochs before, and in the file that is left."""
    cuts, checkpoint = list[dict[str, int]](), Path(f"{model}.checkpoint")
    while sum(one["half-written files"] for one in cuts) < CUT_WRITES:  # now and then a write is over too soon
        job, before = started(folder, model), epochs_in(checkpoint)
        while job.poll() is None:
            found = [*workers(job), job.pid]
            if any(one.name.endswith(".tmp") for one in os.scandir(model.parent)):
                for pid in found:
                    os.kill(pid, signal.SIGKILL)
                job.wait()
        assert job.returncode == -signal.SIGKILL, "the job ended before it was caught"
        left = [one for one in model.parent.iterdir() if one.suffix == ".tmp"]
        cuts.append({"before": before, "after": epochs_in(checkpoint), "half-written files": len(left)})
        print("cut", cuts[-1], flush=True)
        assert cuts[-1]["after"] >= before
    assert started(folder, model).wait() == 0
    return cuts


def figures(model: Path) -> dict[str, float]:
    """What `npn fit` has measured."""
    return {one.name: one.model for one in npn.load(model).record.figures}


def main() -> None:
    """Compare the three, and write the record."""
    with tempfile.TemporaryDirectory() as name:
        folder, (alone, killed, cut) = (
            Path(name) / "rows",
            [Path(name) / way / "m.npn" for way in ("alone", "killed", "cut")],
        )
        big_folder.make(folder, ROWS)
        for model in (alone, killed, cut):
            model.parent.mkdir()
        start = time.perf_counter()
        assert started(folder, alone).wait() == 0
        record = {"rows": ROWS, "processes": 2, "undisturbed seconds": round(time.perf_counter() - start, 1)}
        print(record, flush=True)
        record["kills of a worker"] = kill_workers(folder, killed, record["undisturbed seconds"] / 2, random.Random(0))
        record["kills of the job in a checkpoint"] = cut_writes(folder, cut)
        x = np.random.default_rng(0).normal(size=(1_000, big_folder.COLUMNS - 1))
        expected = npn.load(alone).estimator.predict(x)
        record["figures"] = {
            "undisturbed": figures(alone),
            "workers killed": figures(killed),
            "job killed": figures(cut),
        }
        record["largest difference of predictions"] = max(
            float(np.abs(npn.load(model).estimator.predict(x) - expected).max()) for model in (killed, cut)
        )
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
