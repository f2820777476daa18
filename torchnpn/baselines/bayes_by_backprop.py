"""Bayes by Backprop (Blundell et al. 2015): Gaussian weights, one draw of them in each step."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchnpn.baselines.interface import Fitted, Predictor, Settings, training_rows
from torchnpn.baselines.loop import minimise, seeded
from torchnpn.baselines.network import activation
from torchnpn.baselines.predicted import Predicted
from torchnpn.baselines.tasks import Task

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


class Drawn(NamedTuple):
    """One draw w = mean + std · ε of a layer's weights, with the distribution it came from."""

    weights: Tensor
    mean: Tensor
    std: Tensor


class WeightPrior(Protocol):
    """A prior of all weights."""

    def divergence(self, drawn: Drawn) -> Tensor:
        """An unbiased estimate of KL(q, prior), summed over the weights."""


@dataclass(frozen=True)
class GaussianPrior:
    """w ~ N(0, std²); the divergence is exact: Σ ½ (s + m²)/std² - ½ - log(√s/std)."""

    std: float = 1.0

    def divergence(self, drawn: Drawn) -> Tensor:
        """The closed form; it does not depend on the draw."""
        ratio = (drawn.std**2 + drawn.mean**2) / self.std**2
        return (0.5 * ratio - 0.5 - torch.log(drawn.std / self.std)).sum()


@dataclass(frozen=True)
class ScaleMixturePrior:
    """w ~ π N(0, wide²) + (1 - π) N(0, narrow²): heavy tails, and many weights near zero.

    Attributes:
        share: π.
        wide: The larger standard deviation.
        narrow: The smaller one.
    """

    share: float = 0.5
    wide: float = 1.0
    narrow: float = math.exp(-6)

    def log_prob(self, w: Tensor) -> Tensor:
        """log density of each weight."""
        parts = [
            math.log(share) - 0.5 * (w / std) ** 2 - math.log(std) - _HALF_LOG_TWO_PI
            for share, std in ((self.share, self.wide), (1 - self.share, self.narrow))
        ]
        return torch.logaddexp(*parts)

    def divergence(self, drawn: Drawn) -> Tensor:
        """log q(w) - log p(w) at the draw."""
        noise = (drawn.weights - drawn.mean) / drawn.std
        log_q = -0.5 * noise**2 - drawn.std.log() - _HALF_LOG_TWO_PI
        return (log_q - self.log_prob(drawn.weights)).sum()


@dataclass(frozen=True)
class BayesByBackprop:
    """Minimises mean of -log p(y | x, w) + KL(q, prior) / N with w drawn from q in each step.

    Attributes:
        task: `Regression`, `HeteroscedasticRegression` or `Classes`.
        settings: The network and its training.
        prior: Of all weights and biases.
        initial_std: Standard deviation of weights before training.
        samples: Draws of the weights in prediction.
    """

    task: Task
    settings: Settings
    prior: WeightPrior = GaussianPrior()
    initial_std: float = 0.05
    samples: int = 100

    def fit(self, x: Tensor, y: Tensor) -> Fitted:
        """See `Baseline`."""
        x, y = training_rows(x, y, self.task, self.settings)
        count = len(x)
        with seeded(self.settings.seed, self.settings.device):
            network = SampledNetwork(x, self.task, self.settings, self.initial_std)

            def loss(x: Tensor, y: Tensor) -> Tensor:
                draw = network.draw()
                divergence = torch.stack([self.prior.divergence(drawn) for drawn in draw]).sum()
                return divergence / count - network.head.log_prob(network(x, draw), y).mean()

            minimise(loss, network.parameters(), x, y, self.settings)

        def answer(x: Tensor) -> Predicted:
            with seeded(self.settings.seed, self.settings.device):
                outputs = torch.stack([network(x, network.draw()) for _ in range(self.samples)])
            return network.head.predicted(outputs)

        return Predictor(answer, self.settings)


class SampledNetwork(nn.Module):
    """Linear layers whose weights are given with each pass; it holds their distributions.

    Args:
        x: Rows whose number of features, type and device the network takes.
        task: Gives the head.
        settings: Hidden layers and activation.
        initial_std: Of all weights.
    """

    def __init__(self, x: Tensor, task: Task, settings: Settings, initial_std: float) -> None:
        super().__init__()
        self.head = task.head()
        sizes = [x.shape[-1], *settings.hidden, self.head.outputs]
        shapes = [(n_out, n_in + 1) for n_in, n_out in itertools.pairwise(sizes)]  # the bias is the last column
        self.means = nn.ParameterList([torch.randn(shape) / math.sqrt(shape[1]) for shape in shapes])
        self.raw_stds = nn.ParameterList([torch.full(shape, math.log(math.expm1(initial_std))) for shape in shapes])
        self.activation = activation(settings.activation)
        self.to(x)

    def draw(self) -> list[Drawn]:
        """All weights, anew: mean + softplus(ρ) · ε."""
        stds = [functional.softplus(raw) for raw in self.raw_stds]
        pairs = zip(self.means, stds, strict=True)
        return [Drawn(torch.addcmul(mean, std, torch.randn_like(mean)), mean, std) for mean, std in pairs]

    def forward(self, x: Tensor, draw: list[Drawn]) -> Tensor:  # (rows, inputs) -> (rows, outputs)
        for number, (weights, _, _) in enumerate(draw):
            a = self.activation(x) if number else x
            x = functional.linear(a, weights[:, :-1], weights[:, -1])
        return x
