"""Where records lie, and how a page shows one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from npn_studies.bench import circumstances, write, write_json

__all__ = ["DOCS", "RESULTS", "circumstances", "render", "write", "write_json"]

ROOT = Path(__file__).resolve().parent.parent
RESULTS, DOCS = ROOT / "studies" / "results", ROOT / "docs"


def render(page: Path, record: Path, with_table: Callable[[str, dict[str, Any]], str]) -> None:
    """Write the table of a record into a page."""
    found = json.loads(record.read_text(encoding="utf-8"))
    write(page, with_table(page.read_text(encoding="utf-8"), found))
