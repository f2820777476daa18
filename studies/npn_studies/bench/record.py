"""What every record of a measurement carries, and how one is written."""

from __future__ import annotations

import datetime
import json
import platform
from pathlib import Path
from typing import Any

import numpy
import scipy
import torch

from torchnpn._files import whole_file


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


def write_json(path: Path, record: dict[str, Any]) -> None:
    """Write a record; NaN and infinity, which are not JSON, are refused."""
    write(path, json.dumps(record, indent=1, allow_nan=False) + "\n")


def write(path: Path, content: str | bytes) -> None:
    """Write a whole file, or nothing."""
    path.parent.mkdir(exist_ok=True)
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
