"""Networks that check each other: each leaves out a part of the rows, and what it says of these decides its weight.

Every network is trained on four fifths of the rows. Its log-likelihood of the last fifth, which it has not seen, says
how good its settings are; a mixture of all settings, with the weights that make the rows left out most likely, is
better than the best setting alone (Wolpert: Stacked Generalization, 1992; Yao, Vehtari, Simpson, Gelman: Using Stacking
to Average Bayesian Predictive Distributions, 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from torchnpn.io import checks
from torchnpn.likelihoods import Likelihood
from torchnpn.nn import Ensemble, Sequential, with_members
from torchnpn.settings import check_hidden

Array = NDArray[Any]
FOLDS = 5
LEAST_ROWS = 20
_STEPS = 1_250
_SMALL = (50, 50)
_LINE_KL_WEIGHTS = 0.1, 1.0, 3.0, 8.0
_FEW_ROWS, _MANY_ROWS = 2_500, 10_000
_MANY_FEATURES = 600
_RATE_OF_MANY = 0.003  # a step changes an output by as much as all its inputs together, and the noise then runs away
_WORK = 1_000_000  # inputs times steps
_ROUNDS = 500  # of expectation and maximisation
_LEAST_SHARE = 0.02  # of a setting; others are left out, which makes predictions faster


class Candidates(NamedTuple):
    """Networks of one shape: for each weight of the KL, one for each fold."""

    units: tuple[int, ...]  # of hidden layers; none for a straight line
    kl_weights: tuple[float, ...]
    steps: int  # of training
    encoded: bool = True  # whether they see the bins beside the features
    most_rate: float = 1.0  # that they are trained with

    @property
    def members(self) -> int:
        return len(self.kl_weights) * FOLDS

    @property
    def member_kl_weights(self) -> Array:
        return np.repeat(self.kl_weights, FOLDS)


def candidates(
    rows: int, features: int, inputs: int, kl_weights: tuple[float, ...], effort: str = "default"
) -> list[Candidates]:
    """Networks that are tried on a table: small ones, a straight line, and where there are rows enough, wide ones.

    Chosen on half of the tables of the benchmark. Many members of a small network tell how far to trust the rows; a few
    of a wide one learn what only thousands of rows can show; the line is a floor, since a table of few rows, or of many
    columns, may show nothing else. Some see the bins and some the features alone: one learns bends that the other finds
    late, and pays for all its inputs where rows are few. On a table of very many columns most of the time goes into the
    first layer, so its networks are narrow.

    Args:
        rows: That one network sees.
        features: Inputs without bins.
        inputs: With bins.
        kl_weights: For the small networks, from the least.
        effort: "default", or "best" for three times the work.
    """
    much, few = effort == "best", rows < _FEW_ROWS
    line = Candidates((), _LINE_KL_WEIGHTS, _STEPS, encoded=False)
    if features > _MANY_FEATURES:
        narrow = Candidates((20,), (1.0,), _STEPS * (1 + much) // 2, encoded=False)
        line = line._replace(kl_weights=_LINE_KL_WEIGHTS[1:])
        return [one._replace(most_rate=_RATE_OF_MANY) for one in (narrow, line)]
    steps = _steps(rows, inputs, _STEPS * (1 + (much or not few)))
    if inputs == features:
        tried = (*kl_weights[1:], 3 * kl_weights[-1]) if few else kl_weights if much else kl_weights[:3]
        small, lines = [Candidates(_SMALL, tried, steps, encoded=False)], [line]
    else:
        with_bins, without = kl_weights[::2], kl_weights[1::2] if few else kl_weights[:3]
        if much:
            with_bins = without = kl_weights
        small = [Candidates(_SMALL, with_bins, steps), Candidates(_SMALL, without, steps, encoded=False)]
        lines = [Candidates((), _LINE_KL_WEIGHTS[1:3], _STEPS), line]
    if few and not much:
        return [*small, *lines]
    wide = Candidates((128, 128), kl_weights[: 1 + much], _steps(rows, inputs, _STEPS * (1 + much)))
    if rows < _MANY_ROWS or much:
        return [*small, wide, *lines]
    return [small[0]._replace(kl_weights=kl_weights[1:2]), wide]


def _steps(rows: int, inputs: int, least: int) -> int:
    """Of training: more for many rows, up to what a step of so many inputs allows."""
    return int(min(max(least, rows // 4), max(least, _WORK // (inputs + 100))))


class Mixing(NamedTuple):
    """Which networks a mixture has, and how much each counts."""

    shapes: tuple[tuple[tuple[int, ...], int], ...]  # inputs and hidden units, and how many networks have them
    weights: Array  # (members,) > 0, with a sum of one

    def plain_shapes(self) -> list[Any]:
        """What a model file holds of the shapes."""
        return [{"inputs": first, "hidden": units, "members": count} for (first, *units), count in self.shapes]

    @classmethod
    def from_file(cls, plain: Any, arrays: dict[str, Any]) -> Self:
        """The inverse; a ValueError for anything that cannot have been written."""
        shapes = []
        for entry in checks.entries("mixture", plain):
            shape = checks.with_keys("a part of the mixture", entry, ("inputs", "hidden", "members"))
            check_hidden(shape["hidden"])
            sizes = checks.size("inputs", shape["inputs"]), *shape["hidden"]
            shapes.append((sizes, checks.size("members", shape["members"])))
        weights = checks.array("weights", arrays, (sum(count for _, count in shapes),))
        if not ((weights > 0).all() and abs(weights.sum() - 1) < 1e-6):
            raise ValueError("weights should be above zero, with a sum of one")
        return cls(tuple(shapes), weights)


class Trained(NamedTuple):
    """Candidates once they are trained."""

    tried: Candidates
    inputs: int
    network: Sequential
    likelihood: Likelihood
    left_out: Array  # (weights of the KL, rows) log-likelihood of each row by a network that has not seen it


class Mixture(NamedTuple):
    """Networks of several shapes, and how much each counts."""

    network: Ensemble
    likelihood: Likelihood
    mixing: Mixing


def mixture(
    parts: Sequence[Trained], row_weight: Array | None, likelihood: Callable[[tuple[int, ...]], Likelihood]
) -> Mixture:
    """The mixture that makes the rows left out most likely, of those networks that count.

    Args:
        parts: What was trained.
        row_weight: (rows,) how much each row counts.
        likelihood: Makes one for so many networks.
    """
    shares = weights(np.concatenate([part.left_out for part in parts]), row_weight)
    ends = np.cumsum([len(part.tried.kl_weights) for part in parts])
    networks, likelihoods, shapes, every = [], [], [], []
    for part, share in zip(parts, np.split(shares, ends[:-1]), strict=True):
        by_member = np.repeat(share / FOLDS, FOLDS)
        if len(kept := np.flatnonzero(by_member)):
            networks.append(with_members(part.network, kept))
            likelihoods.append(with_members(part.likelihood, kept))
            shapes.append(((part.inputs, *part.tried.units), len(kept)))
            every.append(by_member[kept])
    together = likelihood((sum(count for _, count in shapes),))
    with torch.no_grad():
        for parameter, *each in zip(*(one.parameters() for one in (together, *likelihoods)), strict=True):
            parameter.copy_(torch.cat(each))
    return Mixture(Ensemble(networks), together, Mixing(tuple(shapes), np.concatenate(every)))


class Folds(NamedTuple):
    """Which rows each of the networks sees: for every setting, one network for each part that is left out.

    Network number `setting · FOLDS + fold` leaves out the rows of its fold.
    """

    fold: Array  # (rows,) in which part each row is
    subsets: Array  # (settings · FOLDS, n) numbers of the rows that each network sees

    @classmethod
    def draw(cls, same: Array, settings: int, seed: int) -> Self:
        """Parts of the same size, or of nearly that size: some networks then see a few rows less than they might.

        Args:
            same: (rows,) a number for each row; rows with the same number come into the same part (`rows.copies`).
            settings: How many networks there are for each part.
            seed: Of the draw.
        """
        numbers, which = np.unique(same, return_inverse=True)
        part = np.empty(len(numbers), np.int64)
        part[np.random.default_rng(seed).permutation(len(numbers))] = np.arange(len(numbers)) % FOLDS
        fold, order = part[which], np.random.default_rng(seed).permutation(len(same))
        seen = [order[fold[order] != k] for k in range(FOLDS)]
        least = min(map(len, seen))
        return cls(fold, np.tile(np.stack([numbers[:least] for numbers in seen]), (settings, 1)))

    def left_out(self, by_network: Array) -> Array:  # (settings · FOLDS, rows) -> (settings, rows)
        """For each setting and row, what the network says that has not seen it."""
        return by_network.reshape(-1, FOLDS, len(self.fold))[:, self.fold, np.arange(len(self.fold))]


def weights(log_likelihood: Array, row_weight: Array | None = None) -> Array:  # (settings, rows) -> (settings,)
    """Weights w of a mixture that make rows most likely: the maximum of Σ_i v_i log Σ_s w_s p_s(y_i).

    The function is concave, and each round w_s ← Σ_i v_i r_is, with the share r_is that setting s has in the likelihood
    of row i, takes it uphill.

    Args:
        log_likelihood: log p_s(y_i) of rows that setting s has not seen.
        row_weight: v; all rows count the same if it is None.
    """
    v = np.ones(log_likelihood.shape[1]) if row_weight is None else row_weight
    relative = np.exp(np.maximum(log_likelihood - log_likelihood.max(0), -700.0))  # none is sure that a row cannot be
    w = np.full(len(relative), 1 / len(relative))
    for _ in range(_ROUNDS):
        w = w * (relative @ (v / (w @ relative))) / v.sum()
    w[w < _LEAST_SHARE * w.max()] = 0.0
    found: Array = w / w.sum()
    return found
