"""The network of an autoencoder of documents, and how documents enter and leave it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from torchnpn.documents.counts import Counts, present, row_max, row_sum
from torchnpn.documents.layers import Masking, WordLinear
from torchnpn.documents.start import start_gaussian_, start_positive_
from torchnpn.likelihoods import (
    BernoulliPoisson,
    CrossEntropy,
    GammaWords,
    KLToTarget,
    Likelihood,
    PoissonRate,
    SquaredError,
)
from torchnpn.nn import ACTIVATIONS, Linear, Saturating, SaturatingKL, Sequential

LOSSES = {  # by family
    "gaussian": ("bce", "gaussian", "l2"),
    "gamma": ("bce", "gamma", "poisson", "gaussian", "l2"),
    "poisson": ("bce", "poisson", "gamma", "gaussian", "l2"),
}
SCALINGS: dict[str, Callable[[Counts], Counts]] = {"max": row_max, "sum": row_sum, "none": lambda counts: counts}
FAMILY_ACTIVATIONS = {
    "gaussian": (*ACTIVATIONS, "identity"),
    "gamma": ("saturating", "identity"),
    "poisson": ("saturating", "saturating_kl", "identity"),
}


@dataclass(frozen=True)
class Architecture:
    """B-100-50-100-B and the like for bags of words (paper, Section 4.3); `DocumentAutoencoder` says what is what."""

    family: str
    hidden: tuple[int, ...]
    activation: str
    tau: float
    r: float
    bias: bool
    loss: str
    epsilon: float
    binary: bool
    scaling: str
    masking: float
    input_noise: float

    @property
    def needs_whole_counts(self) -> bool:
        """Whether the loss is a density of counts."""
        return self.loss in ("gamma", "poisson")

    @property
    def encoder_modules(self) -> int:
        """How many modules lead to the code: masking, then a linear layer and an activation each."""
        return 1 + 2 * len(self.hidden)

    def inputs(self, counts: Counts) -> Counts:
        """Documents as the network sees them."""
        return SCALINGS[self.scaling](present(counts) if self.binary else counts)

    def targets(self, counts: Counts) -> Counts:
        """Documents as it should reconstruct them: its inputs, but from 0 to 1 for the cross-entropy."""
        if self.loss != "bce":
            return self.inputs(counts)
        return row_max(present(counts) if self.binary else counts)

    def likelihood(self) -> Likelihood:
        """Of the words."""
        if self.loss == "bce":
            return CrossEntropy() if self.family == "gaussian" else BernoulliPoisson()
        if self.loss == "gaussian":
            return KLToTarget(self.epsilon)
        if self.loss == "gamma":
            return GammaWords(self.epsilon)
        return PoissonRate() if self.loss == "poisson" else SquaredError()

    def network(self, x: Counts, means: NDArray[np.float64], variance: float, seed: int) -> Sequential:
        """The network before training, started on scaled documents, its outputs at `means` (terms,) of the targets.

        The variance of the weights is explained in `start_gaussian_` and `start_positive_`.
        """
        generator = torch.Generator().manual_seed(seed)
        network = self.layers(x.shape[1], generator)
        start = start_gaussian_ if self.family == "gaussian" else start_positive_
        start(network, x, self._outputs_of(means), variance, generator)
        return network

    def layers(self, terms: int, generator: torch.Generator | None = None) -> Sequential:
        """Its layers for so many terms, with any weights."""
        options: dict[str, Any] = {
            "bias": self.bias,
            "family": "gaussian" if self.family == "gaussian" else "gamma",
            "generator": generator,
        }
        layers: list[nn.Module] = [Masking(self.masking)]
        for number, (n_in, n_out) in enumerate(itertools.pairwise(self.sizes(terms))):
            if number == 0:
                layers.append(WordLinear(n_in, n_out, input_noise=self.input_noise, **options))
            else:
                layers += [self._activation(), Linear(n_in, n_out, **options)]
        return Sequential(*layers)

    def sizes(self, terms: int) -> list[int]:
        """Of inputs, hidden layers and outputs."""
        return [terms, *self.hidden, *reversed(self.hidden[:-1]), terms]

    def _activation(self) -> nn.Module:
        if self.activation == "identity":
            return nn.Identity()  # with positive weights and no biases: a nonnegative matrix factorisation
        if self.activation == "saturating_kl":
            return SaturatingKL(self.tau, self.r)
        if self.activation == "saturating":
            return Saturating(self.family, self.tau, self.r)
        return ACTIVATIONS[self.activation]()

    def _outputs_of(self, means: NDArray[np.float64]) -> NDArray[np.float64]:
        """The outputs that predict these means: the inverse of the loss's link."""
        if self.loss != "bce":
            return means + self.epsilon if self.loss == "gamma" else means
        return np.log(means) - np.log1p(-means) if self.family == "gaussian" else -np.log1p(-means)
