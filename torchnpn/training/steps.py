"""Which training step a network gets on a device: one place that chooses."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

from torchnpn.likelihoods import Likelihood
from torchnpn.priors import Prior
from torchnpn.training.data import Rows, as_batches
from torchnpn.training.device import DeviceTraining, Feed, Steps, count_replicas
from torchnpn.training.fused import FusedSteps, why_not_fused
from torchnpn.training.recipe import Recipe
from torchnpn.training.taped import TapedSteps


def device_training(
    model: nn.Module,
    data: Any,
    likelihood: Likelihood,
    prior: Prior | None,
    recipe: Recipe,
    *,
    fused: bool | None = None,
) -> DeviceTraining:
    """Training steps for data on the device: fused where that applies, else by autograd; or as `fused` demands.

    Raises:
        ValueError: If a fused step is demanded for a network that has none, or anything here cannot be recorded.
    """
    rows = data if isinstance(data, Rows) else as_batches(data, next(model.parameters()).device)
    assert isinstance(rows, Rows)
    rows = rows.with_gathering()
    reason = why_not_fused(model, rows, likelihood, prior, recipe)
    if fused and reason is not None:
        raise ValueError(f"A fused training step does not apply: {reason}.")
    replicas, rates = count_replicas(model), np.shape(recipe.learning_rate)
    if rates not in ((), (replicas,)):
        raise ValueError(
            f"Recipe expects one learning rate, or {replicas}, one for each replica of the network, got {rates[0]}."
        )
    if rows.subsets is not None and len(rows.subsets) != replicas:
        raise ValueError(f"subsets expects rows for each of {replicas} replicas, got {len(rows.subsets)}.")
    if replicas > 1 and any(p.shape[:1] != (replicas,) for m in (model, likelihood) for p in m.parameters()):
        raise ValueError("replicas share some parameters, of the network or of the likelihood")
    feed = Feed(rows, recipe, replicas)
    by_itself = reason is None and rows.y.device.type == "cuda"
    kind = FusedSteps if fused or (fused is None and by_itself) else TapedSteps
    steps: Steps = kind(model, likelihood, prior, recipe, feed)
    return DeviceTraining(steps, model, likelihood, prior, recipe.precision)
