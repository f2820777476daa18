"""The records in studies/results/, as they are committed."""

from __future__ import annotations

from pathlib import Path

from npn_studies.experiments import EXPERIMENTS
from npn_studies.experiments import record as records

ROOT = Path(__file__).parent.parent


def recorded(name: str) -> dict:
    """That of an experiment, which must be whole and of full size."""
    record = records.read(EXPERIMENTS[name], ROOT / "results")
    assert record is not None and records.is_whole(record) and not record["quick"]
    return record
