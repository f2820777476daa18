"""Noise as regularisation: dropout, sampled or in closed form, and uncertain inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ClassVar

import torch
from torch import Tensor

from torchnpn import maps
from torchnpn.moments import Moments
from torchnpn.nn.layer import Layer, as_moments

_source: ContextVar[torch.Generator | None] = ContextVar("source of random numbers", default=None)


class Dropout(Layer):
    """One sampled mask for both moments: the mean is multiplied by mask/(1-p), the variance by its square.

    In evaluation mode it passes the moments on as they are.
    """

    arguments: ClassVar = {"p": float}

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = _probability(p)

    def forward(self, a: Moments | Tensor) -> Moments:
        a = as_moments(a)
        if not self.training or self.p == 0:
            return a
        return a * dropout_mask(a.mean, self.p)


class AnalyticDropout(Dropout):
    """Dropout without sampling: the mask's variance enters the moments (`maps.dropout`), in training mode only."""

    def forward(self, a: Moments | Tensor) -> Moments:
        a = as_moments(a)
        return maps.dropout(a, self.p) if self.training else a


class MaskedUnits(Dropout):
    """Units that may be missing whenever it is asked: as `AnalyticDropout`, in training and in evaluation alike.

    A network trained with `Dropout` has learnt under random masks. Asked with `MaskedUnits` in its place it answers for
    all of them by moment matching, in one pass and without a sample, where MC dropout draws many. See `with_masks`.
    """

    def forward(self, a: Moments | Tensor) -> Moments:
        return maps.dropout(as_moments(a), self.p)


class InputNoise(Layer):
    """Adds a known variance to its input: measurement error, or a distribution around each value (Section 2.1)."""

    arguments: ClassVar = {"variance": float}

    def __init__(self, variance: float) -> None:
        super().__init__()
        if not 0 <= variance < math.inf:
            raise ValueError(f"InputNoise expects a finite variance ≥ 0, got {variance}.")
        self.variance = variance

    def forward(self, a: Moments | Tensor) -> Moments:
        a = as_moments(a)
        variance = min(self.variance, torch.finfo(a.mean.dtype).max)
        return a + Moments(torch.zeros_like(a.mean), torch.full_like(a.mean, variance))


def _probability(p: float) -> float:
    if not 0 <= p < 1:
        raise ValueError(f"Dropout expects a probability p with 0 ≤ p < 1, got {p}.")
    return p


@contextmanager
def drawing_from(generator: torch.Generator | None) -> Iterator[None]:
    """Layers draw from `generator` for a while, in this thread alone; `train` does this with one of its own.

    Elsewhere, or with None, they draw from torch's global random state, as torch's own layers do.
    """
    token = _source.set(generator)
    try:
        yield
    finally:
        _source.reset(token)


def dropout_mask(like: Tensor, p: float) -> Tensor:
    """0 with probability p, else 1/(1 - p), for each number of `like`."""
    if torch.compiler.is_compiling() or (generator := _source.get()) is None:
        return torch.nn.functional.dropout(torch.ones_like(like), p)
    return torch.empty_like(like).bernoulli_(1 - p, generator=generator).div_(1 - p)
