"""Modules for sparse rows of words: corruption of the input, and the first layer."""

from __future__ import annotations

from typing import Any

import scipy.sparse
from torch import nn

from torchnpn.kernels import sparse as sparse_linear
from torchnpn.moments import Moments
from torchnpn.nn import Linear, dropout_mask
from torchnpn.sparse import SparseBatch, SparseRows


def as_words(x: Any) -> SparseBatch:
    """Rows of a scipy matrix as a batch; a batch as it is."""
    if scipy.sparse.issparse(x):
        return SparseRows.from_csr(x).all()
    if not isinstance(x, SparseBatch):
        raise TypeError(f"A network of words expects sparse rows, a CSR matrix, got {type(x).__name__}.")
    return x


class Masking(nn.Module):
    """Masking noise on words: in training each entry is dropped with probability p, and those kept grow by 1/(1 - p).

    Absent words stay absent, so the rows stay sparse; the mean over masks is the row itself.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Any) -> SparseBatch:
        words = as_words(x)
        if not self.training or self.p == 0:
            return words
        return words._replace(values=words.values * dropout_mask(words.values, self.p))

    def extra_repr(self) -> str:
        return f"p={self.p:g}"


class WordLinear(Linear):
    """o = x Wᵀ + b for sparse rows x that are uncertain: each entry has the variance of masking, p/(1 - p) x².

    With k = p/(1 - p) the variance is o_s = x² ((1 + k) W_s + k W_m²)ᵀ + b_s: one sparse product, as without noise.
    There is noise of p = `input_noise` in training and after it.
    """

    def __init__(self, in_features: int, out_features: int, *, input_noise: float = 0.0, **options: Any) -> None:
        super().__init__(in_features, out_features, **options)
        self.input_noise = input_noise

    def forward(self, a: Any) -> Moments:  # (batch, words) -> (batch, units)
        return self.noisy(a, self.input_noise)

    def noisy(self, x: SparseBatch, p: float) -> Moments:
        """The output for another p."""
        if p == 0:
            return super().forward(x)  # type: ignore[arg-type]
        k, (W_m, W_s) = p / (1 - p), self.weight.moments
        assert W_s is not None
        bias = None if self.bias is None else self.bias.moments
        return sparse_linear.linear(x, Moments(W_m, (1 + k) * W_s + k * W_m**2), bias)
