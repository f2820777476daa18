"""Rows that were exposed for different times: log exposure is added to the log mean of a likelihood."""

from __future__ import annotations

import torch
from torch import Tensor

from torchnpn.families import checks
from torchnpn.kernels import cpu
from torchnpn.likelihoods.base import Array, Likelihood
from torchnpn.moments import Moments


class Exposed(Likelihood):
    """y | o, e as of `base` given o₁ + log e: a mean in proportion to the exposure e.

    The last column of targets is log e: (batch, targets + 1). `base` is what learns, and what predicts, from latent
    values that `with_offset` has shifted.

    Args:
        base: Has a log link: its first outputs are logarithms of a mean.
    """

    def __init__(self, base: Likelihood) -> None:
        super().__init__()
        if not base.log_link:
            raise ValueError(f"Exposed expects a likelihood with a log link, got {type(base).__name__}.")
        self.base = base

    def least_kl(self) -> float | Array:
        return self.base.least_kl()

    def outputs(self, targets: int) -> int:
        return self.base.outputs(targets - 1)

    def check_targets(self, y: Tensor) -> None:
        self.base.check_targets(y[..., :-1])
        checks.require(y[..., -1].isfinite(), y[..., -1], "Exposed expects finite log exposures, the last column of y")

    def closed_form(self) -> cpu.ClosedForm | None:
        closed = self.base.closed_form()
        return closed and cpu.losses.with_offset(closed)

    def log_prob(self, o: Moments, y: Tensor) -> Tensor:
        return self.base.log_prob(with_offset(o, y[..., -1:], y.shape[-1] - 1), y[..., :-1])

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        return self.base.loss(with_offset(o, y[..., -1:], y.shape[-1] - 1), y[..., :-1])


def with_offset(o: Moments, offset: Tensor, targets: int) -> Moments:  # (*replicas, batch, outputs), (batch, 1)
    """The first outputs, one for each target, plus the offset of their row."""
    first, others = o.mean[..., :targets], o.mean[..., targets:]
    return Moments(torch.cat([first + offset.to(o.mean), others], -1), o.variance)
