"""Figures over splits as means with standard errors, and tables of them inside pages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

END = "<!-- end of rendered part -->"


class Summary(NamedTuple):
    """Mean of figures, one for each split, and its standard error s/√n."""

    mean: float
    error: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> Summary:
        return cls(float(np.mean(figures)), float(np.std(figures, ddof=1) / math.sqrt(len(figures))))

    def __str__(self) -> str:
        """Both with as many decimals as the error has two digits in."""
        digits = 3 if self.error == 0 else max(0, 1 - math.floor(math.log10(self.error)))
        return f"{self.mean:.{digits}f} ± {self.error:.{digits}f}"


def six_digits(figure: float) -> float:
    """Enough for any table; the rest would only be bytes in a record."""
    return float(f"{figure:.6g}")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 2) -> str:
    """A markdown table; columns after the first `words` are numbers."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * words + "---:|" * (len(head) - words)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def with_table(page: str, script: str, table: str) -> str:
    """The page with what stands between the comment of `script` and the next end comment replaced by the table."""
    start = f"by benchmarks/{script}: do not edit -->\n"
    before, found, rest = page.partition(start)
    if not found or END not in rest:
        raise ValueError(f"The page expects a comment that ends in {start!r}, and after it {END!r}. Write both first.")
    return f"{before}{start}\n{table}\n\n{END}{rest.partition(END)[2]}"
