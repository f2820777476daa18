"""Training steps and predictions of many shapes of network on a GPU, the most important first, in a few minutes.

    python benchmarks/gpu_rows.py --prepare 3 --of 16    let compilers work for every 16th row from the third on
    python benchmarks/gpu_rows.py -o rows.json           measure all rows; the record is written after each
    python benchmarks/gpu_rows.py --render               render the record that is there

Compilers take longer than all measurements. So prepare with as many processes at once as there are cores: what they
compile lies in the caches of Triton and torch, and the process that measures finds it there.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from npn_studies import bench
from npn_studies.bench.clock import Limits
from npn_studies.bench.contest import contest
from npn_studies.bench.plan import FULL, fast_products
from npn_studies.bench.shapes import NAMED, drawn
from npn_studies.bench.task import Size, make_task

from benchmarks import records, summaries

RECORD = records.RESULTS / "rows_cuda.json"
PAGE = records.DOCS / "speed.md"
_OURS = {"tied": ("npn-tied", "npn-tied-replicas"), "one by one": ("npn-fused", "npn-graph", "npn-replicas")}
_PLAIN = "plain-replayed", "plain-graph"
_LIMITS = Limits(9, 1.5)


class Row(NamedTuple):
    """What is measured of one shape."""

    size: Size
    contestants: tuple[str, ...]
    training: bool = True


def rows(quick: bool = False) -> dict[str, Row]:
    """By name, in the order of their importance; the last are drawn at random, beside a plain network as written."""
    if quick:
        return {"quick": Row(Size((16, 32, 10), 16), ("plain", "npn", "npn-tied"))}
    both = *_PLAIN, "npn-tied", "npn-fused"
    found = {name: Row(size, both) for name, size in NAMED.items()}
    first = found.pop("mnist")
    return {
        "mnist": first,
        **{name: Row(size, both, training=False) for name, size in FULL.predictions.items()},
        **found,
        "20 replicas": Row(first.size, ("plain-replayed", "npn-tied-replicas", "npn-replicas")),
        "autoencoder": Row(FULL.sizes["autoencoder"], (*_PLAIN, "npn-tied", "npn-graph")),
        **{name: Row(size, ("plain-replayed", "npn-tied")) for name, size in drawn().items()},
    }


def prepare(wanted: dict[str, Row], number: int, of: int, device: torch.device) -> None:
    """Run every `of`-th row once, from `number` on, for the sake of what is compiled."""
    for name in [*wanted][number::of]:
        row = wanted[name]
        contest(make_task(row.size, device), row.contestants, Limits(1, 0.0), training=row.training)


def measure(wanted: dict[str, Row], path: Path, device: torch.device) -> None:
    """Measure one row after the other."""
    start = time.perf_counter()
    record: dict[str, Any] = {
        **bench.circumstances(device.type),
        "configuration": {"device": device.type, "optimizer": "fused Adam", "rounds": _LIMITS.rounds},
        "shapes": [],
    }
    for name, row in wanted.items():
        found = contest(make_task(row.size, device), row.contestants, _LIMITS, training=row.training)
        record["shapes"].append({"name": name, "size": str(row.size), "rows": found})
        record["duration_s"] = round(time.perf_counter() - start, 1)
        bench.write_json(path, record)
        times = ", ".join(
            f"{one['contestant']} {one.get('step_us', one.get('predict_us', one.get('why')))}" for one in found
        )
        print(f"{record['duration_s']:6.1f} s  {name}: {times}", flush=True)


def with_tables(page: str, record: dict[str, Any]) -> str:
    """docs/speed.md: a plain network's time at its best, and how many times that ours take."""
    head = ["", "network", *(f"{what}{of}" for what in ("step: ", "predict: ") for of in ("plain, µs", *_OURS))]
    cells = [
        [row["name"], row["size"], *_cells(row, "step_us"), *_cells(row, "predict_us")] for row in record["shapes"]
    ]
    table = summaries.table(head, cells, words=2)
    drawn_ones = [row for row in record["shapes"] if row["name"].startswith("drawn")]
    found = [ratio for row in drawn_ones if (ratio := _ratio(row, "step_us", _OURS["tied"])) is not None]
    words = (
        f"{record['device']}, tf32, variances bfloat16, torch {record['versions']['torch']}, {record['date']}. "
        f"Of {len(found)} networks drawn at random, tied, a step takes {statistics.median(found):.2f} times that of a "
        f"plain one in the median, {max(found):.2f} at worst; there the plain one is replayed from a graph, "
        "not compiled."
    )
    return summaries.with_table(page, "gpu_rows.py", f"{words}\n\n{table}")


def _cells(row: dict[str, Any], key: str) -> list[str]:
    plain = _least(row, key, _PLAIN)
    ratios = [_ratio(row, key, names) for names in _OURS.values()]
    return ["–" if plain is None else f"{plain:.0f}", *("–" if one is None else f"{one:.2f}" for one in ratios)]


def _ratio(row: dict[str, Any], key: str, names: Sequence[str]) -> float | None:
    ours, plain = _least(row, key, names), _least(row, key, _PLAIN)
    return None if ours is None or plain is None else ours / plain


def _least(row: dict[str, Any], key: str, names: Sequence[str]) -> float | None:
    return min((one[key] for one in row["rows"] if one["contestant"] in names and key in one), default=None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepare", type=int, metavar="K", help="compile for every row K, K + N, ...")
    parser.add_argument("--of", type=int, default=1, metavar="N")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="a tiny network, to see that it runs")
    parser.add_argument("--render", action="store_true")
    parser.add_argument("-o", "--out", type=Path, default=RECORD)
    arguments = parser.parse_args()
    if arguments.render:
        records.render(PAGE, RECORD, with_tables)
        return
    device, wanted = torch.device(arguments.device), rows(arguments.quick)
    with fast_products(device):
        if arguments.prepare is not None:
            prepare(wanted, arguments.prepare, arguments.of, device)
        else:
            measure(wanted, arguments.out, device)


if __name__ == "__main__":
    main()
