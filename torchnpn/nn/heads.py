"""A last layer for two kinds of outputs, of which only one forms the features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from torchnpn.moments import Moments
from torchnpn.nn.inputs import as_moments
from torchnpn.nn.linear import Linear


class MeanAndNoise(nn.Module):
    """Two linear layers on the same features, their outputs side by side: `targets` means, then `targets` noises.

    The second learns what the features say about the noise, and no gradient of it reaches them: features are formed by
    the mean alone. The second starts at zero, noise that is the same everywhere.
    For `likelihoods.HeteroscedasticGaussian`.

    Args:
        in_features: Number of features.
        targets: Number of targets.
        replicas: Leading dimensions: independent copies of the layer, computed at once.
        generator: Source of the initial values.
    """

    arguments: ClassVar[Mapping[str, Any]] = {"in_features": int, "targets": int, "replicas": tuple}

    def __init__(
        self,
        in_features: int,
        targets: int = 1,
        *,
        replicas: tuple[int, ...] = (),
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.targets = in_features, targets
        self.mean = Linear(in_features, targets, replicas=replicas, generator=generator)
        self.noise = Linear(in_features, targets, replicas=replicas, generator=generator)
        with torch.no_grad():
            self.noise.weight.free[0].zero_()

    @property
    def out_features(self) -> int:
        """Means and noises together."""
        return 2 * self.targets

    @property
    def replicas(self) -> tuple[int, ...]:
        """Leading dimensions of weights and biases."""
        return self.mean.replicas

    def forward(self, a: Moments | Tensor) -> Moments:  # (*replicas, batch, in) -> (*replicas, batch, 2 · targets)
        a = as_moments(a)
        fixed = Moments(a.mean.detach(), None if a.variance is None else a.variance.detach())
        outputs = self.mean(a), self.noise(fixed)
        return Moments(*(torch.cat(parts, -1) for parts in zip(*outputs, strict=True)))
