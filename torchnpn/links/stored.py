"""The features and weights of a `LinkPredictor` as arrays, for model files, and back; nothing in them is trusted."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchnpn.io import checks
from torchnpn.links.features import PairFeatures, Products
from torchnpn.moments import JointMoments

Arrays = dict[str, Any]


def arrays(features: PairFeatures, weights: JointMoments) -> Arrays:
    """Features of all nodes and the posterior of the weights; what is there twice is stored once."""
    found: Arrays = {"posterior.mean": weights.mean, "posterior.covariance": weights.covariance}
    for name, products in (("mean", features.mean), ("variance", features.variance)):
        if products is not None:
            found |= {f"{name}.{part}": value for part, value in products._asdict().items()}
            if products.right is products.left:
                del found[f"{name}.right"]
    if features.entries is not None and not _is_diagonal(features.entries):
        found["variance.entries"] = features.entries
    return found


def read_values(plain: dict[str, Any]) -> tuple[float, tuple[int, int]]:
    """The prior's precision and the numbers of pairs."""
    precision = checks.not_negative("precision", plain.get("precision"))
    pairs = checks.entries("pairs", plain.get("pairs"))
    if not precision > 0 or len(pairs) != 2:
        raise ValueError(
            f"a link model should have a precision above 0 and two numbers of pairs, got {precision}, {pairs}"
        )
    return precision, (checks.size("pairs", pairs[0]), checks.size("pairs", pairs[1]))


def read_features(found: Arrays, name: str) -> PairFeatures:
    """Features of all nodes; those called "joint" have variances, "products" have none, others may."""
    mean = _read_products(found, "mean")
    if name == "joint" or (name != "products" and "variance.left" in found):
        return PairFeatures(mean, *_read_variance(found, mean))
    return PairFeatures(mean)


def read_weights(found: Arrays, features: PairFeatures) -> JointMoments:
    """The posterior of the weights of these features, and of the intercept."""
    size = features.mean.features + 1
    mean = checks.array("posterior.mean", found, (size,))
    covariance = checks.array("posterior.covariance", found, (size, size))
    return JointMoments(torch.from_numpy(mean), torch.from_numpy(checks.covariance("posterior.covariance", covariance)))


def _read_products(found: Arrays, name: str) -> Products:
    """Products from a file; where the two sides are one tensor, only the left is there."""
    left: Tensor = found[f"{name}.left"]
    feature: Tensor = found[f"{name}.feature"]
    right: Tensor = found.get(f"{name}.right", left)
    for side in (left, right):
        if side.dtype != torch.float32 or side.ndim != 2 or side.shape != left.shape or not bool(side.isfinite().all()):
            raise ValueError(f"{name} expects finite float32 numbers (nodes, columns) of one shape, got others.")
    if feature.dtype != torch.int64 or feature.shape != left.shape[1:] or not left.numel():
        raise ValueError(f"{name}.feature expects a whole number for each of {left.shape[1]} columns, got others.")
    named = feature.unique()
    if not torch.equal(named, torch.arange(len(named))):
        raise ValueError(f"{name}.feature expects the numbers of features, from 0 on without a gap, got others.")
    return Products(left, right, feature)


def _read_variance(found: Arrays, mean: Products) -> tuple[Products, Tensor]:
    """Variances or covariances of features from a file, and to which they belong; of variances that is not stored."""
    variance = _read_products(found, "variance")
    entries = found.get("variance.entries", torch.arange(variance.features).expand(2, -1).T)
    if entries.dtype != torch.int64 or entries.shape != (variance.features, 2):
        raise ValueError(f"variance.entries expects two whole numbers for each of {variance.features}, got others.")
    if len(variance.left) != len(mean.left) or entries.min() < 0 or entries.max() >= mean.features:
        raise ValueError("variance expects the nodes and the first features of mean, got others.")
    if _is_diagonal(entries) and bool((variance.left < 0).any() | (variance.right < 0).any()):
        raise ValueError("variance expects numbers ≥ 0, got others.")
    return variance, entries


def _is_diagonal(entries: Tensor) -> bool:
    return bool((entries[:, 0] == entries[:, 1]).all())
