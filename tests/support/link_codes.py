"""Codes of nodes for tests of pair features, and how well links are found, by scipy and scikit-learn."""

from __future__ import annotations

import numpy as np
import torch
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score

from torchnpn.links import FeatureMap, LinkPredictor
from torchnpn.links.features import NORMALISATIONS
from torchnpn.moments import JointMoments, Moments

NODES, SIZE, TRAIN = 40, 6, 30
ALL = torch.cartesian_prod(torch.arange(NODES), torch.arange(NODES))


def codes(seed: int = 0) -> Moments:
    rng = np.random.default_rng(seed)
    return Moments(torch.tensor(rng.normal(1.0, 2.0, (NODES, SIZE))), torch.tensor(rng.gamma(1.0, 1.0, (NODES, SIZE))))


def joint_codes(seed: int = 0) -> JointMoments:
    """Codes with covariances."""
    root = np.random.default_rng(seed).normal(size=(NODES, SIZE, SIZE))
    return JointMoments(codes(seed).mean, torch.tensor(root @ root.swapaxes(1, 2)))


def features(make: FeatureMap, normalisation: str, x: Moments | JointMoments) -> list[np.ndarray | None]:
    """All features (nodes, nodes, features) of a map, and their variances."""
    found = make(x, torch.arange(TRAIN), NORMALISATIONS[normalisation])
    return [None if part is None else part.of(ALL).view(NODES, NODES, -1).numpy() for part in found[:2]]


def outer(values):  # (nodes, n) -> (nodes, nodes, n)
    return values[:, None] * values[None]


def unit(values):
    """Rows less the mean of the training nodes, of length √n."""
    centred = values - values[:TRAIN].mean(0)
    return np.sqrt(values.shape[1]) * centred / np.linalg.norm(centred, axis=1, keepdims=True)


def assert_symmetric(make: FeatureMap, normalisation: str) -> None:
    """Features do not know which node of a pair is the first."""
    for part in features(make, normalisation, codes()):
        if part is not None:
            np.testing.assert_allclose(part, part.swapaxes(0, 1), rtol=1e-9, atol=1e-9)


def assert_finite_where_certain(make: FeatureMap) -> None:
    """Codes that are certain, and constant but for one number."""
    mean = torch.ones(NODES, SIZE, dtype=torch.float64)
    mean[1, 0] = 2.0
    for part in features(make, "cosine", Moments(mean, torch.zeros_like(mean))):
        assert part is None or np.isfinite(part).all()


def rank_and_auc(model: LinkPredictor, links: np.ndarray, test: np.ndarray, train: np.ndarray) -> tuple[float, float]:
    """Of the neighbours that test nodes have among training nodes: means over nodes with a neighbour."""
    linked = np.zeros((1 + max(test.max(), train.max()),) * 2, bool)
    linked[tuple(np.transpose(links))] = True
    true, scores = (linked | linked.T)[np.ix_(test, train)], model.scores(test, train)
    true, scores = true[some := true.any(1)], scores[some]
    ranks = [rankdata(-row)[own].mean() for row, own in zip(scores, true, strict=True)]
    return float(np.mean(ranks)), float(np.mean([roc_auc_score(*both) for both in zip(true, scores, strict=True)]))
