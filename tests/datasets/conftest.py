"""Every test of data sets has an empty cache, and may have a server of a table of five rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.served import empty_cache, tiny_server


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    return empty_cache(tmp_path, monkeypatch)


@pytest.fixture
def server(monkeypatch):
    with tiny_server(monkeypatch) as server:
        yield server
