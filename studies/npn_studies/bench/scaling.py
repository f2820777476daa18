"""How time grows with width, depth and batch: one plain network and one of ours, along three axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from npn_studies.bench.clock import Limits
from npn_studies.bench.contest import contest
from npn_studies.bench.task import Size, make_task

FASTEST = {"cuda": ("plain-graph", "npn-fused"), "cpu": ("plain", "npn")}  # plain and ours, by the kind of device
AXES = {"width": "units in a hidden layer", "depth": "hidden layers", "batch": "rows in a batch"}


class Sweep(NamedTuple):
    """Points on each axis; the two other numbers are those of `base`."""

    inputs: int
    outputs: int
    base: dict[str, int]
    points: dict[str, tuple[int, ...]]

    def size(self, axis: str, point: int) -> Size:
        at = {**self.base, axis: point}
        return Size((self.inputs, *[at["width"]] * at["depth"], self.outputs), at["batch"])


def scaling(
    sweep: Sweep, device: torch.device, limits: Limits, progress: Callable[[float], None] = lambda share: None
) -> dict[str, list[dict[str, Any]]]:
    """For each axis, for each point: microseconds of a step and of a prediction, or why there are none."""
    names = FASTEST[device.type]
    found: dict[str, list[dict[str, Any]]] = {axis: [] for axis in sweep.points}
    places = [(axis, point) for axis, points in sweep.points.items() for point in points]
    for i, (axis, point) in enumerate(places):
        rows = contest(make_task(sweep.size(axis, point), device), names, limits)
        found[axis].append({"at": point, **dict(zip(("plain", "npn"), map(_times, rows), strict=True))})
        progress((i + 1) / len(places))
    return found


def _times(row: dict[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in ("step_us", "predict_us", "why") if key in row}
