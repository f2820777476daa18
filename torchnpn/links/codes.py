"""Codes of nodes, as `LinkPredictor` takes them: checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchnpn.moments import JointMoments, Moments
from torchnpn.rows import validation
from torchnpn.training import as_tensor

Codes = Moments | JointMoments  # (nodes, n); of independent dimensions, or with covariances (nodes, n, n)
_ROUNDING = 1e-4  # of a code's mean variance, by which a covariance may fall short of being one


def checked_codes(codes: Any, device: torch.device) -> Codes:
    """Codes in float32; a pair of arrays or tensors, (mean, variance) or (mean, covariance), or means alone."""
    if isinstance(codes, tuple) and len(codes) != 2:
        raise ValueError(f"codes expects means, or a pair of means and variances, got a tuple of {len(codes)}.")
    given, second = codes if isinstance(codes, tuple) else (codes, None)
    mean = _as_tensor(given).to(device, torch.float32)
    if mean.ndim != 2 or not mean.numel():
        raise ValueError(f"codes expects means (nodes, dimensions), got shape {tuple(mean.shape)}.")
    if not bool(mean.isfinite().all()):
        node = int((~mean.isfinite().all(1)).nonzero()[0])
        raise ValueError(f"codes expects finite means, got others at node {node}. Give such a node the mean code.")
    if second is None:
        return Moments(mean)
    spread = _as_tensor(second).to(device, torch.float32)
    if spread.shape == (*mean.shape, mean.shape[1]):
        _check_covariance(spread)
        return JointMoments(mean, spread)
    if spread.shape != mean.shape or not bool((spread.isfinite() & (spread >= 0)).all()):
        raise ValueError(
            f"codes expects finite variances ≥ 0 of the shape of the means {tuple(mean.shape)}, or covariances with "
            f"their last dimension twice, got shape {tuple(spread.shape)} or other values."
        )
    return Moments(mean, spread)


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


def _as_tensor(values: Any) -> Tensor:
    if isinstance(values, Tensor) and values.layout == torch.strided and not (values.is_meta or values.is_complex()):
        return values.detach()
    ready = type(values) is np.ndarray and values.dtype.kind in "iuf"
    return as_tensor(values if ready else validation.real_numbers(values, "codes"))
