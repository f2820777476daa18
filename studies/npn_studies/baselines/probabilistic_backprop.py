"""Probabilistic back-propagation (Hernández-Lobato and Adams 2015), for regression with one target.

Weights are independent Gaussians. The evidence Z of a row comes from the moments of the network's output, and its
gradients move the moments of the weights: assumed density filtering. The precisions of the noise and of the weights'
prior have gamma posteriors.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from npn_studies.baselines.filtering import Posterior, absorb
from npn_studies.baselines.interface import Fitted, Settings
from npn_studies.baselines.loop import batches, fused, recorded, seeded
from npn_studies.baselines.precision_factors import SHAPE, PriorFactors
from npn_studies.baselines.predicted import PredictedReal
from npn_studies.baselines.predictor import Predictor
from npn_studies.baselines.replicas import Replicas
from npn_studies.baselines.rows import moved, training_rows
from npn_studies.baselines.tasks import Regression
from torchnpn import maps
from torchnpn.moments import Moments


@dataclass(frozen=True)
class ProbabilisticBackprop:
    """ReLU layers; in each epoch the rows one by one, then the factors of the prior. In float64.

    Attributes:
        settings: `hidden`, `epochs` (40 in the paper), `seed` and `device` are used; there is nothing to tune.
    """

    settings: Settings

    def fit(self, x: Tensor, y: Tensor) -> Fitted:
        """See `Baseline`."""
        rows = training_rows(moved(x, x.device, torch.float64), y, Regression(), self.settings.device)
        epoch = replace(self.settings, epochs=1, batch_size=1)
        with torch.no_grad(), seeded(self.settings.seed, self.settings.device):
            posterior = initial([x.shape[-1], *self.settings.hidden, 1], rows.replicas)
            prior = PriorFactors.initial(posterior.means)
            absorb_row = fused(absorb, self.settings.device)

            def step(numbers: Tensor) -> None:
                x, y = rows.batch(numbers)
                absorb_row(posterior, x[:, 0], y[:, 0])

            repeat = recorded(step, self.settings.device)
            for _ in range(self.settings.epochs):
                for numbers in batches(rows.replicas.networks, rows.size, epoch):
                    repeat(numbers)
                prior.refine(posterior.means, posterior.variances)

        def answer(rows: Tensor) -> PredictedReal:
            o_m, o_s = output(posterior, rows)
            return PredictedReal(o_m[None].to(x.dtype), (o_s + posterior.noise[:, None])[None].to(x.dtype))

        return Predictor(answer, rows.replicas)


def initial(sizes: list[int], replicas: Replicas) -> Posterior:
    """Small random means, which break the symmetry of units; the prior's variances; noise of variance 6/5."""
    shapes = [(n_out, n_in + 1) for n_in, n_out in itertools.pairwise(sizes)]
    means = [replicas.zeros(*shape).normal_(0, 1 / math.sqrt(shape[-1])) for shape in shapes]
    gamma = replicas.zeros(1).fill_(SHAPE)
    return Posterior(means, [torch.full_like(m, SHAPE / (SHAPE - 1)) for m in means], gamma, gamma.clone())


def output(q: Posterior, x: Tensor) -> tuple[Tensor, Tensor]:  # (networks, rows, inputs) -> two of (networks, rows, 1)
    """Mean and variance of the networks' output; a layer is divided by √(its inputs, bias included)."""
    o = Moments(x)
    for number, (mean, variance) in enumerate(zip(q.means, q.variances, strict=True)):
        a = maps.relu(o) if number else o
        weight, bias = (Moments(mean[..., part], variance[..., part]) for part in (slice(-1), -1))
        o = maps.linear(a, weight, bias) * (1 / math.sqrt(mean.shape[-1]))
    assert o.variance is not None  # the weights have one
    return o.mean, o.variance
