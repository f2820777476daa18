"""What `LinkPredictor` is given, checked: codes, traits, numbers of nodes, pairs and links."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torchnpn.estimators.validation import plain_values, real_numbers, short
from torchnpn.training.data import as_tensor

_ROUNDING = 1e-4  # of a code's mean variance, by which a covariance may fall short of being one


def checked_codes(codes: Any, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Mean (nodes, n) and variance or covariance (nodes, n, n), float32; None for it where only means were given."""
    if isinstance(codes, tuple) and len(codes) != 2:
        raise ValueError(f"codes expects means, or a pair of means and variances, got a tuple of {len(codes)}.")
    mean, second = codes if isinstance(codes, tuple) else (codes, None)
    mean = _as_tensor(mean, "codes").to(device, torch.float32)
    if mean.ndim != 2 or not mean.numel():
        raise ValueError(f"codes expects means (nodes, dimensions), got shape {tuple(mean.shape)}.")
    if not bool(mean.isfinite().all()):
        node = int((~mean.isfinite().all(1)).nonzero()[0])
        raise ValueError(f"codes expects finite means, got others at node {node}. Give such a node the mean code.")
    if second is None:
        return mean, None
    second = _as_tensor(second, "codes").to(device, torch.float32)
    if second.shape == (*mean.shape, mean.shape[1]):
        _check_covariance(second)
    elif second.shape != mean.shape or not bool((second.isfinite() & (second >= 0)).all()):
        raise ValueError(
            f"codes expects finite variances ≥ 0 of the shape of the means {tuple(mean.shape)}, or covariances with "
            f"their last dimension twice, got shape {tuple(second.shape)} or other values."
        )
    return mean, second


def _check_covariance(covariance: Tensor) -> None:  # (nodes, n, n)
    """Raise unless each is symmetric with no eigenvalue below zero, but for rounding."""
    finite = covariance.isfinite().all(2).all(1)
    size = torch.where(finite, covariance.diagonal(dim1=1, dim2=2).mean(1), 0.0)[:, None, None]
    symmetric = ((covariance - covariance.mT).abs() <= _ROUNDING * size).all(2).all(1)
    raised = covariance + (_ROUNDING * size + torch.finfo(size.dtype).tiny) * torch.eye(
        covariance.shape[1], device=size.device
    )
    valid = finite & symmetric & (torch.linalg.cholesky_ex(raised).info == 0)
    if not bool(valid.all()):
        node = int((~valid).nonzero()[0])
        raise ValueError(
            "codes expects covariances that are finite, symmetric and without eigenvalues below 0, got another at node "
            f"{node}. For variances alone, give their diagonal."
        )


def _as_tensor(values: Any, name: str) -> Tensor:
    if isinstance(values, Tensor) and values.layout == torch.strided and not (values.is_meta or values.is_complex()):
        return values.detach()
    ready = type(values) is np.ndarray and values.dtype.kind in "iuf"
    return as_tensor(values if ready else real_numbers(values, name))


def checked_traits(traits: Any, count: int) -> Tensor:  # (nodes, traits)
    values = _as_tensor(traits, "traits").double()
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) != count or not values.numel():
        raise ValueError(f"traits expects numbers for each of {count} nodes, got shape {tuple(values.shape)}.")
    if not bool(values.isfinite().all()):
        raise ValueError("traits expects finite numbers, got NaN or infinity. Fill in what is not known.")
    return values


def checked_numbers(given: Any, count: int, name: str) -> NDArray[np.int64]:
    """Numbers of nodes, one after the other."""
    array = _node_numbers(given, count, name)
    if array.ndim != 1:
        raise ValueError(f"{name} expects a list of nodes, got shape {array.shape}.")
    return array


def _node_numbers(given: Any, count: int, name: str) -> NDArray[np.int64]:
    """Numbers of nodes, in whatever shape."""
    try:
        array = np.asarray(plain_values(given) if hasattr(given, "shape") else list(given))
    except (TypeError, ValueError):  # of what is no list, or one of lists of different lengths
        raise ValueError(f"{name} expects numbers of nodes, got {short(given)}.") from None
    if not array.size:
        raise ValueError(f"{name} expects at least one node, got none.")
    if array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= count:
        wrong = array[(array < 0) | (array >= count)] if array.dtype.kind in "iu" else array
        raise ValueError(f"{name} expects whole numbers from 0 to {count - 1}, got {short(wrong.reshape(-1)[0])}.")
    return array.astype(np.int64)


def checked_pairs(given: Any, count: int, name: str) -> NDArray[np.int64]:
    pairs = _node_numbers(given, count, name)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"{name} expects pairs of nodes (pairs, 2), got shape {pairs.shape}.")
    return pairs


def links_among(links: NDArray[np.int64], nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Links between `nodes`, by their places there: i < j, each once; self-links are left out."""
    place = np.full(max(int(links.max()), int(nodes.max())) + 1, -1)
    place[nodes] = np.arange(len(nodes))
    ends = np.sort(place[links], axis=1)
    ends = ends[(ends[:, 0] >= 0) & (ends[:, 0] < ends[:, 1])]
    keys = np.sort(ends @ np.array([len(nodes), 1]))  # a number for each pair: ten times as fast as unique rows
    first = np.diff(keys, prepend=-1) > 0
    return np.stack(np.divmod(keys[first], len(nodes)), axis=1)
