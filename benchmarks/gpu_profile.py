"""Where the time of a fused training step goes on a GPU, kernel by kernel, beside the floor by bytes and operations.

python benchmarks/gpu_profile.py            measure on a CUDA device, then render
python benchmarks/gpu_profile.py --render   render the record that is there
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torchnpn as npn
from benchmarks import records, summaries
from torchnpn.training.engine import device_engine

RECORD = records.RESULTS / "gpu_profile.json"
PAGE = records.DOCS / "speed.md"
MOST_KERNELS = 8
COPY, TF32, BF16 = 4.3e12, 0.4e15, 0.79e15  # bytes and operations a second of an H200: copies, products


class Case(NamedTuple):
    name: str
    sizes: tuple[int, ...]
    batch: int
    replicas: int


CASES = (
    Case("mnist", (784, 800, 800, 10), 128, 1),
    Case("20 replicas", (784, 800, 800, 10), 128, 20),
    Case("wide", (4096, 4096, 4096, 10), 8192, 1),
)


def floor(sizes: Sequence[int], batch: int, replicas: int) -> dict[str, float]:
    """Microseconds that no step can do without, by bytes and by operations.

    Bytes: means, log standard deviations and Adam's four averages are read and written once, 48 bytes a weight.
    Operations: a layer's product of means forward and for the weights, and, but in the first layer, for the inputs; as
    often products of variances, two where the input is random.
    """
    weights = [a * b for a, b in itertools.pairwise(sizes)]
    passes = [2] + [3] * (len(weights) - 1)
    mean = sum(2 * batch * n * p for n, p in zip(weights, passes, strict=True))
    variance = sum(
        2 * batch * n * p * (1 if i == 0 else 2) for i, (n, p) in enumerate(zip(weights, passes, strict=True))
    )
    return {
        "bytes_us": replicas * 48 * sum(weights) / COPY * 1e6,
        "operations_us": replicas * (mean / TF32 + variance / BF16) * 1e6,
    }


def measure(case: Case, device: torch.device, steps: int = 20) -> dict[str, Any]:
    model = npn.nn.mlp(case.sizes, replicas=(case.replicas,) if case.replicas > 1 else ()).to(device)
    rows = 8 * case.batch
    x, y = torch.randn(rows, case.sizes[0], device=device), torch.randint(case.sizes[-1], (rows,), device=device)
    recipe = npn.training.Recipe(epochs=10_000, batch_size=case.batch)
    likelihood = npn.likelihoods.ScaledSoftmax(case.sizes[-1])
    training = device_engine(model, (x, y), likelihood, npn.priors.EmpiricalBayes(), recipe, fused=True)
    training.begin(0)
    for _ in range(training.plan.steps):
        training.run()
    training.begin(1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for i in range(steps):
            if i % training.plan.steps == 0:
                training.plan.following.zero_()
            training.run()
        torch.cuda.synchronize()
    kernels = sorted(profile.key_averages(), key=lambda event: -event.device_time_total)[:MOST_KERNELS]
    return {"kernels_us": {e.key[:60]: e.device_time_total / steps for e in kernels if e.device_time_total > steps / 2}}


def with_tables(page: str, record: dict[str, Any]) -> str:
    """docs/speed.md with the shares of a step."""
    parts = []
    for case in CASES:
        found, least = record["cases"][case.name], floor(*case[1:])
        by_bytes, by_operations = (f"{least[name]:.0f}" for name in ("bytes_us", "operations_us"))
        head = f"**{case.name}**: floor {by_bytes} µs by bytes, {by_operations} by operations."
        rows = [[name, f"{time:.0f}"] for name, time in found["kernels_us"].items()]
        parts.append(f"{head}\n\n{summaries.table(['kernels', 'µs'], rows, words=1)}")
    if "tried" in record:
        rows = [[about["what"], f"{about['before_us']:.0f}", f"{about['after_us']:.0f}"] for about in record["tried"]]
        parts.append(summaries.table(["tried", "before, µs", "after, µs"], rows, words=1))
    return summaries.with_table(page, "gpu_profile.py", "\n\n".join(parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--render", action="store_true")
    parser.add_argument("-o", type=Path, default=RECORD)
    arguments = parser.parse_args()
    if not arguments.render:
        device = npn.training.resolve_device("cuda")
        cases = {case.name: measure(case, device) for case in CASES}
        records.write_json(arguments.o, {**records.circumstances("cuda"), "cases": cases})
    if arguments.o == RECORD:
        records.render(PAGE, RECORD, with_tables)


if __name__ == "__main__":
    main()
