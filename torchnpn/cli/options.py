"""What was asked for, from the modules that read arguments to those that do the work."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

STDOUT = Path("-")


class FitOptions(NamedTuple):
    """What `npn fit` was asked for."""

    data: Path
    target: str
    out: Path
    family: str
    drop: list[str]
    use: list[str]
    decimal: str | None
    missing: list[str]
    hidden: tuple[int, ...] | None
    epochs: int | None
    members: int
    validation: float
    max_rows: int
    seed: int
    device: str
    report: bool


class PredictOptions(NamedTuple):
    """What `npn predict` should write, and where."""

    path: Path
    level: float
    keep: list[str]
    bare: bool
    top: int | None
    raw: bool
