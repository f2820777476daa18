"""How far a network's output moments may be from those of sampling: what tests read and docs/networks.md quotes.

Networks of 8 inputs, hidden layers of 16 units and 3 outputs, all of one family, at their initial weights; four points
in [0, 1]⁸ as inputs, two networks each; 100,000 samples, 40,000 from the second hidden layer on. Sampling alone moves
means by 0.005 to 0.015 standard deviations, and standard deviations by as large a part of themselves.
"""

from __future__ import annotations

from typing import NamedTuple


class Bound(NamedTuple):
    mean: float  # largest |mean - sampled mean| / sampled standard deviation
    std: float  # largest |std / sampled std - 1|


class Row(NamedTuple):
    family: str
    hidden: int  # layers
    input_std: float  # of independent Gaussian noise on each input; 0 for points
    bound: Bound
    why: str  # what is not exact

    @property
    def samples(self) -> int:
        return 100_000 if self.hidden == 1 else 40_000


ROWS = [
    Row("gaussian", 1, 0.0, Bound(0.01, 0.01), "exact"),
    Row("gaussian", 1, 0.3, Bound(0.02, 0.55), "units share the noise of their inputs, and vary together"),
    Row("gaussian", 2, 0.0, Bound(0.02, 0.12), "units of the second layer share those of the first"),
    Row("gaussian", 3, 0.0, Bound(0.02, 0.25), "the same, once more"),
    Row("bernoulli", 1, 0.0, Bound(0.01, 0.01), "exact"),
    Row("bernoulli", 2, 0.0, Bound(0.02, 0.02), "shared units"),
    Row("gamma", 1, 0.0, Bound(0.01, 0.01), "a sum of gamma variables is nearly gamma"),
    Row("gamma", 2, 0.0, Bound(0.02, 0.03), "and shared units"),
    Row("poisson", 1, 0.0, Bound(0.03, 0.01), "a Poisson count does not know that its rate is uncertain"),
    Row("poisson", 2, 0.0, Bound(0.07, 0.06), "and shared units"),
    Row("beta", 1, 0.0, Bound(0.01, 0.01), "an average of beta variables is nearly beta"),
    Row("beta", 2, 0.0, Bound(0.02, 0.02), "and shared units"),
    Row("rayleigh", 1, 0.0, Bound(0.45, 0.42), "one parameter cannot keep mean and variance of a sum"),
    Row("rayleigh", 2, 0.0, Bound(0.65, 0.18), "the same, once more"),
]


def table() -> str:
    """The rows as a table for a page."""
    head = ["| weights and neurons | hidden layers | inputs | mean, in std | std, relative | what is not exact |"]
    head.append("|---|---:|---|---:|---:|---|")
    rows = [
        f"| {row.family} | {row.hidden} | {f'std {row.input_std:g}' if row.input_std else 'points'} | "
        f"{row.bound.mean:g} | {row.bound.std:.0%} | {row.why} |"
        for row in ROWS
    ]
    return "\n".join(head + rows)
