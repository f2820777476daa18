"""The whole bench: what is measured, by default and in a quick trial, and its record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from npn_studies.bench.clock import Limits
from npn_studies.bench.contest import ENTRIES, PLAIN, contest
from npn_studies.bench.record import circumstances
from npn_studies.bench.scaling import Sweep, scaling
from npn_studies.bench.shapes import NAMED, drawn, shapes
from npn_studies.bench.task import Size, make_task
from torchnpn import kernels

Progress = Callable[[float], None]  # takes the share of the work that is done
_MNIST = 784, 800, 800, 10


class Plan(NamedTuple):
    """What to measure."""

    sizes: dict[str, Size]  # tables of training and prediction
    predictions: dict[str, Size]  # tables of predictions alone
    sweep: Sweep
    shapes: dict[str, Size]  # of which each is measured beside a plain network only
    limits: Limits
    compiles: bool  # whether to wait for a compiler on a CPU, tens of seconds for each contestant


FULL = Plan(
    {
        "mnist": Size(_MNIST, 128),
        "wide": Size((4096, 4096, 4096, 10), 8192),
        "autoencoder": Size((20_000, 100, 50, 100, 20_000), 128, "tanh", 70),
    },
    {"latency": Size(_MNIST, 1), "throughput": Size(_MNIST, 8192)},
    Sweep(
        784,
        10,
        {"width": 800, "depth": 2, "batch": 128},
        {"width": (64, 256, 1024, 4096), "depth": (1, 2, 4, 8), "batch": (1, 16, 128, 1024, 8192)},
    ),
    NAMED | drawn(),
    Limits(40, 15.0),
    compiles=True,
)
QUICK = Plan(
    {
        "mnist": Size((16, 32, 32, 10), 16),
        "wide": Size((64, 64, 64, 10), 32),
        "autoencoder": Size((200, 10, 5, 10, 200), 16, "tanh", 7),
    },
    {"latency": Size((16, 32, 32, 10), 1), "throughput": Size((16, 32, 32, 10), 256)},
    Sweep(
        16,
        10,
        {"width": 16, "depth": 1, "batch": 16},
        {"width": (16, 64), "depth": (1, 2), "batch": (1, 16)},
    ),
    {"classes": Size((16, 32, 10), 16), "noise": Size((5, 8, 8, 2), 4, targets="noise")},
    Limits(5, 0.3),
    compiles=False,
)
PARTS = *FULL.sizes, *FULL.predictions, "scaling", "shapes"
_GPU_ONLY = {"wide": "minutes on a CPU: measured there only by --only wide"}
_ASKED_ONLY = {"shapes": "a quarter of an hour: measured only by --only shapes"}


def run(
    device: torch.device,
    plan: Plan = FULL,
    only: Sequence[str] = (),
    progress: Callable[[str], Progress] = lambda part: lambda share: None,
    save: Callable[[dict[str, Any]], None] = lambda record: None,
) -> dict[str, Any]:
    """Measure, and make a record of it.

    Args:
        device: Where to.
        plan: What to.
        only: Names of parts or of contestants; none for all. The plain networks always run: they are the unit.
        progress: Called with the name of a part, then with shares of its work.
        save: Called with the record after each part: minutes of work are not lost with the last.
    """
    parts, names = choose(only)
    left_out = {} if any(name in PARTS for name in only) else _ASKED_ONLY | ({} if device.type == "cuda" else _GPU_ONLY)
    if device.type == "cpu" and not plan.compiles:
        names = [name for name in names if not name.endswith("-compiled")]
    start = time.perf_counter()
    record: dict[str, Any] = {
        **circumstances(device.type),
        "configuration": {
            "device": device.type,
            "threads": torch.get_num_threads(),
            "precision": "tf32, variances bfloat16" if device.type == "cuda" else "float32",
            "optimizer": "fused Adam",
            "rounds": plan.limits.rounds,
            "quick": plan is QUICK,
        },
        "tables": {},
        "left_out": left_out,
    }
    with fast_products(device):
        for part in [part for part in parts if part not in left_out]:
            told = progress(part)
            if part == "scaling":
                record["scaling"] = scaling(plan.sweep, device, plan.limits, told)
            elif part == "shapes":
                record["shapes"] = shapes(plan.shapes, device, plan.limits, told)
            else:
                size = (plan.sizes | plan.predictions)[part]
                rows = contest(make_task(size, device), names, plan.limits, told, training=part in plan.sizes)
                record["tables"][part] = {"size": str(size), "rows": rows}
            record["duration_s"] = round(time.perf_counter() - start)
            save(record)
    return record


def choose(only: Sequence[str]) -> tuple[list[str], list[str]]:
    """The parts and the contestants that are meant.

    Raises:
        ValueError: A name is neither.
    """
    if unknown := [name for name in only if name not in (*PARTS, *ENTRIES)]:
        raise ValueError(
            f"--only expects names of parts ({', '.join(PARTS)}) or contestants ({', '.join(ENTRIES)}), "
            f"got {', '.join(unknown)}."
        )
    parts = [part for part in PARTS if part in only] or list(PARTS)
    names = [name for name in ENTRIES if name in only]
    return parts, [name for name in ENTRIES if name in names or name in PLAIN or not names]


@contextmanager
def fast_products(device: torch.device) -> Iterator[None]:
    """Products in tf32 on a GPU, for all contestants; as it was afterwards."""
    if device.type != "cuda":
        yield
        return
    with kernels.tf32(True):
        yield
