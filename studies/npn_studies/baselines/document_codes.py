"""Codes of documents by linear algebra, and the interface that all codes of documents share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer

from torchnpn.documents import checked_counts
from torchnpn.estimators import ArrayMoments
from torchnpn.moments import Moments

Codes = Callable[[Any], Moments | ArrayMoments]  # counts (documents, terms) to arrays (documents, code)


class DocumentCodes(Protocol):
    """Settings of a method, frozen; `npn_studies.experiments.document_networks.DocumentNetwork` is one, too."""

    def fit(self, counts: Any) -> Codes:
        """A function from counts to codes; their variance is None where the method has none.

        Args:
            counts: (documents, terms), a scipy matrix or an array of numbers ≥ 0.
        """


@dataclass(frozen=True)
class TfIdf:
    """Raw tf-idf of unit length: codes are sparse, (documents, terms), and the product of two is their cosine."""

    def fit(self, counts: Any) -> Codes:
        """See `DocumentCodes`."""
        matrix = checked_counts(counts)
        weights = TfidfTransformer().fit(matrix)
        return lambda counts: Moments(weights.transform(checked_counts(counts, matrix.shape[1])))


@dataclass(frozen=True)
class LatentSemantics:
    """The truncated singular value decomposition of tf-idf.

    Attributes:
        code: Dimensions; as many as there are documents or terms, where that is less.
        seed: Of its random projections.
    """

    code: int = 50
    seed: int = 0

    def fit(self, counts: Any) -> Codes:
        """See `DocumentCodes`."""
        weights = TfIdf().fit(counts)
        matrix: Any = weights(counts).mean
        projection = TruncatedSVD(min(self.code, *matrix.shape), random_state=self.seed)
        with np.errstate(invalid="ignore", divide="ignore"):  # it divides by a total variance that may be zero
            projection.fit(matrix)
        return lambda counts: Moments(projection.transform(weights(counts).mean).astype(np.float32))
