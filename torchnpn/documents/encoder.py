"""A trained autoencoder of documents: codes, reconstructions and topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from torchnpn.documents import joint
from torchnpn.documents.counts import checked_counts
from torchnpn.documents.joint import JointMoments
from torchnpn.documents.layers import WordLinear
from torchnpn.documents.start import linear_layers
from torchnpn.likelihoods import Likelihood
from torchnpn.moments import Moments
from torchnpn.nn import Linear, Sequential
from torchnpn.sparse import SparseBatch, SparseRows
from torchnpn.training import History

if TYPE_CHECKING:
    from torchnpn.documents.autoencoder import Autoencoder

_DOCUMENTS = 1_024  # encoded at a time
_DECODED = 128  # documents whose every word is computed at a time
_JOINT = 64  # documents whose units are taken together at a time


class Reconstruction(NamedTuple):
    """How well each document was reconstructed, and how sure the network was of it."""

    error: NDArray[Any]  # (documents,) the loss
    variance: NDArray[Any]  # (documents,) Σ o_s over all words: the paper's measure of uncertainty


@dataclass(frozen=True, eq=False)
class Encoder:
    """What `Autoencoder.fit` gives: call it with counts.

    Attributes:
        settings: What it was trained with.
        network: From words to words.
        likelihood: Of the words.
        history: Of training.
        input_noise: p of the input's variance p/(1 - p) x² when encoding; `dataclasses.replace` gives another one.
    """

    settings: Autoencoder
    network: Sequential
    likelihood: Likelihood
    history: History
    input_noise: float

    def __call__(self, counts: Any) -> Moments:
        """The code of each document, mean and variance as float32 arrays (documents, units)."""
        with torch.no_grad():
            return _arrays([self._code(batch) for batch in self._batches(self._inputs(counts), _DOCUMENTS)])

    def joint(self, counts: Any) -> JointMoments:
        """The code of each document with the covariances of its units: arrays (documents, units) and (…, units, units).

        For Gaussian networks; see `torchnpn.documents.joint`.
        """
        if self.settings.family != "gaussian":
            raise ValueError(
                f"joint expects a Gaussian network, got a {self.settings.family} one. Take its means and variances."
            )
        with torch.no_grad():
            parts = [self._joint_code(batch) for batch in self._batches(self._inputs(counts), _JOINT)]
        return JointMoments(*(torch.cat(part).cpu().numpy() for part in zip(*parts, strict=True)))  # type: ignore[arg-type]

    def reconstruction(self, counts: Any) -> Reconstruction:
        """Loss and summed variance of each document."""
        decoder = self.network[self._code_at :]
        matrix = self._checked(counts)
        rows = (self._batches(scaled, _DECODED) for scaled in (self.settings.inputs(matrix), self._targets(matrix)))
        errors, variances = [], []
        with torch.no_grad():
            for x, y in zip(*rows, strict=True):
                o = decoder(self._code(x))
                errors.append(self.likelihood.loss(o, y.dense()).cpu())
                variances.append(o.variance.sum(-1).cpu())
        return Reconstruction(torch.cat(errors).numpy(), torch.cat(variances).numpy())

    @property
    def components(self) -> NDArray[Any]:  # (units of the code, words)
        """What a unit of the code adds to each word: the product of the decoder's mean weights."""
        weights = [layer.weight.moments.mean for layer in linear_layers(self.network[self._code_at :])]
        product = weights[0]
        for weight in weights[1:]:
            product = weight @ product
        return product.detach().mT.cpu().numpy()

    def topics(self, vocabulary: Sequence[str], words: int = 10) -> list[list[str]]:
        """The words of largest weight of each unit of the code; only positive weights make topics to be read."""
        if len(vocabulary) != self._features:
            raise ValueError(f"topics expects a vocabulary of {self._features} words, got {len(vocabulary)}.")
        order = np.argsort(-self.components, axis=1, kind="stable")[:, :words]
        return [[vocabulary[word] for word in row] for row in order]

    @property
    def _features(self) -> int:
        return linear_layers(self.network)[0].in_features

    @property
    def _code_at(self) -> int:
        """How many modules lead to the code: masking, then a linear layer and an activation each."""
        return 1 + 2 * len(self.settings.hidden)

    def _code(self, x: SparseBatch) -> Moments:
        first = self.network[1]
        assert isinstance(first, WordLinear)
        code: Moments = self.network[2 : self._code_at](first.noisy(x, self.input_noise))
        return code

    def _joint_code(self, x: SparseBatch) -> JointMoments:
        first = self.network[1]
        assert isinstance(first, WordLinear)
        code = joint.of_words(first, x, self.input_noise)
        for module in list(self.network)[2 : self._code_at]:
            code = joint.linear(module, code) if isinstance(module, Linear) else joint.activated(module, code)
        return code

    def _checked(self, counts: Any) -> Any:
        return checked_counts(counts, self._features, whole=self.settings.needs_whole_counts)

    def _inputs(self, counts: Any) -> Any:
        return self.settings.inputs(self._checked(counts))

    def _targets(self, counts: Any) -> Any:
        return self.settings.targets(counts)

    def _batches(self, scaled: Any, size: int) -> Iterator[SparseBatch]:
        device = next(self.network.parameters()).device
        for start in range(0, scaled.shape[0], size):
            yield SparseRows.from_csr(scaled[start : start + size], device).all()


def _arrays(parts: list[Moments]) -> Moments:
    mean = torch.cat([part.mean for part in parts]).cpu().numpy()
    variance = torch.cat([torch.zeros_like(part.mean) if part.variance is None else part.variance for part in parts])
    return Moments(mean, variance.cpu().numpy())  # type: ignore[arg-type]
