"""The linear transformation of sparse rows: the input is never made dense, and x and x² share one index.

A batch of sparse rows has one shape for every batch, so that a CUDA graph can hold the whole step. On a CUDA device
Triton kernels do the work; elsewhere torch's bags of embeddings do, with the columns of the weights as embeddings.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from torchnpn.finite import entering, exp
from torchnpn.kernels.choose import why_not_triton_sparse
from torchnpn.maps import careful_linear, may_look, saturated_sum
from torchnpn.moments import Moments, TiedMoments
from torchnpn.sparse import SparseBatch


def linear(x: SparseBatch, W: Moments | TiedMoments, b: Moments | None = None) -> Moments:
    """Moments of o = x Wᵀ + b for known sparse rows x (paper, Eqs. 1-2); x has no gradient.

        o_m = x W_mᵀ + b_m,    o_s = x² W_sᵀ + b_s,

    where tied variances W_s = r cᵀ make o_s = (x² c) rᵀ + b_s.

    Args:
        x: Rows (*replicas, batch, in_features); replica dimensions may be left out, to be shared.
        W: Weights (*replicas, out_features, in_features).
        b: Biases (*replicas, out_features), or None.

    Returns:
        Output moments (*replicas, batch, out_features); gradients to W are dense, and the same in every run.
    """
    _check(x, W.mean, b)
    if isinstance(W, Moments) and W.variance is not None and why_not_triton_sparse(x, W.mean) is None:
        from torchnpn.kernels.triton import sparse

        return _add(Moments(*sparse.products(x.columns, x.values, W.mean, W.variance)), b)
    W = type(W)(*(None if part is None else entering(part) for part in W))  # type: ignore[arg-type]
    o = Moments(_bags(x, x.values, W.mean), _variance(x, W))
    if may_look(Moments(x.values), W) and not _is_sound(x, o) and careful_linear.can_help(x.values, *W):
        o = careful_linear.linear(Moments(x.dense()), Moments(W.mean, W.variance))
    return _add(o, b)


def _variance(x: SparseBatch, W: Moments | TiedMoments) -> Tensor | None:
    """x² W_sᵀ."""
    if isinstance(W, TiedMoments):
        return _bags(x, x.values**2, W.by_input) * W.by_output.mT
    return None if W.variance is None else _bags(x, x.values**2, W.variance)


def _is_sound(x: SparseBatch, o: Moments) -> bool:
    """Whether no sum overflows, nor any in the gradients by the weights: sums of x and x²."""
    return careful_linear.is_finite(*o) and careful_linear.is_finite(x.values.square().sum())


def gaussian_linear(x: SparseBatch, W_m: Tensor, W_log_std: Tensor, b: Moments | None = None) -> Moments:
    """The same for weights learnt as W_s = exp(2ℓ): exp is taken of the columns that the rows name, and of no other."""
    if why_not_triton_sparse(x, W_m) is not None:
        return linear(x, Moments(W_m, exp(2 * entering(W_log_std))), b)
    from torchnpn.kernels.triton import sparse

    _check(x, W_m, b)
    return _add(Moments(*sparse.products(x.columns, x.values, W_m, W_log_std, log_std=True)), b)


def _bags(x: SparseBatch, values: Tensor, W: Tensor) -> Tensor:
    """Σ_k values_k W[:, columns_k], over leading replica dimensions."""
    *replicas, n_out, n_in = W.shape
    lead = torch.broadcast_shapes(tuple(replicas), x.columns.shape[:-2])
    table = W.expand(*lead, n_out, n_in).mT.reshape(-1, n_out)  # (replicas · in, out)
    batch, width = x.columns.shape[-2:]
    first = torch.arange(0, table.shape[0], n_in, device=W.device).view(*lead, 1, 1)
    columns = (x.columns + first).expand(*lead, batch, width).reshape(-1, width)
    each = values.to(W.dtype).expand(*lead, batch, width).reshape(-1, width)
    return functional.embedding_bag(columns, table, mode="sum", per_sample_weights=each).view(*lead, batch, n_out)


def _add(o: Moments, b: Moments | None) -> Moments:
    if b is not None:
        b = Moments(b.mean.unsqueeze(-2), None if b.variance is None else b.variance.unsqueeze(-2))
    return saturated_sum(o, b)


def _check(x: SparseBatch, W: Tensor, b: Moments | None) -> None:
    if W.dim() < 2 or x.columns.dim() < 2 or W.shape[-1] != x.features:
        raise ValueError(
            f"linear expects weights (*replicas, out, in) and sparse rows (*replicas, batch, in) with the same number "
            f"of in features, got W.mean of shape {tuple(W.shape)} and rows of shape {x.shape}."
        )
    if b is not None and b.mean.shape[-1:] != W.shape[-2:-1]:
        raise ValueError(
            f"linear expects a bias for each of the {W.shape[-2]} out features, got b.mean of shape "
            f"{tuple(b.mean.shape)}."
        )
