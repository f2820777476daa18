"""Networks of all shapes, those that somebody tuned for and those that nobody did: ours beside a plain one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from npn_studies.bench.clock import Limits
from npn_studies.bench.contest import PLAIN, contest
from npn_studies.bench.task import Size, make_task

NAMED = {
    "mnist": Size((784, 800, 800, 10), 128),
    "mnist, 1,024 rows": Size((784, 800, 800, 10), 1024),
    "deep regression": Size((256, 512, 512, 512, 1), 256, targets="numbers"),
    "odd": Size((301, 1111, 777, 37), 192),
    "wide": Size((2048, 2048, 2048, 100), 4096),
    "wider": Size((4096, 4096, 4096, 10), 8192),
    "tabular": Size((9, 256, 256, 1), 128, targets="noise"),
}
CONTESTANTS = {
    "cuda": ("plain-graph", "plain-replayed", "npn-tied", "npn-fused"),
    "cpu": ("plain", "npn-tied", "npn-fused"),
}
SEED, COUNT = 25, 60
_WIDTHS, _BATCHES, _LAYERS, _CLASSES, _TARGETS = (30, 4096), (1, 8192), (1, 8), (2, 1000), (1, 8)
_MOST_WEIGHTS = 40_000_000  # a draw with more is drawn again


def drawn(count: int = COUNT, seed: int = SEED) -> dict[str, Size]:
    """Shapes at random: rows, widths and classes evenly on a logarithmic scale, one to eight layers of weights.

    Half of them keep one width throughout; a third are regressions with a noise of each row's own.
    """
    rng = np.random.default_rng(seed)
    found: dict[str, Size] = {}
    while len(found) < count:
        layers, batch = int(rng.integers(*_LAYERS, endpoint=True)), _between(rng, *_BATCHES)
        widths = [_between(rng, *_WIDTHS) for _ in range(layers)]
        hidden = widths[:1] * (layers - 1) if rng.random() < 0.5 else widths[1:]
        noisy = rng.random() < 1 / 3 and layers > 1
        outputs = _between(rng, *(_TARGETS if noisy else _CLASSES))
        sizes = (widths[0], *hidden, outputs)
        if sum(a * b for a, b in itertools.pairwise(sizes)) <= _MOST_WEIGHTS:
            found[f"drawn {len(found) + 1}"] = Size(sizes, batch, targets="noise" if noisy else "classes")
    return found


def _between(rng: np.random.Generator, low: int, high: int) -> int:
    return int(np.exp(rng.uniform(np.log(low), np.log(high + 1))))


def shapes(
    sizes: Mapping[str, Size],
    device: torch.device,
    limits: Limits,
    progress: Callable[[float], None] = lambda share: None,
) -> list[dict[str, Any]]:
    """Of each shape: microseconds of a step and of a prediction of each contestant."""
    found, names = [], CONTESTANTS[device.type]
    for name, size in sizes.items():
        found.append({"name": name, "size": str(size), "rows": contest(make_task(size, device), names, limits)})
        progress(len(found) / len(sizes))
    return found


def ratios(found: Sequence[dict[str, Any]], contestant: str, key: str = "step_us") -> dict[str, float]:
    """By the name of a shape, a contestant's time over that of the plain network at its best."""
    pairs: dict[str, float] = {}
    for shape in found:
        times = {row["contestant"]: row[key] for row in shape["rows"] if key in row}
        plain = min((times[name] for name in PLAIN if name in times), default=None)
        if plain is not None and contestant in times:
            pairs[shape["name"]] = times[contestant] / plain
    return pairs
