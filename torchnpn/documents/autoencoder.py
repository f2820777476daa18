"""Autoencoders of documents whose weights and neurons are distributions: settings, and `fit`."""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from torchnpn.documents.counts import Counts, checked_counts, present, row_max, row_sum, word_means
from torchnpn.documents.encoder import Encoder
from torchnpn.documents.layers import Identity, Masking, SaturatingKL, WordLinear
from torchnpn.documents.schedule import adam_with_own_rates, warm_cosine
from torchnpn.documents.start import start_gaussian_, start_positive_
from torchnpn.likelihoods import KLToTarget, Likelihood, SquaredError
from torchnpn.likelihoods.words import BernoulliPoisson, CrossEntropy, GammaWords, PoissonRate
from torchnpn.nn import Linear, Saturating, Sequential
from torchnpn.nn.activation import BY_NAME
from torchnpn.priors import EmpiricalBayes, IsotropicGaussian, Prior
from torchnpn.training import History, Recipe, constant, train
from torchnpn.training.size import check_size

_LOSSES = {  # by family
    "gaussian": ("bce", "gaussian", "l2"),
    "gamma": ("bce", "gamma", "poisson", "gaussian", "l2"),
    "poisson": ("bce", "poisson", "gamma", "gaussian", "l2"),
}
_ACTIVATIONS = {
    "gaussian": (*BY_NAME, "identity"),
    "gamma": ("saturating", "identity"),
    "poisson": ("saturating", "saturating_kl", "identity"),
}


