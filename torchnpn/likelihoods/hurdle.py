"""Amounts of which some are exactly zero: whether there is one, and how large it is."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import Parametric, ZeroInflated
from torchnpn.kernels import cpu
from torchnpn.likelihoods.base import Array, Likelihood, of_rows
from torchnpn.likelihoods.guards import sigmoid_parts, widened
from torchnpn.likelihoods.log_normal import LogNormalAmounts
from torchnpn.likelihoods.positive import GammaAmounts
from torchnpn.likelihoods.targets import relative
from torchnpn.likelihoods.zero_inflated import WithZeros
from torchnpn.moments import Moments

_LEAST_SHARE = 0.01  # of zeros and of amounts, at the start
_LEAST_ZEROS = 1e-3  # of a marginal that varies too little to need any


class HurdleGamma(WithZeros):
    """y is 0 with probability σ(o₂), else a gamma amount with mean e^o₁ and a learnt shape, as of `GammaAmounts`.

    The outputs are all o₁, then all o₂. With P = E σ(o₂) the loss is -log P for y = 0, else -log(1 - P) and the loss of
    the amount. What is predicted is a `families.ZeroInflated` gamma: a probability at 0, a density above it.

    Args:
        targets: Number of targets, each with its own shape; 1 for one shared by all.
        elbo: Share of the ELBO in the loss of amounts.
        replicas: Leading dimensions of the network's replicas.
    """

    name, words = "hurdle_gamma", "an amount that may be 0"
    support = constraints.nonnegative
    units = staticmethod(relative)
    simpler = "gaussian"
    settings: ClassVar = {"elbo": 0.1}
    arguments: ClassVar = {"targets": int, "replicas": tuple, "elbo": float}
    amounts: ClassVar[type[Likelihood]] = GammaAmounts

    def __init__(self, targets: int = 1, elbo: float = 0.0, *, replicas: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.others = self.amounts(targets=targets, elbo=elbo, replicas=replicas)

    @classmethod
    def marginal(cls, x: Moments) -> ZeroInflated:
        """Amounts as spread out as an exponential variable, and the zeros that this leaves; few, if none."""
        assert x.variance is not None
        second = 1 + x.variance / x.mean**2  # E x²/(E x)²
        p = torch.where(second > 2, 1 - 2 / second, ((second - 1) / 2).clamp_max(_LEAST_ZEROS))
        mean = x.mean / (1 - p)
        amount = cls.amounts.marginal(Moments(mean, mean**2 * (second * (1 - p) - 1)))
        assert isinstance(amount, Parametric)
        return ZeroInflated(amount, p)

    @classmethod
    def start(cls, y: Array, weight: Array | None) -> Array:  # (rows, targets) -> (2 · targets,)
        """The start of the amounts above 0, and the logit of the share of zeros."""
        zeros = np.clip(np.average(y == 0, axis=0, weights=weight), _LEAST_SHARE, 1 - _LEAST_SHARE)
        amounts = [cls._start_of_amounts(column, weight) for column in y.T]
        return np.concatenate([*amounts, np.log(zeros / (1 - zeros))])

    @classmethod
    def _start_of_amounts(cls, y: Array, weight: Array | None) -> Array:
        above = (y > 0) if weight is None else (y > 0) & (weight > 0)
        if not above.any():
            return np.zeros(1)
        return cls.amounts.start(y[above, None], None if weight is None else weight[above])

    def know_largest(self, y: Array) -> None:
        self.others.know_largest(y)

    def closed_form(self) -> cpu.ClosedForm | None:
        closed = self.others.closed_form()
        return closed and cpu.losses.hurdle(closed)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        amount, zero = self._split(o)
        P, rest, _ = sigmoid_parts(zero)
        is_zero, y = y == 0, widened(y)
        assert isinstance(self.others, GammaAmounts | LogNormalAmounts)
        of_amounts = self.others.losses(amount, torch.where(is_zero, 1.0, y))
        return of_rows(torch.where(is_zero, -torch.log(P), of_amounts - torch.log(rest)), o)


class HurdleLogNormal(HurdleGamma):
    """y is 0 with probability σ(o₂), else log y is o₁ plus noise, as of `LogNormalAmounts`: for long upper tails.

    Args:
        targets: Number of targets, each with its own noise; 1 for one noise shared by all.
        elbo: Share of the ELBO in the loss of amounts.
        replicas: Leading dimensions of the network's replicas.
    """

    name = "hurdle_lognormal"
    limits_means = True
    amounts = LogNormalAmounts
