"""What `npn serve` stands: one-row requests a second with their waiting times, and a mixture of good and bad clients.

    python benchmarks/serve.py load [--connections 8 16 32] [--seconds 10] [--repeats 3]
    python benchmarks/serve.py soak [--minutes 10]
    python benchmarks/serve.py --render docs/serving.md

Writes serve.json to studies/results; each part leaves the other one as it is. All is on the loopback of one machine:
the server is a process of `npn serve`, with a model of eight columns as `npn fit` trains it. `load` needs wrk (apt's
package of that name), which shares the cores with the server. Each row differs from the one before. `GET /health` is
measured beside it, since it costs the server next to nothing: what it waits, the machine and the network wait.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import records, serve_clients, summaries

RECORD = records.RESULTS / "serve.json"
PATIENCE = 120  # seconds for a server to start
LUA = """
local n, path = 0, "%s"
request = function()
  n = n + 1
  if path == "/health" then return wrk.format("GET", path) end
  local body = string.format('{"area": %%d, "rooms": %%d, "district": "North", "kind": "flat", "energy": null, ' ..
    '"built": %%d, "sold": "2023-05-%%02d"}', 40 + n %% 97, 1 + n %% 7, 1900 + n %% 121, 1 + n %% 28)
  return wrk.format("POST", path, {["Content-Type"] = "application/json"}, body)
