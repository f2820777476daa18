"""What a verdict on a claim of the paper is, and how it reads the records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from npn_studies.experiments.experiment import Record
from npn_studies.experiments.tables import Summary

Records = Mapping[str, Record]
HOLDS, BETTER, TUNED, NOT, OPEN = (
    "holds",
    "holds better here",
    "does not hold once baselines are tuned",
    "does not hold",
    "not run",
)


class Verdict(NamedTuple):
    """What became of a claim, and the figures that say so."""

    word: str
    evidence: str


class Claim(NamedTuple):
    """A sentence of the paper.

    Attributes:
        place: Where it stands.
        text: What it says.
        needs: Records without which it is open.
        judge: From the records to the verdict.
        brief: Whether it belongs to the summary.
    """

    place: str
    text: str
    needs: tuple[str, ...]
    judge: Callable[[Records], Verdict]
    brief: bool = False

    def verdict(self, found: Records) -> Verdict:
        """The verdict, or that there is no record yet."""
        missing = [name for name in self.needs if name not in found]
        return Verdict(OPEN, f"no record of {', '.join(missing)}") if missing else self.judge(found)


def cell(found: Records, name: str, key: str) -> dict[str, Any]:
    """Figures of a cell."""
    figures: dict[str, Any] = found[name]["cells"][key]["figures"]
    return figures


def mean(values: Any) -> float:
    """Over seeds."""
    return Summary.of(values).mean


def judged(holds: bool, evidence: str, otherwise: str = NOT, word: str = HOLDS) -> Verdict:
    return Verdict(word if holds else otherwise, evidence)
