"""The autoencoder of bags of words: `torchnpn.documents` behind the methods of an estimator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from torchnpn.documents import Autoencoder, Encoder, JointArrayMoments, Reconstruction
from torchnpn.estimators import state
from torchnpn.estimators.precise import in_float64
from torchnpn.likelihoods import Likelihood
from torchnpn.moments import Moments
from torchnpn.nn import Sequential
from torchnpn.training import History

Array = NDArray[Any]
_DECODED = 128  # codes whose every word is computed at a time


@dataclass(frozen=True, eq=False)
class WordAutoencoder:
    """What `NPNAutoencoder` is with the losses for counts."""

    encoder: Encoder

    @classmethod
    def fit(cls, counts: Any, settings: Autoencoder, callback: Callable[[History], None] | None) -> WordAutoencoder:
        """Learn to reconstruct the documents."""
        encoder = settings.fit(counts, callback)
        encoder.network.eval()
        return cls(encoder)

    @property
    def network_(self) -> Sequential:
        return self.encoder.network

    @property
    def likelihood_(self) -> Likelihood:
        return self.encoder.likelihood

    @property
    def history_(self) -> History:
        return self.encoder.history

    def transform_dist(self, counts: Any, X_variance: None) -> Moments:
        """Codes, as arrays (documents, code)."""
        return self._precise()(counts)

    def transform_joint(self, counts: Any) -> JointArrayMoments:
        """Codes with covariances."""
        return self._precise().joint(counts)

    def score_samples(self, counts: Any, X_variance: None) -> Array:
        """Minus the loss of each document."""
        return -self.reconstruction(counts).error

    def reconstruction(self, counts: Any) -> Reconstruction:
        """Loss and summed variance of each document."""
        return self._precise().reconstruction(counts)

    @torch.no_grad()
    def inverse_transform(self, Z: Array) -> Array:
        """The words that are expected for codes, scaled as the loss has its targets."""
        settings = self.encoder.settings
        if settings.family != "gaussian" and (Z < 0).any():
            raise ValueError(f"Codes of a {settings.family} network are ≥ 0, got {Z.min()}.")
        precise = self._precise()
        decoder, like = precise.network[precise._code_at :], next(precise.network.parameters())
        shift = settings.epsilon if settings.loss == "gamma" else 0.0  # it is y + ε that is gamma
        parts = [
            precise.likelihood.predict(decoder(part)).mean.double().cpu().numpy() - shift
            for part in torch.from_numpy(np.array(Z)).to(like).split(_DECODED)
        ]
        return np.concatenate(parts)

    def _precise(self) -> Encoder:
        """The encoder in float64 on a CPU, where a code is then the same whatever documents are beside it."""
        return replace(self.encoder, network=in_float64(self.encoder.network))

    # Model files -------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All that is not in the estimator's settings, as plain values and arrays."""
        arrays = {f"network.{name}": value for name, value in self.network_.state_dict().items()}
        return {"features": self.encoder._features, "seed": self.encoder.settings.seed}, arrays

    @classmethod
    def _from_state(cls, settings: Autoencoder, features: int, arrays: dict[str, Any]) -> WordAutoencoder:
        """The inverse of `_state`; a ValueError for arrays that are not those of such a network."""
        with torch.device("meta"):  # nothing of this size is in memory before the arrays are known to have it
            network = settings.layers(features)
        state.load_module(network, arrays, "network.").eval()
        return cls(Encoder(settings, network, settings.likelihood(), History(), settings.noise_of_codes))


def refuse_for_words(**given: Any) -> None:
    """Raise for arguments that only tables have."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(f'{name} is for tables, that is for the loss "noise", got it with counts. Leave it out.')
