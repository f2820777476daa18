"""From the latent output of a regressor to what a graph gives of its target."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from torchnpn.estimators import NPNClassifier, NPNRegressor
from torchnpn.exporting.calibration import Calibration
from torchnpn.exporting.quantiles import quantiles
from torchnpn.families import Calibrated, Gaussian, Parametric, mean_and_variance
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
        self.shares = shares_of(model)
        self.calibration = Calibration(self.shares, model.calibration_)
        self.units = tuple(map(torch.from_numpy, map(np.asarray, model.units_)))
        self.flat, self.has_quantiles = model._flat, bool(levels)
        different, places = np.unique(np.array([*_ends(model, interval), *levels]), return_inverse=True)
        self.levels = self.calibration.levels(different)
        self.low, self.high, *self.places = places.tolist()

    @property
    def names(self) -> tuple[str, ...]:
        quantiles = ("quantiles",) if self.has_quantiles else ()
        return ("mean", "variance", "epistemic", "aleatoric", "low", "high", *quantiles)

    def forward(self, o: Moments) -> tuple[Tensor, ...]:
        o = with_members(o, self.replicated)
        each, parts = self.likelihood.predict(o), self.likelihood.variance_parts(o)
        assert isinstance(each, Parametric)
        mean, spread = mean_and_variance(each.mean, self.calibration.shares)
        variance = mean_and_variance(each.variance, self.calibration.shares)[0] + spread
        _, epistemic, aleatoric = mixture_parts(parts, each.mean, self.shares)
        shift, scale = self.units
        found = [shift + scale * mean, *(scale * scale * part for part in (variance, epistemic, aleatoric))]
        values = quantiles(each, self.calibration.parts, self.levels, self.calibration.together)
        values = shift.unsqueeze(-1) + scale.unsqueeze(-1) * values  # (rows, targets, levels)
        found += [values[..., self.low], values[..., self.high]]
        if self.has_quantiles:
            found.append(values[..., self.places])
        return tuple(part[:, 0] for part in found) if self.flat else tuple(found)


def shares_of(model: NPNRegressor | NPNClassifier) -> Tensor:
    """How much each network counts."""
    if model._weights is not None:
        return model._weights
    count = max(replicas_of(model.network_), default=1)
    return torch.full((count,), 1 / count, dtype=torch.float64)


def with_members(o: Moments, replicated: bool) -> Moments:
    """A latent output in float64, with a dimension for networks also where there is one."""
    m, s = (part.double() for part in o)  # type: ignore[union-attr]
    return Moments(m, s) if replicated else Moments(m.unsqueeze(0), s.unsqueeze(0))


def _ends(model: NPNRegressor, interval: float) -> tuple[float, float]:
    """Levels of the ends of an interval."""
    if model.calibration_ is None:
        return (1 - interval) / 2, (1 + interval) / 2
    levels, nothing = model.calibration_.by_part, torch.zeros(1, model.n_outputs_)
    return Calibrated((Gaussian(nothing, nothing),) * len(levels), levels).central_levels(interval)