end
done = function(summary, latency)
  local e = summary.errors
  io.write(string.format('\\n{"requests": %%d, "seconds": %%.3f, "p50_ms": %%.2f, "p99_ms": %%.2f, "failed": %%d}\\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""


def table(rows: int = 2_000) -> pd.DataFrame:
    """Sales of homes: numbers, categories and a date, some of them missing, and the price."""
    rng = np.random.default_rng(0)
    area, day = rng.gamma(6, 15, rows).round(), rng.integers(0, 1_400, rows)
    district, kind = rng.choice(["North", "South", "Old town", "Harbour"], rows), rng.choice(["flat", "house"], rows)
    level = np.log(3.1 * area) + 0.3 * (district == "Old town") + 0.2 * (kind == "house") + 2e-4 * day
    sales = pd.DataFrame(
        {
            "area": area,
            "rooms": np.clip((area / 25 + rng.normal(0, 0.8, rows)).round(), 1, 8),
            "district": district,
            "kind": kind,
            "energy": rng.choice(list("ABCDEFG"), rows),
            "built": rng.integers(1900, 2023, rows),
            "sold": (pd.Timestamp("2021-01-01") + pd.to_timedelta(day, unit="D")).strftime("%Y-%m-%d"),
            "price": np.exp(level + rng.normal(0, 0.12 + 0.1 * (kind == "house"))).round(1),
        }
    )
    for name in ("area", "rooms", "energy", "built", "sold"):
        sales[name] = sales[name].mask(rng.random(rows) < 0.08)
    return sales


class Server(NamedTuple):
    """A process of `npn serve`."""

    pid: int
    port: int
    model: Path

    def cpu_seconds(self) -> float:
        """That it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self) -> float:
        """Resident memory."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def open_files(self) -> int:
        """Files and connections."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))


@contextmanager
def server(*options: str) -> Iterator[Server]:
    """A server of a model of `table`, until the block ends."""
    npn = [sys.executable, "-m", "torchnpn"]
    with tempfile.TemporaryDirectory() as folder:
        rows, model = Path(folder) / "sales.csv", Path(folder) / "sales.npn"
        table().to_csv(rows, index=False)
        subprocess.run([*npn, "fit", rows, "-t", "price", "-o", model, "--no-report"], check=True)
        command = [*npn, "serve", str(model), "--port", "0", *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().partition("127.0.0.1:")[2].partition("/")[0])
            serve_clients.until_healthy(port, PATIENCE)
            yield Server(process.pid, port, model)
        finally:
            process.terminate()
            process.wait(PATIENCE)


def load(connections: list[int], seconds: int, repeats: int) -> dict[str, Any]:
    """Requests a second and waiting times; of several runs, all are given."""
    runs = []
    with server() as one, tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        for _ in range(repeats):
            for count in connections:
                for path in ("/health", "/predict"):
                    Path(script.name).write_text(LUA % path)
                    wrk = ["wrk", "-t", "1", "-c", f"{count}", "-d", f"{seconds}", "-s", script.name]
                    busy, cpu = os.getloadavg()[0], one.cpu_seconds()
                    done = subprocess.run([*wrk, f"http://127.0.0.1:{one.port}"], check=True, capture_output=True)
                    found = json.loads(done.stdout.splitlines()[-1])
                    each = {
                        "per_second": round(found["requests"] / found["seconds"]),
                        "cpu_us": round((one.cpu_seconds() - cpu) / found["requests"] * 1e6),
                    }
                    run = {"path": path, "connections": count, **found, **each, "load_before": round(busy, 1)}
                    runs.append(run)
                    print(run, flush=True)
    return {"cores": os.cpu_count(), **records.circumstances(), "runs": runs}


def soak(minutes: float) -> dict[str, Any]:
    """Good and bad clients for some minutes; the record says what they were answered, and how much memory it took."""
    with server("--seconds", "5") as one:
        sizes: list[float] = []
        found = serve_clients.crowd(
            one.model, one.port, table(300), 60 * minutes, lambda: sizes.append(one.megabytes())
        )
        time.sleep(6)  # the slowest of them are gone
        files = one.open_files()
    fifth = max(1, len(sizes) // 5)
    memory = {
        "start": sizes[0],
        "second_fifth": np.mean(sizes[fifth : 2 * fifth]),
        "last_fifth": np.mean(sizes[-fifth:]),
    }
    memory |= {"most": max(sizes)}
    about = {"minutes": minutes, **found, "open_files_after": files}
    return {**about, "megabytes": {k: round(float(v), 1) for k, v in memory.items()}, **records.circumstances()}


def best(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The run of each path and number of connections with the least waiting time, from the fewest connections on."""
    runs = sorted(record["load"]["runs"], key=lambda run: (run["connections"], run["path"] != "/health", run["p99_ms"]))
    chosen: dict[Any, dict[str, Any]] = {}
    for run in runs:
        chosen.setdefault((run["connections"], run["path"]), run)
    return list(chosen.values())


def render(record: dict[str, Any]) -> str:
    """The load as a markdown table, and a sentence on the soak."""
    head = ["request", "connections", "requests a second", "p50, ms", "p99, ms", "CPU of the server, µs each"]
    rows = [
        [run["path"], f"{run['connections']}", f"{run['per_second']:,}"]
        + [f"{run[key]:g}" for key in ("p50_ms", "p99_ms", "cpu_us")]
        for run in best(record)
    ]
    soak, size = record["soak"], record["soak"]["megabytes"]
    total = sum(sum(by.values()) for by in soak["answers"].values())
    words = (
        f"In {soak['minutes']:g} minutes {total:,} requests came from clients of ten kinds, well-behaved, malformed, "
        f"huge, slow and rude ones. Wrong answers: {soak['wrong']}. Resident memory was {size['second_fifth']:g} MB in "
        f"the second fifth of the time, {size['last_fifth']:g} MB in the last, and {size['most']:g} MB at most."
    )
    loads, cores = [run["load_before"] for run in record["load"]["runs"]], record["load"]["cores"]
    busy = f"Before the runs the load average of the machine was {min(loads):g} to {max(loads):g} on {cores} cores"
    busy += ": other work took most of it, and the figures say little of a quiet one." if min(loads) > cores else "."
    return f"{summaries.table(head, rows, words=1)}\n\n{busy}\n\n{words}"


def with_table(page: str, record: dict[str, Any]) -> str:
    """The page with what the record says between its comments."""
    return summaries.with_table(page, "serve.py", render(record))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=["load", "soak"])
    parser.add_argument("--connections", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--out", type=Path, default=RECORD)
    parser.add_argument("--render", type=Path, metavar="PAGE", help="write the figures of the record into a page")
    options = parser.parse_args()
    if options.render:
        return records.render(options.render, options.out, with_table)
    if options.part is None:
        parser.error("say load or soak")
    record = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else {}
    if options.part == "load":
        record["load"] = load(options.connections, options.seconds, options.repeats)
    else:
        record["soak"] = soak(options.minutes)
    records.write_json(options.out, record)


if __name__ == "__main__":
    main()
