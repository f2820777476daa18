"""Targets of which only a range is known: the loss of such a row is -log of the probability of its range."""

from __future__ import annotations

import torch
from torch import Tensor

from torchnpn.families import checks
from torchnpn.kernels import cpu
from torchnpn.likelihoods.base import Array, Likelihood, of_rows
from torchnpn.moments import Moments


class Censored(Likelihood):
    """y ∈ (lower, upper] | o as of `base`; where lower = upper, y is known, and its loss is that of `base`.

    Targets are the columns (lower, upper); a range may begin at 0, and be without end. `base` is what learns, and what
    predicts. The loss of a range is -log P(lower < y ≤ upper) as predicted, without a share of the ELBO.

    Args:
        base: Of positive amounts, with one target.
    """

    def __init__(self, base: Likelihood) -> None:
        super().__init__()
        if not base.takes_bounds:
            raise ValueError(f"Censored expects a likelihood of durations, got {type(base).__name__}.")
        self.base = base

    def least_kl(self) -> float | Array:
        return self.base.least_kl()

    def outputs(self, targets: int) -> int:
        return self.base.outputs(targets // 2)

    def check_targets(self, y: Tensor) -> None:
        lower, upper = y[..., :1], y[..., 1:]
        exact = lower == upper
        self.base.check_targets(torch.where(exact, lower, 1.0))
        checks.require(lower.isfinite() & (lower >= 0), lower, "Censored expects lower ends ≥ 0, the first column of y")
        checks.require(lower <= upper, upper, "Censored expects upper ends, the second column of y, above the lower")

    def closed_form(self) -> cpu.ClosedForm | None:
        closed, interval = self.base.closed_form(), self.base.interval_form()
        return cpu.losses.censored(closed, interval) if closed and interval else None

    def log_prob(self, o: Moments, y: Tensor) -> Tensor:
        exact, known, lower, upper = _parts(y)
        predicted = self.base.predict(o)
        return torch.where(exact, predicted.log_prob(known), predicted.log_mass(lower, upper)).sum(-1)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        exact, known, lower, upper = _parts(y)
        of_ranges = of_rows(self.base.interval_loss(o, lower, upper), o)
        return torch.where(exact[..., 0], self.base.loss(o, known), of_ranges)


def _parts(y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Which targets are known, these, and the ends of others; where there is none of a kind, one that does no harm."""
    lower, upper = y[..., :1], y[..., 1:]
    exact = lower == upper
    return exact, torch.where(exact, lower, 1.0), torch.where(exact, 1.0, lower), torch.where(exact, torch.inf, upper)
