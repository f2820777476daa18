"""Probabilistic back-propagation (Hernández-Lobato and Adams 2015), for regression with one target.

Weights are independent Gaussians. The evidence Z of a row comes from the moments of the network's output, and its
gradients move the moments of the weights: assumed density filtering. The precisions of the noise and of the weights'
prior have gamma posteriors.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from torchnpn import maps
from torchnpn.baselines.interface import Fitted, Predictor, Settings, training_rows
from torchnpn.baselines.loop import for_each_batch, seeded
from torchnpn.baselines.predicted import PredictedReal, gaussian_log_prob
from torchnpn.baselines.tasks import Regression
from torchnpn.baselines.weight_prior import SHAPE, PriorFactors, gamma_update
from torchnpn.moments import Moments


@dataclass(frozen=True)
class ProbabilisticBackprop:
    """ReLU layers; in each epoch the rows one by one, then the factors of the prior.

    Leading dimensions of x (…, rows, inputs) and y (…, rows, 1) are as many networks, trained side by side.

    Attributes:
        settings: `hidden`, `epochs` (40 in the paper), `seed` and `device` are used; there is nothing to tune.
    """

    settings: Settings

    def fit(self, x: Tensor, y: Tensor) -> Fitted:
        """See `Baseline`."""
        flat_x, flat_y = training_rows(x.flatten(0, -2), y.flatten(0, -2), Regression(), self.settings)
        dtype, x, y = x.dtype, flat_x.double().view(x.shape), flat_y.double().view(*x.shape[:-1], 1)
        with seeded(self.settings.seed, self.settings.device):
            posterior = initial([x.shape[-1], *self.settings.hidden, 1], x)
            prior = PriorFactors.initial(posterior.means)

            def step(rows: Tensor) -> None:
                posterior.assign(absorbed(posterior, x[..., rows, :], y[..., rows, :]))

            for _ in range(self.settings.epochs):
                for_each_batch(step, x.shape[-2], replace(self.settings, epochs=1, batch_size=1))
                prior.refine(posterior.means, posterior.variances)

        def answer(x: Tensor) -> PredictedReal:
            o_m, o_s = output(posterior, x.double())
            return PredictedReal(o_m.to(dtype)[None], (o_s + posterior.noise()).to(dtype)[None])

        return Predictor(answer, self.settings)


class Posterior(NamedTuple):
    """q(weights) q(noise precision).

    Attributes:
        means: Of each layer's weights (…, out, in + 1); the bias is the last column.
        variances: Of the same.
        shape: Of the noise precision's gamma distribution (…).
        rate: Of the same.
    """

    means: list[Tensor]
    variances: list[Tensor]
    shape: Tensor
    rate: Tensor

    def noise(self, more: int = 0) -> Tensor:  # (..., 1, 1)
        """E 1/precision = rate / (shape - 1), with the shape plus `more`."""
        return (self.rate / (self.shape + more - 1))[..., None, None]

    @torch.no_grad()
    def assign(self, other: Posterior) -> None:
        """Take the values of `other`."""
        pairs = [(self.means, other.means), (self.variances, other.variances)]
        for mine, theirs in pairs:
            for place, value in zip(mine, theirs, strict=True):
                place.copy_(value)
        self.shape.copy_(other.shape)
        self.rate.copy_(other.rate)


def initial(sizes: list[int], x: Tensor) -> Posterior:
    """Small random means, which break the symmetry of units; the prior's variances; noise of variance 6/5."""
    shapes = [(*x.shape[:-2], n_out, n_in + 1) for n_in, n_out in itertools.pairwise(sizes)]
    means = [torch.randn(shape, dtype=x.dtype, device=x.device) / math.sqrt(shape[-1]) for shape in shapes]
    gamma = torch.full(x.shape[:-2], SHAPE, dtype=x.dtype, device=x.device)
    return Posterior(means, [torch.full_like(m, SHAPE / (SHAPE - 1)) for m in means], gamma, gamma.clone())


def output(q: Posterior, x: Tensor) -> tuple[Tensor, Tensor]:  # (..., rows, inputs) -> two of (..., rows, 1)
    """Mean and variance of the network's output; a layer is divided by √(its inputs, bias included)."""
    o = Moments(x)
    for number, (mean, variance) in enumerate(zip(q.means, q.variances, strict=True)):
        a = maps.relu(o) if number else o
        weight, bias = (Moments(mean[..., part], variance[..., part]) for part in (slice(-1), -1))
        o = maps.linear(a, weight, bias) * (1 / math.sqrt(mean.shape[-1]))
    assert o.variance is not None  # the weights have one
    return o.mean, o.variance


def absorbed(q: Posterior, x: Tensor, y: Tensor) -> Posterior:  # (..., 1, inputs), (..., 1, 1)
    """The posterior after one row more, by assumed density filtering.

    With log Z = log N(y; o_m, o_s + rate/(shape - 1)) a weight N(m, v) gets
        m + v ∂log Z/∂m,    v - v² ((∂log Z/∂m)² - 2 ∂log Z/∂v).
    An update that would not leave a distribution (v ≤ 0, say) is not made.
    """
    means, variances = ([p.detach().requires_grad_() for p in part] for part in (q.means, q.variances))
    with torch.enable_grad():
        o_m, o_s = output(Posterior(means, variances, q.shape, q.rate), x)
        log_z = [gaussian_log_prob(y, o_m, o_s + q.noise(more)).sum((-2, -1)) for more in range(3)]
        slopes = torch.autograd.grad(log_z[0].sum(), means + variances)
    new_means, new_variances = [], []
    with torch.no_grad():
        for m, v, by_m, by_v in zip(q.means, q.variances, slopes[: len(means)], slopes[len(means) :], strict=True):
            new_m, new_v = m + v * by_m, v - v**2 * (by_m**2 - 2 * by_v)
            sound = (new_v > 0) & new_v.isfinite() & new_m.isfinite()
            new_means.append(torch.where(sound, new_m, m))
            new_variances.append(torch.where(sound, new_v, v))
        shape, rate = gamma_update(q.shape, q.rate, *log_z)
    return Posterior(new_means, new_variances, shape, rate)
