"""Where the time of steps and predictions goes on a GPU, kernel by kernel, beside the floor by bytes and operations.

python benchmarks/gpu_profile.py            measure on a CUDA device, then render
python benchmarks/gpu_profile.py --render   render the record that is there
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from npn_studies.bench.contest import ENTRIES, REPLICAS
from npn_studies.bench.plan import FULL, fast_products
from npn_studies.bench.shapes import NAMED
from npn_studies.bench.task import Size, make_task

from benchmarks import records, summaries

RECORD = records.RESULTS / "gpu_profile.json"
PAGE = records.DOCS / "speed.md"
MOST_KERNELS = 10
COPY, TF32, BF16 = 4.3e12, 0.4e15, 0.79e15  # bytes and operations a second of an H200: copies, products
_FIRST_CALLS, _CALLS = 6, 20


class Case(NamedTuple):
    size: Size
    contestant: str
    predicts: bool = False


CASES = {
    "mnist": Case(NAMED["mnist"], "npn-fused"),
    "20 replicas": Case(NAMED["mnist"], "npn-replicas"),
    "wide": Case(NAMED["wider"], "npn-fused"),
    "mnist, tied": Case(NAMED["mnist"], "npn-tied"),
    "mnist, 1,024 rows, tied": Case(NAMED["mnist, 1,024 rows"], "npn-tied"),
    "odd, tied": Case(NAMED["odd"], "npn-tied"),
    "2048 wide, tied": Case(NAMED["wide"], "npn-tied"),
    "wide, tied": Case(NAMED["wider"], "npn-tied"),
    "20 replicas, tied": Case(NAMED["mnist"], "npn-tied-replicas"),
    "autoencoder, by torch's tape": Case(FULL.sizes["autoencoder"], "npn-graph"),
    "prediction, 8,192 rows, tied": Case(FULL.predictions["throughput"], "npn-tied", predicts=True),
    "prediction, one row, tied": Case(FULL.predictions["latency"], "npn-tied", predicts=True),
    "prediction, odd, tied": Case(NAMED["odd"], "npn-tied", predicts=True),
}


def floor(case: Case) -> dict[str, float]:
    """Microseconds that nothing of this size can do without, by bytes and by operations.

    Bytes of a step: means and Adam's two averages are read and written once, 24 bytes a weight; as many again for log
    standard deviations that are not tied. Bytes of a prediction: 4 for a mean, 2 for a square, 2 for a variance that is
    not tied. Operations: a layer's product of means forward and, in a step, for the weights and, but in the first
    layer, for the inputs; as often a product of variances, two where the input is random, one less where tied.
    """
    weights = [a * b for a, b in itertools.pairwise(case.size.sizes)]
    tied, count = "tied" in case.contestant, REPLICAS if "replicas" in case.contestant else 1
    passes = [1] * len(weights) if case.predicts else [2] + [3] * (len(weights) - 1)
    bytes_of_one = (6 if tied else 8) if case.predicts else (24 if tied else 48)
    work = [2 * case.size.batch * n * p for n, p in zip(weights, passes, strict=True)]
    variance = sum(one * ((i > 0) + (not tied)) for i, one in enumerate(work))
    return {
        "bytes_us": count * bytes_of_one * sum(weights) / COPY * 1e6,
        "operations_us": count * (sum(work) / TF32 + variance / BF16) * 1e6,
    }


def measure(case: Case, device: torch.device) -> dict[str, Any]:
    contestant = ENTRIES[case.contestant].build(make_task(case.size, device))
    call = contestant.prediction() if case.predicts else contestant.training()
    for _ in range(_FIRST_CALLS):
        call()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(_CALLS):
            call()
        torch.cuda.synchronize()
    kernels = sorted(profile.key_averages(), key=lambda event: -event.device_time_total)
    times = {e.key[:60]: round(e.device_time_total / _CALLS, 2) for e in kernels if e.device_time_total > 0}
    launches = sum(e.count for e in kernels if e.device_time_total > 0) / _CALLS
    return {"kernels_us": dict([*times.items()][:MOST_KERNELS]), "all_us": sum(times.values()), "launches": launches}


def with_tables(page: str, record: dict[str, Any]) -> str:
    """docs/speed.md with the shares of a step."""
    parts = []
    for name, found in record["cases"].items():
        least = floor(CASES[name])
        by_bytes, by_operations = (f"{least[key]:.0f}" for key in ("bytes_us", "operations_us"))
        head = f"**{name}**: floor {by_bytes} µs by bytes, {by_operations} by operations."
        if "launches" in found:
            head += f" {found['launches']:.0f} kernels take {found['all_us']:.0f} µs one after the other."
        rows = [[kernel, f"{time:.0f}"] for kernel, time in found["kernels_us"].items() if time >= 1]
        parts.append(f"{head}\n\n{summaries.table(['kernels', 'µs'], rows, words=1)}")
    if "tried" in record:
        rows = [[about["what"], f"{about['before_us']:.0f}", f"{about['after_us']:.0f}"] for about in record["tried"]]
        parts.append(summaries.table(["tried", "before, µs", "after, µs"], rows, words=1))
    return summaries.with_table(page, "gpu_profile.py", "\n\n".join(parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--only", default="", metavar="WORD", help="of the cases, those with this in their name")
    parser.add_argument("-o", type=Path, default=RECORD)
    arguments = parser.parse_args()
    if not arguments.render:
        device, cases = torch.device("cuda"), {}
        with fast_products(device):
            for name, case in [(name, case) for name, case in CASES.items() if arguments.only in name]:
                cases[name] = measure(case, device)
                print(f"{name}: {cases[name]}", flush=True)
                records.write_json(arguments.o, {**records.circumstances("cuda"), "cases": cases})
    if arguments.o == RECORD:
        records.render(PAGE, RECORD, with_tables)


if __name__ == "__main__":
    main()
