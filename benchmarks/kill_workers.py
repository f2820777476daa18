"""`npn fit` by two processes, of which one is killed at random; and all killed as a checkpoint is being written.

`python benchmarks/kill_workers.py FOLDER STEP…` with steps of make (two million rows), alone (undisturbed), killed (a
worker is killed at random, five times, and torchrun's agent starts all workers again) and cut (all processes are killed
when a new checkpoint is half-written, and the same command is given again). Steps can be repeated; all trainings should
end in the same figures. Adds to studies/results/kill_workers.json.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torchnpn as npn
from benchmarks import big_folder, records
from torchnpn.io import file

ROWS, EPOCHS, KILLS, CUT_WRITES = 2_000_000, 6, 5, 1
LONGEST = 20.0  # seconds from an epoch, drawn at random, to the kill
RECORD = records.RESULTS / "kill_workers.json"
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=100"]


def started(folder: Path, model: Path) -> subprocess.Popen[bytes]:
    """The job."""
    settings = ["--hidden", "20", "--epochs", str(EPOCHS // 2), "--device", "cpu", "--no-report"]
    fit = ["-m", "torchnpn", "fit", str(folder), "-t", "y", "-o", str(model), *settings]
    command = [sys.executable, *TORCHRUN, *fit]
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


def kill_workers(folder: Path, model: Path, rng: random.Random) -> list[dict[str, float]]:
    """When a worker was killed, and the epochs that the checkpoint had."""
    job, kills, checkpoint = started(folder, model), list[dict[str, float]](), Path(f"{model}.checkpoint")
    start, epochs = time.perf_counter(), sorted(rng.randrange(EPOCHS) for _ in range(KILLS))
    while job.poll() is None:
        time.sleep(0.1)
        if len(kills) < KILLS and epochs_in(checkpoint) >= epochs[len(kills)] and (found := workers(job)):
            time.sleep(rng.uniform(0, LONGEST))
            os.kill(rng.choice(found), signal.SIGKILL)
            kills.append({"seconds": round(time.perf_counter() - start, 1), "epochs": epochs_in(checkpoint)})
            print("killed", kills[-1], flush=True)
            while set(found) & set(workers(job)):
                time.sleep(0.1)
    assert job.returncode == 0 and len(kills) == KILLS, (job.returncode, len(kills))
    return kills


def cut_writes(folder: Path, model: Path) -> list[dict[str, int]]:
    """Kill all processes while a checkpoint is half-written; the epochs before, and in the file that is left."""
    cuts, checkpoint = list[dict[str, int]](), Path(f"{model}.checkpoint")
    begins = f".npn-{zlib.crc32(checkpoint.name.encode()):08x}-"  # the name of a file that will be the checkpoint
    while sum(one["half-written files"] for one in cuts) < CUT_WRITES:  # now and then a write is over too soon
        job, before = started(folder, model), epochs_in(checkpoint)
        while not (found := workers(job)):
            time.sleep(0.1)
        while job.poll() is None:
            if any(one.name.startswith(begins) for one in os.scandir(model.parent)):
                for pid in (*found, job.pid):
                    os.kill(pid, signal.SIGKILL)
                job.wait()
        assert job.returncode == -signal.SIGKILL, "the job ended before it was caught"
        left = [*model.parent.glob(f"{begins}*")]
        cuts.append({"before": before, "after": epochs_in(checkpoint), "half-written files": len(left)})
        print("cut", cuts[-1], flush=True)
        assert cuts[-1]["after"] >= before
    assert started(folder, model).wait() == 0
    return cuts


def main(home: Path, steps: list[str]) -> None:
    """Run the steps, and add what came to the record."""
    folder, alone = home / "rows", home / "alone" / "m.npn"
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"trainings": []}
    record |= {"rows": ROWS, "processes": 2, **records.circumstances()}
    for number, step in enumerate(steps):
        if step == "make":
            big_folder.make(folder, ROWS)
            continue
        model = home / (step if step == "alone" else f"{step}-{time.time_ns()}") / "m.npn"
        model.parent.mkdir()
        found: dict[str, Any] = {"what": step}
        if step == "alone":
            assert started(folder, model).wait() == 0
        elif step == "killed":
            found["kills"] = kill_workers(folder, model, random.Random(time.time_ns()))
        else:
            found["cuts"] = cut_writes(folder, model)
        x = np.random.default_rng(0).normal(size=(1_000, big_folder.COLUMNS - 1))
        one, other = (npn.load(path) for path in (model, alone))
        found["figures"] = {figure.name: figure.model for figure in one.record.figures}
        apart = np.abs(one.estimator.predict(x) - other.estimator.predict(x)).max()
        found["largest difference of predictions"] = float(apart)
        record["trainings"].append(found)
        print(number, json.dumps(found), flush=True)
        records.write_json(RECORD, record)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
