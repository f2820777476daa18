"""Other codes of documents, in one interface: settings, `fit(counts)`, then counts to `Moments` (documents, code)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from torch import Tensor

from torchnpn.documents import checked_counts
from torchnpn.moments import Moments


class DocumentCodes(Protocol):
    """Settings of a method, frozen; `torchnpn.documents.Autoencoder` is one, too."""

    @property
    def fit(self) -> Callable[[Any], Callable[[Any], Moments]]:
        """Counts (documents, terms) to a function from counts to codes; variance None where there is none."""


@dataclass(frozen=True)
class TfIdf:
    """Raw tf-idf of unit length: codes are sparse, (documents, terms), and their product is the cosine."""

    def fit(self, counts: Any) -> Callable[[Any], Moments]:
        """See `DocumentCodes`."""
        matrix = checked_counts(counts)
        weights = TfidfTransformer().fit(matrix)

        def encode(counts: Any) -> Moments:
            return Moments(weights.transform(checked_counts(counts, matrix.shape[1])))

        return encode


@dataclass(frozen=True)
class LatentSemantics:
    """The truncated singular value decomposition of tf-idf.

    Attributes:
        code: Dimensions; fewer, where there are fewer documents or terms.
        seed: Of its random projections.
    """

    code: int = 50
    seed: int = 0

    def fit(self, counts: Any) -> Callable[[Any], Moments]:
        """See `DocumentCodes`."""
        weights = TfIdf().fit(counts)
        matrix: Any = weights(counts).mean
        size = min(self.code, *matrix.shape)
        with np.errstate(invalid="ignore", divide="ignore"):  # the share of the variance explained, of empty documents
            projection = TruncatedSVD(size, random_state=self.seed).fit(matrix)

        def encode(counts: Any) -> Moments:
            return Moments(projection.transform(weights(counts).mean).astype(np.float32))

        return encode


def encoded(encode: Callable[[Tensor], Moments], dense: Callable[[], Any]) -> Moments:
    """Codes of dense batches, one after the other, as arrays."""
    with torch.no_grad():
        parts = [encode(batch) for batch in dense()]
    mean = torch.cat([part.mean for part in parts]).cpu().numpy()
    if parts[0].variance is None:
        return Moments(mean)  # type: ignore[arg-type]
    return Moments(mean, torch.cat([part.variance for part in parts]).cpu().numpy())  # type: ignore[arg-type, misc]
