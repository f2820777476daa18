"""Priors of the weights in Bayes by Backprop, by their divergence from a drawn Gaussian."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from npn_studies.baselines.replicas import Number, Replicas

_NARROW = math.exp(-6)  # the paper's search has it among others


class Drawn(NamedTuple):
    """One draw w = mean + std · ε of a layer's weights, with the distribution it came from: each (networks, …, …)."""

    weights: Tensor
    mean: Tensor
    std: Tensor


class WeightPrior(Protocol):
    """A prior of all weights."""

    def divergence(self, replicas: Replicas) -> Callable[[Drawn], Tensor]:
        """A function that gives an unbiased estimate of KL(q, prior), summed over the weights: (networks,)."""


@dataclass(frozen=True)
class GaussianPrior:
    """w ~ N(0, std²); the divergence is exact: Σ ½ (s + m²)/std² - ½ - log(√s/std).

    Attributes:
        std: A tuple has one for each replica.
    """

    std: Number = 1.0

    def divergence(self, replicas: Replicas) -> Callable[[Drawn], Tensor]:
        """The closed form; it does not depend on the draw."""
        prior = replicas.number("std", self.std)

        def of(drawn: Drawn) -> Tensor:
            m, std = drawn.mean / prior, drawn.std / prior
            return (0.5 * (std * std + m * m) - 0.5 - std.log()).sum((1, 2))

        return of


@dataclass(frozen=True)
class ScaleMixturePrior:
    """w ~ π N(0, wide²) + (1 - π) N(0, narrow²): heavy tails, and many weights near zero.

    Each number may be a tuple, one for each replica.

    Attributes:
        share: π.
        wide: The larger standard deviation.
        narrow: The smaller one.
    """

    share: Number = 0.5
    wide: Number = 1.0
    narrow: Number = _NARROW

    def divergence(self, replicas: Replicas) -> Callable[[Drawn], Tensor]:
        """log q(w) - log p(w) at the draw."""
        share = replicas.number("share", self.share)
        wide, narrow = replicas.number("wide", self.wide), replicas.number("narrow", self.narrow)
        in_wide, in_narrow = share.log() - wide.log(), (-share).log1p() - narrow.log()

        def of(drawn: Drawn) -> Tensor:
            w = drawn.weights
            log_p = torch.logaddexp(in_wide - 0.5 * (w / wide) ** 2, in_narrow - 0.5 * (w / narrow) ** 2)
            log_q = -0.5 * ((w - drawn.mean) / drawn.std) ** 2 - drawn.std.log()
            return (log_q - log_p).sum((1, 2))  # both without log √2π

        return of
