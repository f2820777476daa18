"""Links between nodes, predicted from their representations as distributions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from torchnpn.estimators import link_scores, state
from torchnpn.estimators.atomic import all_or_nothing
from torchnpn.estimators.link_inputs import checked_codes, checked_numbers, checked_pairs, checked_traits, links_among
from torchnpn.estimators.link_posterior import LinkPosterior, learn
from torchnpn.estimators.negative_pairs import negative_pairs
from torchnpn.estimators.pair_features import LENGTHS, USES, PairFeatures, Products, rooted, with_sums, with_traits
from torchnpn.estimators.validation import check_choice, check_flag, generator_of, is_number, short
from torchnpn.maps import accurate
from torchnpn.moments import Moments
from torchnpn.training import resolve_device

Array = NDArray[Any]
_ELEMENTS = 1 << 24  # scores, or features of pairs, that are in memory at a time


class LinkPredictor(BaseEstimator):  # type: ignore[misc]
    """Logistic regression on features of pairs of nodes, with a posterior over its weights (paper, Section 4.3).

    A node is known by a code with mean and variance, e.g. of an autoencoder. A pair has features that are products of
    the two codes; the model learns which of them speak for a link, from the links among the training nodes and from
    pairs without one, drawn at random.

    Args:
        pairs: "cosine": codes less their mean, scaled to one length, before they are multiplied; or "hadamard": as they
            are, the paper's.
        variance: What the codes' variances are used for. "none"; "features": products of log variances are features
            of their own; "predictive": the score is the log-odds, moderated by the variance of the products; "expected
            cosine": uncertain codes are shorter; "shrunk" and, half as strong, "weighted": uncertain dimensions of a
            code count less; "divergence": the symmetric divergence of the two codes is a feature for each dimension;
            "posterior": "divergence" of codes that are shrunk as in "shrunk", moderated as in "predictive"; "joint":
            "predictive" with sums of both nodes' codes, squares and log variances, made for codes with covariances.
        doubt: What the variances are multiplied by first: those of a network may be too small or too large for this.
        root: Whether to take square roots of the codes first, which must be ≥ 0; those of gamma and Poisson networks
            gain by it.
        sums: Whether sums of the two codes, and of their squares, are features beside the products: what makes a node
            link at all.
        negatives: How many pairs without a link to learn from: a share of all of them (a float below 1), or a number.
        precision: Of the weights' prior: "evidence" learns it, or a number above 0. Features are scaled to unit square.
        device: Where to learn and to score, e.g. "cuda".
        random_state: Seed of the pairs drawn.

    Attributes:
        coef_: Posterior means of the features' weights, (features,).
        intercept_: That of the intercept, for the share of links among the pairs learnt from, not that of the graph.
        precision_: Of the prior.
        pairs_: How many pairs there were with a link and without, to learn from.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> codes = np.repeat(np.eye(3), 20, axis=0) + rng.normal(scale=0.2, size=(60, 3))  # three communities
        >>> links = [(i, j) for i in range(60) for j in range(i) if i // 20 == j // 20 and rng.random() < 0.3]
        >>> model = LinkPredictor(variance="none", negatives=400, random_state=0).fit(codes, links)
        >>> within, between = model.predict_proba([(0, 1), (0, 59)])[:, 1]
        >>> bool(within > 0.5 > between)
        True
        >>> model.scores(rows=[0, 1], columns=range(60)).shape
        (2, 60)
    """

    coef_: Array
    intercept_: float
    precision_: float
    pairs_: tuple[int, int]
    features_: PairFeatures
    posterior_: LinkPosterior

    def __init__(
        self,
        pairs: str = "cosine",
        variance: str = "features",
        *,
        doubt: float = 1.0,
        root: bool = False,
        sums: bool = False,
        negatives: float = 0.001,
        precision: str | float = "evidence",
        device: str = "cpu",
        random_state: Any = None,
    ) -> None:
        self.pairs, self.variance, self.doubt = pairs, variance, doubt
        self.root, self.sums, self.negatives = root, sums, negatives
        self.precision, self.device, self.random_state = precision, device, random_state

    @all_or_nothing
    def fit(self, codes: Any, links: Any, nodes: Any = None, traits: Any = None) -> Self:
        """Learn from the links among some nodes.

        Args:
            codes: Of all nodes, also those of which links are to be predicted: `Moments` (nodes, n) of arrays or
                tensors, a pair (mean, variance) or (mean, covariance) with covariances (nodes, n, n) of the dimensions,
                or means alone, whose variance is zero. All but "predictive" and "joint" see only variances.
            links: (links, 2) numbers of nodes, undirected. Those with a node that is not in `nodes` are left out.
            nodes: Numbers of the training nodes; None takes all.
            traits: (nodes,) or (nodes, traits) numbers that are known of all nodes beside their codes, such as the log
                of a document's length; their products, sums and sums of squares are features.
        """
        self._check_settings()
        device = resolve_device(self.device)
        mean, variance = checked_codes(codes, device)
        if variance is None and self.variance != "none":
            raise ValueError(
                f"variance={self.variance!r} expects codes with variances, got means alone. Give npn.Moments(mean, "
                'variance), or take variance="none".'
            )
        if self.root and bool((mean < 0).any()):
            raise ValueError(f"root=True expects codes ≥ 0, got {float(mean.min()):.4g}. Leave root out.")
        count = len(mean)
        nodes = np.arange(count) if nodes is None else np.unique(checked_numbers(nodes, count, "nodes"))
        positive = links_among(checked_pairs(links, count, "links"), nodes)
        negative = nodes[negative_pairs(len(nodes), positive, self.negatives, generator_of(self.random_state))]
        if not len(positive) or not len(negative):
            raise ValueError(
                f"fit expects pairs with and without a link among the {len(nodes)} training nodes, got {len(positive)} "
                f"with and {len(negative)} without."
            )
        x = Moments(mean, None if variance is None else self.doubt * variance)
        if self.root:
            x = rooted(x)
        train = torch.from_numpy(nodes).to(device)
        self.features_ = USES[self.variance](x, train, LENGTHS[self.pairs])
        if self.sums:
            self.features_ = with_sums(self.features_, x, train)
        if traits is not None:
            self.features_ = with_traits(self.features_, checked_traits(traits, count).to(x.mean), train)
        self._check_size()
        self._learn(nodes[positive], negative)
        return self

    def _check_size(self) -> None:
        """Raise where float32 cannot hold what the products of codes, or of their variances, may be."""
        largest = max(part.largest for part in self.features_[:2] if part is not None)
        if not largest < torch.finfo(torch.float32).max:
            raise ValueError(
                f"codes expects numbers whose products float32 can hold, got some of {largest:.1g}. Divide codes by "
                "their spread, their variances by its square, or take a smaller doubt."
            )

    def _learn(self, positive: Array, negative: Array) -> None:
        products = self.features_.mean
        pairs = torch.from_numpy(np.concatenate([positive, negative])).to(products.left.device)
        x = torch.cat([products.of(part).double() for part in pairs.split(_rows(products.left.shape[1]))])
        unit = x.square().mean(0).sqrt()
        unit = torch.where(unit > 0, unit, torch.ones_like(unit))
        linked = torch.arange(len(x), device=x.device) < len(positive)
        found = learn(x / unit, linked, None if isinstance(self.precision, str) else float(self.precision))
        units = torch.cat([unit, unit.new_ones(1)])
        self._take(
            LinkPosterior(found.mean / units, found.covariance / torch.outer(units, units), found.precision),
            (len(positive), len(negative)),
        )

    def _take(self, posterior: LinkPosterior, pairs: tuple[int, int]) -> None:
        covariance = posterior.covariance.contiguous()  # by rows, as from a file: sums in one order, the same bits
        self.posterior_ = posterior._replace(covariance=covariance)
        self.precision_, self.pairs_ = posterior.precision, pairs
        self.coef_, self.intercept_ = posterior.mean[:-1].cpu().numpy(), float(posterior.mean[-1])

    def _check_settings(self) -> None:
        for name, known in (("pairs", LENGTHS), ("variance", USES)):
            check_choice(name, getattr(self, name), known)
        wanted = self.negatives
        if not is_number(wanted) or not (0 < wanted < 1 or (wanted >= 1 and wanted % 1 == 0)):
            raise ValueError(f"negatives expects a share above 0 and below 1, or a whole number, got {short(wanted)}.")
        for name in ("root", "sums"):
            check_flag(name, getattr(self, name))
        if not (is_number(self.doubt) and 0 <= self.doubt < math.inf):
            raise ValueError(f"doubt expects a finite number ≥ 0, got {short(self.doubt)}.")
        named = isinstance(self.precision, str) and self.precision == "evidence"
        if not named and not (is_number(self.precision) and 0 < self.precision < math.inf):
            raise ValueError(f'precision expects "evidence" or a number above 0, got {short(self.precision)}.')

    def decision_moments(self, pairs: Any) -> Moments:
        """Mean and variance of the log-odds of each pair, (pairs,), over weights and, where scores know them, codes."""
        a = self._log_odds(pairs)
        return Moments(a.mean.numpy(), a.variance.numpy())  # type: ignore[arg-type, union-attr]

    def predict_proba(self, pairs: Any) -> Array:
        """The expected probability of no link and of a link for each pair of node numbers, (pairs, 2)."""
        a = self._log_odds(pairs)
        probs: Array = np.stack([accurate.sigmoid(sign * a).mean.numpy() for sign in (-1.0, 1.0)], axis=1)
        return probs

    def _log_odds(self, pairs: Any) -> Moments:
        check_is_fitted(self, "posterior_")
        left = self.features_.mean.left
        index = torch.from_numpy(checked_pairs(pairs, len(left), "pairs")).to(left.device)
        found = [
            link_scores.pair_moments(part, self.features_, self.posterior_)
            for part in index.split(_rows(left.shape[1]))
        ]
        mean, variance = (torch.cat(parts).cpu() for parts in zip(*found, strict=True))
        return Moments(mean, variance)

    def score_blocks(self, rows: Any, columns: Any) -> Iterator[Tensor]:
        """Scores of all pairs, some rows at a time: float32 tensors (some rows, columns) on the device, in order.

        A score is the mean of the log-odds a, or with "predictive" and "posterior" a_m/√(1 + π/8 s), where s is what
        the codes' variances make of that of a; larger is likelier.
        """
        check_is_fitted(self, "posterior_")
        count, device = len(self.features_.mean.left), self.features_.mean.left.device
        across, down = (
            torch.from_numpy(checked_numbers(given, count, name)).to(device)
            for given, name in ((columns, "columns"), (rows, "rows"))
        )
        for part in down.split(_rows(len(across))):
            yield link_scores.score(part, across, self.features_, self.posterior_)

    def scores(self, rows: Any, columns: Any) -> Array:
        """Scores of all pairs of two lists of nodes, (rows, columns), float32; see `score_blocks`."""
        blocks: Array = np.concatenate([block.cpu().numpy() for block in self.score_blocks(rows, columns)])
        return blocks

    # Model files -------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All that predictions need, as plain values and arrays."""
        check_is_fitted(self, "posterior_")
        plain = {
            "settings": state.plain_settings(self.get_params(deep=False)),
            "precision": self.precision_,
            "pairs": list(self.pairs_),
        }
        arrays: dict[str, Any] = {
            "posterior.mean": self.posterior_.mean,
            "posterior.covariance": self.posterior_.covariance,
        }
        for name, products in (("mean", self.features_.mean), ("variance", self.features_.variance)):
            if products is not None:
                arrays |= {f"{name}.{part}": value for part, value in products._asdict().items()}
                if products.right is products.left:
                    del arrays[f"{name}.right"]
        if self.features_.entries is not None and not _is_diagonal(self.features_.entries):
            arrays["variance.entries"] = self.features_.entries
        return plain, arrays

    @classmethod
    def _from_state(cls, plain: dict[str, Any], arrays: dict[str, Any]) -> Self:
        """The inverse of `_state`; a ValueError for anything that `_state` cannot have written."""
        model = cls(**state.checked_settings(plain.get("settings"), set(cls().get_params(deep=False))))
        model._check_settings()
        precision, pairs = state.checked_number(plain.get("precision"), "precision"), plain.get("pairs")
        if not precision > 0 or not isinstance(pairs, list) or len(pairs) != 2:
            raise ValueError(
                f"A link model expects a precision above 0 and two numbers of pairs, got {precision}, {pairs}."
            )
        mean = _read_products(arrays, "mean")
        model.features_ = PairFeatures(mean)
        if model.variance in ("predictive", "posterior", "joint"):
            model.features_ = PairFeatures(mean, *_read_variance(arrays, mean))
        model._check_size()
        size = mean.features + 1
        posterior = LinkPosterior(
            torch.from_numpy(state.checked_array(arrays, "posterior.mean", (size,))),
            torch.from_numpy(state.checked_array(arrays, "posterior.covariance", (size, size))),
            precision,
        )
        state.check_covariance(posterior.covariance.numpy(), "posterior.covariance")
        model._take(posterior, (state.checked_count(pairs[0], "pairs"), state.checked_count(pairs[1], "pairs")))
        for kind, found, expected in zip(("values", "arrays"), (plain, arrays), model._state(), strict=True):
            if set(found) != set(expected):
                raise ValueError(f"A link model expects the {kind} {sorted(expected)}, got {sorted(found)}.")
        return model


def _read_products(arrays: dict[str, Any], name: str) -> Products:
    """Features from a file; where the two sides are one tensor, only the left is there."""
    left, feature = arrays[f"{name}.left"], arrays[f"{name}.feature"]
    right = arrays.get(f"{name}.right", left)
    for side in (left, right):
        if side.dtype != torch.float32 or side.ndim != 2 or side.shape != left.shape or not bool(side.isfinite().all()):
            raise ValueError(f"{name} expects finite float32 numbers (nodes, columns) of one shape, got others.")
    if feature.dtype != torch.int64 or feature.shape != left.shape[1:] or not left.numel():
        raise ValueError(f"{name}.feature expects a whole number for each of {left.shape[1]} columns, got others.")
    named = feature.unique()
    if not torch.equal(named, torch.arange(len(named))):
        raise ValueError(f"{name}.feature expects the numbers of features, from 0 on without a gap, got others.")
    return Products(left, right, feature)


def _read_variance(arrays: dict[str, Any], mean: Products) -> tuple[Products, Tensor]:
    """Variances or covariances of features from a file, and to which they belong; of variances that is not stored."""
    variance = _read_products(arrays, "variance")
    entries = arrays.get("variance.entries", torch.arange(variance.features).expand(2, -1).T)
    if entries.dtype != torch.int64 or entries.shape != (variance.features, 2):
        raise ValueError(f"variance.entries expects two whole numbers for each of {variance.features}, got others.")
    if len(variance.left) != len(mean.left) or entries.min() < 0 or entries.max() >= mean.features:
        raise ValueError("variance expects the nodes and the first features of mean, got others.")
    if _is_diagonal(entries) and bool((variance.left < 0).any() | (variance.right < 0).any()):
        raise ValueError("variance expects numbers ≥ 0, got others.")
    return variance, entries


def _is_diagonal(entries: Tensor) -> bool:
    return bool((entries[:, 0] == entries[:, 1]).all())


def _rows(columns: int) -> int:
    return max(1, _ELEMENTS // columns)