@dataclass(frozen=True)
class Autoencoder:
    """B-100-50-100-B and the like for bags of words (paper, Section 4.3); see `GAUSSIAN`, `GAMMA` and `POISSON`.

    Attributes:
        family: Of weights and neurons: "gaussian", "gamma", or "poisson", whose weights are gamma.
        hidden: Units of the encoder's layers; the last is the code. The decoder mirrors them.
        activation: A name of `nn`'s activations for Gaussian networks; for the others "saturating", 1 - exp(-τ x), and
            for Poisson networks "saturating_kl", the same with the paper's KL map; "identity" for any.
        tau: τ of "saturating".
        bias: Whether layers have biases. A gamma network with "identity" and none is a nonnegative matrix
            factorisation.
        loss: "bce", the cross-entropy with E σ(o), or in positive networks with E(1 - e^-o); "gaussian", the paper's
            KL to N(y, ε); "gamma" and "poisson", -log p(y); "l2", E (y - o)².
        epsilon: ε of "gaussian"; added to the targets of "gamma".
        binary: Whether a word counts once in a document, however often it stands there.
        masking: Share of a document's words that is dropped in training.
        input_noise: p of an input variance p/(1 - p) x², in closed form.
        encoding_noise: p of that variance when documents are encoded, after training; None: as in training. With the
            share that was masked, a code is the mean over all masks, instead of what the network makes of a whole
            document, of which it has never seen one.
        initial_variance: Of the weights at the start, times the number of inputs, or relative to the squared mean.
        kl_weight: Weight of the KL to N(0, 1/prior_precision).
        prior_precision: Of the weights' prior. "evidence" learns it in closed form, of Gaussian networks: one for each
            word of the vocabulary, and one for each later layer (`EmpiricalBayes`). Weights of words that are rarely
            seen then stay as uncertain as they are.
        learning_rate: Of AdamW, for means.
        spread_learning_rate: For the logarithms of standard deviations or of coefficients of variation.
        weight_decay: Of AdamW, for means.
        warm_up: Steps over which the rates rise.
        epochs: Passes over the documents.
        batch_size: Documents of a step.
        seed: Decides the first weights, the order of documents and the masks.
        device: "auto" (a GPU if there is one), or torch's name of a device.
    """

    family: str = "gaussian"
    hidden: tuple[int, ...] = (100, 50)
    activation: str = "tanh"
    tau: float = 1.0
    bias: bool = True
    loss: str = "bce"
    epsilon: float = 0.01
    binary: bool = False
    masking: float = 0.7
    input_noise: float = 0.5
    encoding_noise: float | None = None
    initial_variance: float = 0.05
    kl_weight: float = 0.01
    prior_precision: float | str = 10.0
    learning_rate: float = 2e-3
    spread_learning_rate: float = 1e-2
    weight_decay: float = 0.0
    warm_up: int = 100
    epochs: int = 60
    batch_size: int = 256
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        _check_choice("family", self.family, _LOSSES)
        _check_choice(f"loss of a {self.family} network", self.loss, _LOSSES[self.family])
        _check_choice(f"activation of a {self.family} network", self.activation, _ACTIVATIONS[self.family])
        if not self.hidden or min(self.hidden) < 1:
            raise ValueError(f"Autoencoder expects hidden layers of one unit or more, got {self.hidden}.")
        for name in ("masking", "input_noise", "encoding_noise"):
            if (value := getattr(self, name)) is not None and not 0 <= value < 1:
                raise ValueError(f"Autoencoder expects {name} from 0 to below 1, got {value}.")
        for name in ("kl_weight", "weight_decay"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"Autoencoder expects {name} ≥ 0, got {getattr(self, name)}.")
        for name in ("tau", "epsilon", "initial_variance", "spread_learning_rate"):
            if not getattr(self, name) > 0:
                raise ValueError(f"Autoencoder expects {name} > 0, got {getattr(self, name)}.")
        precision = self.prior_precision
        if precision == "evidence" and self.family != "gaussian":
            raise ValueError(f"A {self.family} network expects a number as prior_precision; Gaussian ones learn it.")
        if precision != "evidence" and not (isinstance(precision, numbers.Real) and 0 < precision < math.inf):
            raise ValueError(f'Autoencoder expects prior_precision > 0 or "evidence", got {precision!r}.')

    @property
    def noise_of_codes(self) -> float:
        """p of the inputs' variance when documents are encoded."""
        return self.input_noise if self.encoding_noise is None else self.encoding_noise

    @property
    def needs_whole_counts(self) -> bool:
        """Whether the loss is a density of counts."""
        return self.loss in ("gamma", "poisson")

    def inputs(self, counts: Counts) -> Counts:
        """Documents as the network sees them: from 0 to 1, or with a sum of 10 for positive networks."""
        counts = present(counts) if self.binary else counts
        return row_max(counts) if self.family == "gaussian" else row_sum(counts)

    def targets(self, counts: Counts) -> Counts:
        """Documents as it should give them back: its inputs, but from 0 to 1 for the cross-entropy."""
        if self.loss != "bce":
            return self.inputs(counts)
        return row_max(present(counts) if self.binary else counts)

    def fit(self, counts: Any, callback: Callable[[History], None] | None = None) -> Encoder:
        """Train on counts (documents, terms); sparse ones are never made dense but for a batch of targets.

        Args:
            counts: A scipy matrix or an array of numbers ≥ 0; whole ones for the losses "gamma" and "poisson".
            callback: Called with the history after each epoch.
        """
        matrix = checked_counts(counts, whole=self.needs_whole_counts)
        x, y = self.inputs(matrix), self.targets(matrix)
        network, likelihood = self.network(x, word_means(y)), self.likelihood()
        recipe = Recipe(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            optimizer=adam_with_own_rates(network, self.spread_learning_rate, self.weight_decay),
            scheduler=warm_cosine(self.warm_up),
            kl_weight=constant(self.kl_weight),
            seed=self.seed,
        )
        history = train(network, (x, y), likelihood, self.prior(), recipe, callback=callback, device=self.device)
        return Encoder(self, network, likelihood, history, self.noise_of_codes)

    def network(self, x: Counts, means: NDArray[np.float64]) -> Sequential:
        """The network before training.

        Args:
            x: Scaled documents, by which it is started.
            means: (terms,) of the targets, where the outputs start.
        """
        generator = torch.Generator().manual_seed(self.seed)
        check_size(self._sizes(x.shape[1]), min(self.batch_size, x.shape[0]))
        network = self.layers(x.shape[1], generator)
        start = start_gaussian_ if self.family == "gaussian" else start_positive_
        start(network, x, self._outputs_of(means), self.initial_variance, generator)
        return network

    def layers(self, terms: int, generator: torch.Generator | None = None) -> Sequential:
        """Its layers for so many terms, with any weights."""
        options: dict[str, Any] = {
            "bias": self.bias,
            "family": "gaussian" if self.family == "gaussian" else "gamma",
            "generator": generator,
        }
        layers: list[nn.Module] = [Masking(self.masking)]
        for number, (n_in, n_out) in enumerate(itertools.pairwise(self._sizes(terms))):
            if number == 0:
                layers.append(WordLinear(n_in, n_out, input_noise=self.input_noise, **options))
            else:
                layers += [self._activation(), Linear(n_in, n_out, **options)]
        return Sequential(*layers)

    def _sizes(self, terms: int) -> list[int]:
        """Of inputs, hidden layers and outputs."""
        return [terms, *self.hidden, *reversed(self.hidden[:-1]), terms]

    def _activation(self) -> nn.Module:
        if self.activation == "identity":
            return Identity()
        if self.activation == "saturating_kl":
            return SaturatingKL(self.tau)
        return Saturating(self.family, self.tau) if self.activation == "saturating" else BY_NAME[self.activation]()

    def _outputs_of(self, means: NDArray[np.float64]) -> NDArray[np.float64]:
        """The outputs that predict these means: the inverse of the loss's link."""
        if self.loss != "bce":
            return means + self.epsilon if self.loss == "gamma" else means
        return np.log(means) - np.log1p(-means) if self.family == "gaussian" else -np.log1p(-means)

    def prior(self) -> Prior | None:
        """Of the weights; None where it has no weight."""
        if not self.kl_weight:
            return None
        if isinstance(self.prior_precision, str):
            return EmpiricalBayes()
        return IsotropicGaussian(self.prior_precision)

    def likelihood(self) -> Likelihood:
        """Of the words."""
        if self.loss == "bce":
            return CrossEntropy() if self.family == "gaussian" else BernoulliPoisson()
        if self.loss == "gaussian":
            return KLToTarget(self.epsilon)
        if self.loss == "gamma":
            return GammaWords(self.epsilon)
        return PoissonRate() if self.loss == "poisson" else SquaredError()


def _check_choice(name: str, value: str, choices: Any) -> None:
    if value not in choices:
        raise ValueError(f"Autoencoder expects a {name} among {', '.join(choices)}, got {value!r}.")


_POSITIVE: dict[str, Any] = {
    "activation": "saturating",
    "tau": 0.1,
    "input_noise": 0.0,
    "initial_variance": 0.1,
    "kl_weight": 0.0,
    "learning_rate": 0.03,
}
GAUSSIAN = Autoencoder()
GAMMA = Autoencoder(family="gamma", masking=0.7, **_POSITIVE)
POISSON = Autoencoder(family="poisson", loss="poisson", masking=0.5, **_POSITIVE)
