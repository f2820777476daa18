"""The probabilistic linear transformation and the product of independent variables (paper, Eqs. 1-2): exact."""

from __future__ import annotations

import warnings

import scipy.sparse
import torch
from torch import Tensor

from torchnpn.maps.elementwise import check, check_together
from torchnpn.moments import Moments


def product(a: Moments, b: Moments) -> Moments:
    """Moments of xy for independent x ~ a, y ~ b of any family; the same as `a * b`."""
    check("product", a)
    check("product", b)
    check_together("product", a, b)
    return a * b


def linear(a: Moments | scipy.sparse.csr_matrix, W: Moments, b: Moments | None = None) -> Moments:
    """Moments of o = x Wᵀ + b for independent random x ~ a, W, b of any families (paper, Eqs. 1-2).

        o_m = a_m W_mᵀ + b_m,    o_s = (a_s + a_m²) W_sᵀ + a_s (W_m²)ᵀ + b_s:

    three products, two where the input is a point (a_s = None) or the weights are, one where both are.

    Args:
        a: Input (*replicas, batch, in_features); replica dimensions may be left out, to be shared. A point input may be
            sparse: a torch CSR tensor as `a.mean`, or a scipy CSR matrix as `a` itself; it is never made dense.
        W: Weights (*replicas, out_features, in_features).
        b: Biases (*replicas, out_features), or None.

    Returns:
        Output moments (*replicas, batch, out_features).
    """
    a = _from_scipy(a, W) if scipy.sparse.issparse(a) else a
    check_linear(a, W, b)
    a_m, a_s = a
    o_m = _matmul(a_m, W.mean)
    o_s = None if W.variance is None else _matmul(_squared(a_m) if a_s is None else a_s + a_m * a_m, W.variance)
    if a_s is not None:
        from_input = _matmul(a_s, W.mean * W.mean)
        o_s = from_input if o_s is None else o_s + from_input
    o = Moments(o_m, o_s)
    return o if b is None else o + _per_row(b, replicated=W.mean.dim() > 2 and a_m.dim() > 1)


def _matmul(x: Tensor, W: Tensor) -> Tensor:
    """x Wᵀ over leading replica dimensions; sparse x is multiplied by all replicas at once."""
    if x.layout == torch.sparse_csr:
        flat = torch.sparse.mm(x, W.reshape(-1, W.shape[-1]).mT)  # (batch, replicas · out)
        o: Tensor = flat.unflatten(-1, W.shape[:-1]).movedim(0, -2)
        return o
    return torch.matmul(x, W.mT)


def _squared(x: Tensor) -> Tensor:
    """x², sharing the index of a sparse x."""
    if x.layout == torch.sparse_csr:
        return _csr(x.crow_indices(), x.col_indices(), x.values() ** 2, tuple(x.shape))
    return x * x


def _per_row(b: Moments, replicated: bool) -> Moments:
    """Biases (*replicas, out) as (*replicas, 1, out) where there are replicas."""
    if not replicated:
        return b
    return Moments(b.mean.unsqueeze(-2), None if b.variance is None else b.variance.unsqueeze(-2))


def _from_scipy(a: scipy.sparse.csr_matrix, W: Moments) -> Moments:
    a = a.tocsr()
    rows, columns = (torch.as_tensor(part, dtype=torch.int64) for part in (a.indptr, a.indices))
    values = torch.as_tensor(a.data, dtype=W.mean.dtype)
    return Moments(_csr(rows, columns, values, a.shape).to(W.mean.device))


def _csr(rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse")  # torch's notice that CSR is in beta
        return torch.sparse_csr_tensor(rows, columns, values, shape)


def check_linear(a: Moments, W: Moments, b: Moments | None) -> None:
    check("linear", a)
    check("linear", W)
    if W.mean.dim() < 2 or a.mean.dim() < 1 or a.mean.shape[-1] != W.mean.shape[-1]:
        raise ValueError(
            f"linear expects weights (*replicas, out, in) and inputs (*replicas, batch, in) with the same number of in "
            f"features, got W.mean of shape {tuple(W.mean.shape)} and a.mean of shape {tuple(a.mean.shape)}."
        )
    if a.mean.layout == torch.sparse_csr and a.variance is not None:
        raise ValueError("linear expects a sparse input to be a point: Moments(x) without a variance. Densify x first.")
    if b is not None:
        check("linear", b)
        if b.mean.shape[-1:] != W.mean.shape[-2:-1]:
            raise ValueError(
                f"linear expects a bias for each of the {W.mean.shape[-2]} out features, got b.mean of shape "
                f"{tuple(b.mean.shape)}."
            )
