"""Tables of figures over seeds, as markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np


class Summary(NamedTuple):
    """Mean of figures, one for each seed or split, and its standard error s/√n."""

    mean: float
    error: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> Summary:
        """Of two figures or more; a single one has an error of nothing."""
        spread = float(np.std(figures, ddof=1)) if len(figures) > 1 else 0.0
        return cls(float(np.mean(figures)), spread / math.sqrt(len(figures)))

    def __str__(self) -> str:
        """Both with as many decimals as the error has two digits in; the mean alone where there is no error."""
        if self.error == 0:
            return f"{self.mean:.4g}"
        digits = max(0, 1 - math.floor(math.log10(self.error)))
        return f"{self.mean:.{digits}f} ± {self.error:.{digits}f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """A markdown table; columns after the first `words` are numbers."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * words + "---:|" * (len(head) - words)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def rounded(value: float) -> float:
    """Six digits: enough for any table or figure; the rest would only be bytes in a record."""
    return float(f"{value:.6g}")
