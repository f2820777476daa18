"""What every record in results/ carries, and how one is written."""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import scipy
import torch

RESULTS = Path(__file__).resolve().parent.parent / "results"


def circumstances(device: str = "cpu") -> dict[str, Any]:
    """Versions, device and date of a run."""
    return {
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": numpy.__version__,
            "scipy": scipy.__version__,
        },
        "device": torch.cuda.get_device_name() if device == "cuda" else f"CPU, {platform.machine()}",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def render(page: Path, record: Path, with_table: Callable[[str, dict[str, Any]], str]) -> None:
    """Write the table of a record into a page."""
    found = json.loads(record.read_text(encoding="utf-8"))
    write(page, with_table(page.read_text(encoding="utf-8"), found))


def write_json(path: Path, record: dict[str, Any]) -> None:
    """Write a record; NaN and infinity, which are not JSON, are refused."""
    write(path, json.dumps(record, indent=1, allow_nan=False) + "\n")


def write(path: Path, text: str) -> None:
    """Write beside and rename, so that nothing is ever half-written."""
    path.parent.mkdir(exist_ok=True)
    beside = path.with_name(path.name + ".part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
