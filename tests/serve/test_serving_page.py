"""The page on serving shows what its record says."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import serve

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"


def test_the_page_shows_the_record():
    record, page = json.loads(serve.RECORD.read_text(encoding="utf-8")), PAGE.read_text(encoding="utf-8")
    assert serve.with_table(page, record) == page
    assert record["soak"]["wrong"] == 0
