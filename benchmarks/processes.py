"""Two processes beside one: what a step of training costs each of them, for networks and batches of several sizes.

`python benchmarks/processes.py` takes some minutes of two cores, writes studies/results/processes.json, and
`python benchmarks/cluster_page.py` shows it. Rows lie in memory. The time on the clock is of two processes that have a
core each only on a machine without other work; the CPU seconds of a process, those of gloo's threads included, say how
fast it would be there, less what it waits for the other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

COLUMNS = 19
SIZES = (((100,), 1_024), ((100,), 8_192), ((200, 200), 1_024), ((200, 200), 4_096), ((800, 800), 1_024))
ROOT = Path(__file__).resolve().parent.parent
LAUNCH = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


def train(hidden: list[int], batch: int, steps: int) -> None:
    """What each process runs: it prints its seconds of a step, after some steps to warm up."""
    import torch

    import torchnpn as npn

    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(8 * batch, COLUMNS, generator=generator)
    y = x[:, :1] + torch.sin(2 * x[:, 1:2])
    network = npn.nn.mlp([COLUMNS, *hidden, 1], generator=generator)
    likelihood, prior = npn.likelihoods.GaussianNoise(), npn.priors.IsotropicGaussian(1.0)
    used = []
    for epochs in (1, 1 + steps // 8):  # the difference is of steps alone
        start = time.perf_counter(), time.process_time()
        npn.train(network, (x, y), likelihood, prior, npn.Recipe(epochs=epochs, batch_size=batch))
        used.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    clock, cpu = (1e6 * (long - short) / (steps // 8 * 8) for short, long in zip(*used, strict=True))
    print(json.dumps({"rank": int(os.environ.get("RANK", 0)), "clock": round(clock), "cpu": round(cpu)}), flush=True)


def measured(hidden: tuple[int, ...], batch: int) -> dict[str, Any]:
    """A step of one process, and of each of two, in µs: the least of two runs."""
    arguments = [
        __file__,
        ",".join(map(str, hidden)),
        str(batch),
        str(max(16, 800_000 // (batch * sum(hidden) // 100))),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    best: dict[str, dict[str, int]] = {}
    for _ in range(2):
        for name, launch in (("one", ()), ("two", LAUNCH)):
            command = [sys.executable, *launch, *arguments]
            said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
            ranks = [json.loads(line) for line in said.replace("}{", "}\n{").splitlines() if line.startswith("{")]
            found = {key: max(rank[key] for rank in ranks) for key in ("clock", "cpu")}
            before = best.get(name, found)
            best[name] = {key: min(found[key], before[key]) for key in found}
    return {"hidden": list(hidden), "batch": batch, **best}


def main() -> None:
    """All sizes, into the record."""
    sys.path.insert(0, str(ROOT))
    from benchmarks import records

    rows = []
    for hidden, batch in SIZES:
        rows.append(measured(hidden, batch))
        print(rows[-1], flush=True)
    about = {
        "columns": COLUMNS,
        "CPUs": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        **records.circumstances(),
    }
    records.write_json(records.RESULTS / "processes.json", {**about, "rows": rows})


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train([int(one) for one in sys.argv[1].split(",")], int(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
