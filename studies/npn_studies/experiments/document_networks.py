"""The settings of `DocumentAutoencoder` as records have them: all of them, with none left to be chosen."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from torchnpn import DocumentAutoencoder
from torchnpn.estimators import ArrayMoments
from torchnpn.moments import JointMoments


class ExactSeed(np.random.RandomState):
    """The seed itself, as records were made with it; a number would be the seed of a seed."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def randint(self, *args: Any, **options: Any) -> int:  # type: ignore[override]
        """The number."""
        return self.number


@dataclass(frozen=True, eq=False)
class DocumentEncoder:
    """A trained network: counts in, codes out, in float32."""

    model: DocumentAutoencoder

    def __call__(self, counts: Any) -> ArrayMoments:
        """Codes with variances."""
        return ArrayMoments(*(part.astype(np.float32) for part in self.model.transform_dist(counts)))

    def joint(self, counts: Any) -> JointMoments:
        """Codes with covariances."""
        return JointMoments(*(torch.from_numpy(part).float() for part in self.model.transform_joint(counts)))


@dataclass(frozen=True)
class DocumentNetwork:
    """Arguments of `DocumentAutoencoder`; `epochs` and `seed` are its `max_epochs` and `random_state`."""

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

    def fit(self, counts: Any) -> DocumentEncoder:
        """Train on counts (documents, terms)."""
        settings = dataclasses.asdict(self)
        epochs, seed = settings.pop("epochs"), settings.pop("seed")
        model = DocumentAutoencoder(**settings, max_epochs=epochs, random_state=ExactSeed(seed))
        return DocumentEncoder(model.fit(counts))


_POSITIVE: dict[str, Any] = {
    "activation": "saturating",
    "tau": 0.1,
    "input_noise": 0.0,
    "initial_variance": 0.1,
    "kl_weight": 0.0,
    "learning_rate": 0.03,
}
GAUSSIAN = DocumentNetwork()
GAMMA = DocumentNetwork(family="gamma", masking=0.7, **_POSITIVE)
POISSON = DocumentNetwork(family="poisson", loss="poisson", masking=0.5, **_POSITIVE)
