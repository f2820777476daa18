"""The default `NPNRegressor` on the nine UCI sets, all published splits: nothing is tuned, one split is one fit.

    TORCHNPN_DATA=… python benchmarks/uci_defaults.py [--splits N] [--workers N] [--sets boston yacht …]

Writes results/uci_defaults.json and prints a table. The last columns are what the prototype's safest default reached
(half ELBO, linear ramp, 1,200 epochs), where it was measured.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torchnpn as npn
from benchmarks import records, summaries

RECORD = Path(__file__).parent.parent / "results" / "uci_defaults.json"
SETS = ("boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "wine", "yacht")
PROTOTYPE = {  # RMSE, log-likelihood
    "boston": (2.93, -2.44),
    "concrete": (4.93, -3.03),
    "energy": (0.453, -0.65),
    "yacht": (0.61, -0.78),
    "wine": (0.633, -0.957),
}


def fit(job: tuple[str, int]) -> dict[str, float | str | int]:
    """One split of one set."""
    name, split = job
    data = npn.datasets.load(name)
    train, test = data.splits[split]
    start = time.perf_counter()
    model = npn.NPNRegressor(random_state=split).fit(data.X[train], data.y[train])
    seconds = time.perf_counter() - start
    predicted = model.predict_dist(data.X[test])
    low, high = predicted.interval(0.9)
    y = data.y[test]
    return {
        "set": name,
        "split": split,
        "rmse": npn.metrics.rmse(predicted.mean, y),
        "log_likelihood": float(predicted.log_prob(y).mean()),
        "coverage": npn.metrics.interval_coverage(low, high, y),
        "epochs": model.n_iter_,
        "seconds": seconds,
    }


def summary(rows: list[dict]) -> dict[str, dict[str, float]]:
    """Means and standard errors for each set."""
    found = {}
    for name in dict.fromkeys(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == name]
        found[name] = {"splits": len(own)}
        for key in ("rmse", "log_likelihood", "coverage", "seconds"):
            values = np.array([row[key] for row in own])
            found[name] |= {key: values.mean(), f"{key}_error": values.std(ddof=1) / np.sqrt(len(own))}
        found[name] |= {
            "worst_rmse": max(row["rmse"] for row in own),
            "worst_log_likelihood": min(row["log_likelihood"] for row in own),
        }
    return found


def table(rows: list[dict]) -> str:
    """The summary in words and figures."""
    lines = [f"{'':10} {'RMSE':>18} {'worst':>8} {'log-likelihood':>18} {'worst':>8} {'90 %':>6} {'s':>6}  prototype"]
    for name, s in summary(rows).items():
        before = " / ".join(f"{x:g}" for x in PROTOTYPE.get(name, ()))
        lines.append(
            f"{name:10} {s['rmse']:>9.4g} ± {s['rmse_error']:<6.2g} {s['worst_rmse']:>8.4g} "
            f"{s['log_likelihood']:>9.3f} ± {s['log_likelihood_error']:<6.2g} {s['worst_log_likelihood']:>8.3f} "
            f"{s['coverage']:>6.1%} {s['seconds']:>6.1f}  {before}"
        )
    return "\n".join(lines)


def render(record: dict) -> str:
    """The summary as a markdown table."""
    head = ["set", "splits", "RMSE", "log-likelihood", "worst split", "90 % interval holds", "prototype"]
    rows = [
        [
            name,
            str(s["splits"]),
            str(summaries.Summary(s["rmse"], s["rmse_error"])),
            str(summaries.Summary(s["log_likelihood"], s["log_likelihood_error"])),
            f"{s['worst_log_likelihood']:.2f}",
            f"{100 * s['coverage']:.0f} %",
            " / ".join(f"{x:g}" for x in PROTOTYPE[name]) if name in PROTOTYPE else "–",
        ]
        for name, s in record["summary"].items()
    ]
    return summaries.table(head, rows, words=1)


def with_table(page: str, record: dict) -> str:
    """The page with the table of the record between its comments."""
    return summaries.with_table(page, "uci_defaults.py", render(record))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, help="only the first so many of each set")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--out", type=Path, default=RECORD)
    parser.add_argument("--render", type=Path, metavar="PAGE", help="write the table of the record into a page")
    options = parser.parse_args()
    if options.render:
        return records.render(options.render, options.out, with_table)
    start = time.perf_counter()
    jobs = [(name, i) for name in options.sets for i in range(len(npn.datasets.load(name).splits))[: options.splits]]
    jobs.sort(key=lambda job: -len(npn.datasets.load(job[0]).y))  # the longest first
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        rows = list(pool.map(fit, jobs))
    rows.sort(key=lambda row: (row["set"], row["split"]))
    print(table(rows))
    configuration = {"model": "NPNRegressor(random_state=split)", "workers": options.workers, "trials": 1}
    seconds = time.perf_counter() - start
    record = {
        "configuration": configuration,
        **records.circumstances(),
        "seconds": seconds,
        "summary": summary(rows),
        "rows": rows,
    }
    records.write_json(options.out, record)


if __name__ == "__main__":
    main()
