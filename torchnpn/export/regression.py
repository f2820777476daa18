"""From the latent output of a regressor to what a graph gives of its target."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from torchnpn.estimators import NPNRegressor
from torchnpn.export.quantiles import of_gaussians
from torchnpn.families import mean_and_variance
from torchnpn.likelihoods import mixture_parts
from torchnpn.moments import Moments
from torchnpn.nn import replicas_of


class Regression(nn.Module):
    """Mean, variance and its parts, the ends of an interval, and quantiles: each (rows, targets), or (rows,).

    Args:
        model: A fitted regressor.
        levels: Of the quantiles, which have a last dimension.
        interval: What the interval holds.
    """

    def __init__(self, model: NPNRegressor, levels: Sequence[float], interval: float) -> None:
        super().__init__()
        self.likelihood = copy.deepcopy(model.likelihood_).double().eval()
        self.replicated = bool(replicas_of(model.network_))
        self.shares = model._weights
        self.units = tuple(map(torch.from_numpy, map(np.asarray, model.units_)))
        self.flat, self.levels = model._flat, tuple(levels)
        self.ends = (1 - interval) / 2, (1 + interval) / 2

    @property
    def names(self) -> tuple[str, ...]:
        quantiles = ("quantiles",) if self.levels else ()
        return ("mean", "variance", "epistemic", "aleatoric", "low", "high", *quantiles)

    def forward(self, o: Moments) -> tuple[Tensor, ...]:
        o = Moments(*(part.double() for part in o))  # type: ignore[union-attr]
        if not self.replicated:
            o = Moments(*(part.unsqueeze(0) for part in o))  # type: ignore[union-attr]
        each, parts = self.likelihood.predict(o), self.likelihood.variance_parts(o)
        count = each.mean.shape[0]
        shares = torch.full((count,), 1 / count, dtype=torch.float64) if self.shares is None else self.shares
        mean, spread = mean_and_variance(each.mean, shares)
        variance = mean_and_variance(each.variance, shares)[0] + spread
        _, epistemic, aleatoric = mixture_parts(parts, each.mean, shares)
        quantiles = of_gaussians(each.mean, each.variance, shares, (*self.ends, *self.levels))
        shift, scale = self.units
        second = scale * scale
        found = [shift + scale * mean, *(second * part for part in (variance, epistemic, aleatoric))]
        quantiles = shift.unsqueeze(-1) + scale.unsqueeze(-1) * quantiles
        found += [quantiles[..., 0], quantiles[..., 1]]
        if self.levels:
            found.append(quantiles[..., 2:])
        return tuple(part[:, 0] for part in found) if self.flat else tuple(found)
