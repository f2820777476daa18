"""Networks that check each other: each leaves out a part of the rows, and what it says of these decides its weight.

Every network is trained on four fifths of the rows. Its log-likelihood of the last fifth, which it has not seen, says
how good its settings are; a mixture of all settings, with the weights that make the rows left out most likely, is
better than the best setting alone (Wolpert: Stacked Generalization, 1992; Yao, Vehtari, Simpson, Gelman: Using Stacking
to Average Bayesian Predictive Distributions, 2018).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Array = NDArray[Any]
FOLDS = 5
LEAST_ROWS = 20
UNITS = (50, 50)
KL_WEIGHTS = 0.1, 0.3, 1.0, 3.0
LEARNING_RATE = 1e-2
_STEPS = 2_500, 20_000
_ROUNDS = 500  # of expectation and maximisation
_LEAST_SHARE = 0.01  # of a setting; others are left out, which makes predictions faster


class Folds(NamedTuple):
    """Which rows each of the networks sees: for every setting, one network for each part that is left out.

    Network number `setting · FOLDS + fold` leaves out the rows of its fold.
    """

    fold: Array  # (rows,) in which part each row is
    subsets: Array  # (settings · FOLDS, n) numbers of the rows that each network sees

    @classmethod
    def draw(cls, rows: int, settings: int, seed: int) -> Self:
        """Parts of the same size or, where they are not, one row less for some networks."""
        order = np.random.default_rng(seed).permutation(rows)
        fold = np.empty(rows, np.int64)
        fold[order] = np.arange(rows) % FOLDS
        seen = [order[fold[order] != k] for k in range(FOLDS)]
        least = min(map(len, seen))
        return cls(fold, np.tile(np.stack([numbers[:least] for numbers in seen]), (settings, 1)))

    def left_out(self, by_network: Array) -> Array:  # (settings · FOLDS, rows) -> (settings, rows)
        """For each setting and row, what the network says that has not seen it."""
        return by_network.reshape(-1, FOLDS, len(self.fold))[:, self.fold, np.arange(len(self.fold))]


def steps(rows: int) -> int:
    """Of training: 2,500, and one for each two rows beyond so many, up to a limit."""
    least, most = _STEPS
    return min(max(least, least + (rows - least) // 2), most)


def weights(log_likelihood: Array, row_weight: Array | None = None) -> Array:  # (settings, rows) -> (settings,)
    """Weights w of a mixture that make rows most likely: the maximum of Σ_i v_i log Σ_s w_s p_s(y_i).

    The function is concave, and each round w_s ← Σ_i v_i r_is, with the share r_is that setting s has in the likelihood
    of row i, takes it uphill.

    Args:
        log_likelihood: log p_s(y_i) of rows that setting s has not seen.
        row_weight: v; all rows count the same if it is None.
    """
    v = np.ones(log_likelihood.shape[1]) if row_weight is None else row_weight
    v = v / v.sum()
    finite = np.maximum(log_likelihood, log_likelihood.max(0) - 700)  # a setting may be sure that a row cannot be
    w = np.full(len(finite), 1 / len(finite))
    for _ in range(_ROUNDS):
        joint = np.log(w)[:, None] + finite
        w = np.maximum(np.exp(joint - logsumexp(joint, axis=0)) @ v, 1e-300)
    w[w < _LEAST_SHARE * w.max()] = 0.0
    found: Array = w / w.sum()
    return found
