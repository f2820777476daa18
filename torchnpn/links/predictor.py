"""Links between nodes, predicted from their codes as distributions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from torchnpn import settings
from torchnpn.estimators import ArrayMoments, all_or_nothing, state
from torchnpn.io import StoredEstimator
from torchnpn.links import scores, stored
from torchnpn.links.codes import checked_codes
from torchnpn.links.features import FEATURES, NORMALISATIONS, FeatureMap, PairFeatures
from torchnpn.links.pairs import checked_nodes, checked_pairs, links_among, negative_pairs
from torchnpn.logistic import Rows, fit_posterior
from torchnpn.maps import accurate
from torchnpn.moments import JointMoments, Moments
from torchnpn.training import resolve_device

Array = NDArray[Any]
_ELEMENTS = 1 << 24  # scores, or features of pairs, that are in memory at a time
_MOST_ROUNDS, _PRECISION_CHANGE = 30, 1e-2  # of learning the prior's precision; a change of its logarithm to stop at


class LinkPredictor(StoredEstimator):
    """Logistic regression on features of pairs of nodes, with a posterior over its weights (paper, Section 4.3).

    A node is known by a code with mean and variance, e.g. of a `DocumentAutoencoder`. The model learns which features
    of a pair of codes speak for a link, from the links among the training nodes and from pairs without one, drawn at
    random.

    Args:
        features: "products": of the two means, and of the two log variances where codes have them, as in the paper;
            "joint": products whose covariances reduce the scores of uncertain pairs, and sums over both nodes, made for
            codes with covariances; or a function that makes `links.PairFeatures`, see `links.FeatureMap`.
        normalisation: "cosine": codes less their mean, scaled to one length, before they are multiplied; or "none": as
            they are, the paper's.
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
        >>> model = LinkPredictor(negatives=400, random_state=0).fit(codes, links)
        >>> within, between = model.predict_proba([(0, 1), (0, 59)])[:, 1]
        >>> print(f"{within:.2f} within a community, {between:.2f} between two")
        0.60 within a community, 0.03 between two
        >>> model.scores(rows=[0, 1], columns=range(60)).shape
        (2, 60)
    """

    coef_: Array
    intercept_: float
    precision_: float
    pairs_: tuple[int, int]
    features_: PairFeatures
    weights_: JointMoments

    def __init__(
        self,
        features: str | FeatureMap = "products",
        normalisation: str = "cosine",
        *,
        negatives: float = 0.001,
        precision: str | float = "evidence",
        device: str = "cpu",
        random_state: Any = None,
    ) -> None:
        self.features, self.normalisation = features, normalisation
        self.negatives, self.precision = negatives, precision
        self.device, self.random_state = device, random_state

    @all_or_nothing
    def fit(self, codes: Any, links: Any, nodes: Any = None) -> Self:
        """Learn from the links among some nodes.

        Args:
            codes: Of all nodes, also those of which links are to be predicted: `Moments` or `JointMoments`, a pair of
                arrays (mean, variance) or (mean, covariance) with covariances (nodes, n, n) of the dimensions, or means
                (nodes, n) alone. "products" uses only the variances of covariances.
            links: (links, 2) numbers of nodes, undirected. Those with a node that is not in `nodes` are left out.
            nodes: Numbers of the training nodes; None takes all.
        """
        self._check_settings()
        make_features = FEATURES.get(self.features) if isinstance(self.features, str) else self.features
        if not callable(make_features):
            named = ", ".join(f'"{name}"' for name in FEATURES)
            raise ValueError(f"features expects one of {named} or a function, got {settings.short(self.features)}.")
        device = resolve_device(self.device)
        x = checked_codes(codes, device)
        count = len(x.mean)
        nodes = np.arange(count) if nodes is None else np.unique(checked_nodes(nodes, count, "nodes"))
        positive = links_among(checked_pairs(links, count, "links"), nodes)
        negative = nodes[negative_pairs(len(nodes), positive, self.negatives, settings.generator_of(self.random_state))]
        if not len(positive) or not len(negative):
            raise ValueError(
                f"fit expects pairs with and without a link among the {len(nodes)} training nodes, got {len(positive)} "
                f"with and {len(negative)} without."
            )
        train = torch.from_numpy(nodes).to(device)
        self.features_ = make_features(x, train, NORMALISATIONS[self.normalisation])
        self._check_size()
        self._learn(nodes[positive], negative)
        return self

    def _check_size(self) -> None:
        """Raise where float32 cannot hold what the products of codes, or of their variances, may be."""
        largest = max(part.largest for part in self.features_[:2] if part is not None)
        if not largest < torch.finfo(torch.float32).max:
            raise ValueError(
                f"codes expects numbers whose products float32 can hold, got some of {largest:.1g}. Divide codes by "
                "their spread, and their variances by its square."
            )

    def _learn(self, positive: Array, negative: Array) -> None:
        products = self.features_.mean
        pairs = torch.from_numpy(np.concatenate([positive, negative])).to(products.left.device)
        x = torch.cat([products.of(part).double() for part in pairs.split(_rows(products.left.shape[1]))])
        unit = x.square().mean(0).sqrt()
        unit = torch.where(unit > 0, unit, torch.ones_like(unit))
        linked = (torch.arange(len(x), device=x.device) < len(positive)).double()
        found = fit_posterior(
            Rows(x / unit, None, linked, torch.ones_like(linked), intercept=True),
            self.precision if isinstance(self.precision, str) else float(self.precision),
            first_precision=1.0,
            max_iter=_MOST_ROUNDS,
            precision_tol=_PRECISION_CHANGE,
        )
        units = torch.cat([unit, unit.new_ones(1)])
        weights = JointMoments(found.mean / units, found.covariance / torch.outer(units, units))
        self._take(weights, float(found.precision[0]), (len(positive), len(negative)))

    def _take(self, weights: JointMoments, precision: float, pairs: tuple[int, int]) -> None:
        covariance = weights.covariance.contiguous()  # by rows, as from a file: sums in one order, the same bits
        self.weights_, self.precision_, self.pairs_ = weights._replace(covariance=covariance), precision, pairs
        self.coef_, self.intercept_ = weights.mean[:-1].cpu().numpy(), float(weights.mean[-1])

    def _check_settings(self) -> None:
        """Raise for settings that make no sense; which names `features` may have, only `fit` knows."""
        settings.check_choice("normalisation", self.normalisation, NORMALISATIONS)
        wanted = self.negatives
        if not settings.is_number(wanted) or not (0 < wanted < 1 or (wanted >= 1 and wanted % 1 == 0)):
            raise ValueError(
                f"negatives expects a share above 0 and below 1, or a whole number, got {settings.short(wanted)}."
            )
        settings.check_number("precision", self.precision, settings.POSITIVE, words=["evidence"])

    def decision_moments(self, pairs: Any) -> ArrayMoments:
        """Mean and variance of the log-odds of each pair, (pairs,), over weights and, with "joint", codes."""
        a = self._log_odds(pairs)
        return ArrayMoments(a.mean.numpy(), a.variance.numpy())  # type: ignore[union-attr]

    def predict_proba(self, pairs: Any) -> Array:
        """The expected probability of no link and of a link for each pair of node numbers, (pairs, 2)."""
        a = self._log_odds(pairs)
        probs: Array = np.stack([accurate.sigmoid(sign * a).mean.numpy() for sign in (-1.0, 1.0)], axis=1)
        return probs

    def _log_odds(self, pairs: Any) -> Moments:
        check_is_fitted(self, "weights_")
        left = self.features_.mean.left
        index = torch.from_numpy(checked_pairs(pairs, len(left), "pairs")).to(left.device)
        found = [scores.pair_moments(part, self.features_, self.weights_) for part in index.split(_rows(left.shape[1]))]
        mean, variance = (torch.cat(parts).cpu() for parts in zip(*found, strict=True))
        return Moments(mean, variance)

    def score_blocks(self, rows: Any, columns: Any) -> Iterator[Tensor]:
        """Scores of all pairs, some rows at a time: float32 tensors (some rows, columns) on the device, in order.

        A score is the mean of the log-odds a, or with "joint" a_m/√(1 + π/8 s), where s is what the codes' variances
        add to that of a; a larger score is a more probable link.
        """
        check_is_fitted(self, "weights_")
        count, device = len(self.features_.mean.left), self.features_.mean.left.device
        across, down = (
            torch.from_numpy(checked_nodes(given, count, name)).to(device)
            for given, name in ((columns, "columns"), (rows, "rows"))
        )
        for part in down.split(_rows(len(across))):
            yield scores.score(part, across, self.features_, self.weights_)

    def scores(self, rows: Any, columns: Any) -> Array:
        """Scores of all pairs of two lists of nodes, (rows, columns), float32; see `score_blocks`."""
        blocks: Array = np.concatenate([block.cpu().numpy() for block in self.score_blocks(rows, columns)])
        return blocks

    # Model files -------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All that predictions need, as plain values and arrays; of a function for `features` only its name."""
        check_is_fitted(self, "weights_")
        chosen = self.get_params(deep=False)
        if not isinstance(self.features, str):
            chosen["features"] = getattr(self.features, "__name__", type(self.features).__name__)
        plain = {
            "settings": state.plain_settings(chosen),
            "precision": self.precision_,
            "pairs": list(self.pairs_),
        }
        return plain, stored.arrays(self.features_, self.weights_)

    @classmethod
    def _from_state(cls, plain: dict[str, Any], arrays: dict[str, Any]) -> Self:
        """The inverse of `_state`; a ValueError for anything that `_state` cannot have written."""
        model = state.new_model(cls, plain)
        if not isinstance(model.features, str):  # of a function the file has the name
            raise ValueError(f"settings expects a name for features, got {settings.short(model.features)}.")
        model.features_ = stored.read_features(arrays, model.features)
        model._check_size()
        model._take(stored.read_weights(arrays, model.features_), *stored.read_values(plain))
        state.check_complete(plain, arrays, model)
        return model


def _rows(columns: int) -> int:
    return max(1, _ELEMENTS // columns)
