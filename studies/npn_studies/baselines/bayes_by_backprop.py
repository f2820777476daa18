"""Bayes by Backprop (Blundell et al. 2015): Gaussian weights, one draw of them in each step."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from npn_studies.baselines.adversary import pushing
from npn_studies.baselines.interface import Fitted, Settings
from npn_studies.baselines.loop import fused, minimise, seeded
from npn_studies.baselines.network import activation
from npn_studies.baselines.predicted import Predicted
from npn_studies.baselines.predictor import Predictor, passes
from npn_studies.baselines.replicas import Number, Replicas
from npn_studies.baselines.rows import training_rows
from npn_studies.baselines.tasks import Task
from npn_studies.baselines.weight_priors import Drawn, GaussianPrior, WeightPrior


@dataclass(frozen=True)
class BayesByBackprop:
    """Minimises mean of -log p(y | x, w) + β KL(q, prior) / N with w drawn from q in each step.

    Attributes:
        task: `Regression`, `HeteroscedasticRegression` or `Classes`.
        settings: The network and its training.
        prior: Of all weights and biases.
        kl_weight: β; below 1 the posterior is narrower than Bayes' rule says. A tuple has one for each replica.
        initial_std: Standard deviation of weights before training; a tuple has one for each replica.
        samples: Draws of the weights in prediction.
        adversarial: How far rows are moved in training against their targets, for the weights that were drawn
            (`training.adversarial`); a tuple has one for each replica.
    """

    task: Task
    settings: Settings
    prior: WeightPrior = field(default_factory=GaussianPrior)
    kl_weight: Number = 1.0
    initial_std: Number = 0.05
    samples: int = 100
    adversarial: Number = 0.0

    def fit(self, x: Tensor, y: Tensor) -> Fitted:
        """See `Baseline`."""
        rows = training_rows(x, y, self.task, self.settings.device)
        replicas = rows.replicas
        weight = replicas.number("kl_weight", self.kl_weight).flatten() / rows.size
        push = pushing(replicas, self.adversarial)
        divergence = self.prior.divergence(replicas)
        with seeded(self.settings.seed, self.settings.device):
            network = SampledNetwork(x.shape[-1], replicas, self.task, self.settings, self.initial_std)

            def drawn_weights(mean: Tensor, raw_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
                drawn = draw(mean, raw_std, noise)
                return drawn.weights, divergence(drawn)

            in_few_kernels = fused(drawn_weights, self.settings.device)

            def loss(x: Tensor, y: Tensor) -> Tensor:
                weights, kl = in_few_kernels(*network.noisy())
                x = push(lambda x: -network.head.log_prob(network(x, weights.detach()), y), x)
                return weight * kl - network.head.log_prob(network(x, weights), y).mean(-1)

            minimise(loss, network.parameters, rows, self.settings)

        def answer(x: Tensor) -> Predicted:
            def one_pass() -> Tensor:
                weights = draw(*network.noisy()).weights
                return passes(lambda x: network(x, weights), x, replicas, max(network.sizes))

            with seeded(self.settings.seed, self.settings.device):
                return network.head.predicted(torch.cat([one_pass() for _ in range(self.samples)]))

        return Predictor(answer, replicas)


class SampledNetwork:
    """Linear layers whose weights are given with each pass; it holds their distributions.

    All weights lie in one row, those of a layer (in, out) before its biases, and one layer after the other: a draw of
    all is one operation.

    Args:
        inputs: How many there are.
        replicas: The networks.
        task: Gives the head.
        settings: Hidden layers and activation.
        initial_std: Of all weights.
    """

    def __init__(self, inputs: int, replicas: Replicas, task: Task, settings: Settings, initial_std: Number) -> None:
        self.head = task.head(replicas)
        self.activation = activation(settings.activation)
        self.sizes = [inputs, *settings.hidden, self.head.outputs]
        self.shapes = [(rows, n_out) for n_in, n_out in itertools.pairwise(self.sizes) for rows in (n_in, 1)]
        parts = [
            replicas.zeros(n_in + 1, n_out).normal_(0, 1 / math.sqrt(n_in + 1)).flatten(1)
            for n_in, n_out in itertools.pairwise(self.sizes)
        ]
        self.mean = torch.cat(parts, 1)[:, None].requires_grad_()  # (networks, 1, weights)
        raw_std = replicas.number("initial_std", initial_std).expm1().log()
        self.raw_std = raw_std.expand_as(self.mean).clone().requires_grad_()
        self.parameters = [self.mean, self.raw_std, *self.head.parameters]

    def noisy(self) -> tuple[Tensor, Tensor, Tensor]:
        """What a draw needs: mean and ρ of each weight, and noise N(0, 1)."""
        return self.mean, self.raw_std, torch.randn_like(self.mean)

    def __call__(self, x: Tensor, drawn: Tensor) -> Tensor:  # (networks, rows, inputs -> outputs)
        parts = drawn[:, 0].split([math.prod(shape) for shape in self.shapes], 1)
        matrices = [part.unflatten(1, shape) for part, shape in zip(parts, self.shapes, strict=True)]
        for number, (weight, bias) in enumerate(zip(matrices[::2], matrices[1::2], strict=True)):
            a = self.activation(x) if number else x
            x = torch.baddbmm(bias, a, weight)
        return x


def draw(mean: Tensor, raw_std: Tensor, noise: Tensor) -> Drawn:
    """w = mean + softplus(ρ) · ε."""
    std = functional.softplus(raw_std)
    return Drawn(torch.addcmul(mean, std, noise), mean, std)
