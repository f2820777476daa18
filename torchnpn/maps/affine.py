"""The probabilistic linear transformation and the product of independent variables (paper, Eqs. 1-2): exact."""

from __future__ import annotations

import warnings
from typing import TypeVar

import scipy.sparse
import torch
from torch import Tensor

from torchnpn._torch import is_transformed
from torchnpn.finite import entering, saturated
from torchnpn.maps import careful_linear
from torchnpn.maps.elementwise import check_moments, check_together
from torchnpn.moments import Moments, TiedMoments, check_variance

Weights = Moments | TiedMoments
X = TypeVar("X", bound=Weights)


def product(a: Moments, b: Moments) -> Moments:
    """Moments of xy for independent x ~ a, y ~ b of any family; the same as `a * b`."""
    check_moments("product", a)
    check_moments("product", b)
    check_together("product", a, b)
    return a * b


def linear(a: Moments | scipy.sparse.csr_matrix, W: Weights, b: Moments | None = None) -> Moments:
    """Moments of o = x Wᵀ + b for independent random x ~ a, W, b of any families (paper, Eqs. 1-2).

        o_m = a_m W_mᵀ + b_m,    o_s = (a_s + a_m²) W_sᵀ + a_s (W_m²)ᵀ + b_s:

    three products, two where the input is a point (a_s = None) or the weights are, one where both are. Where variances
    of weights are tied, W_s = r cᵀ, the product with them is one with a vector and an outer product:

        o_s = ((a_s + a_m²) c) rᵀ + a_s (W_m²)ᵀ + b_s.

    On a CPU sums of products that overflow are taken again with care, so that every result is finite and right, or the
    type's largest number. Elsewhere nobody looks: what overflows is the largest number, but products beyond it of both
    signs in one sum, such as 1e30 · 1e30 - 1e30 · 1e30 in float32, give NaN.

    Args:
        a: Input (*replicas, batch, in_features); replica dimensions may be left out, to be shared. A point input may be
            sparse: a torch CSR tensor as `a.mean`, or a scipy CSR matrix as `a` itself; it is never made dense.
        W: Weights (*replicas, out_features, in_features), with a variance of each or tied ones.
        b: Biases (*replicas, out_features), or None.

    Returns:
        Output moments (*replicas, batch, out_features).
    """
    a = _from_scipy(a, W) if scipy.sparse.issparse(a) else a
    check_linear(a, W, b)
    for x in (a, W, *(() if b is None else (b,))):
        check_variance("linear", x)
    return plain_linear(a, W, b)


def plain_linear(a: Moments, W: Weights, b: Moments | None) -> Moments:
    """`linear` of arguments that need no check."""
    a, W, b = _entering(a), _entering(W), None if b is None else _entering(b)
    b = None if b is None else _per_row(b, replicated=W.mean.dim() > 2 and a.mean.dim() > 1)
    if not may_look(a, W):
        return saturated_sum(_products(a, W), b)
    o = _plain_sum(_products(a, W), b)
    if _is_sound(a, W, b, o) or not careful_linear.can_help(*a, *W):
        return o
    return saturated_sum(_carefully(a, W), b)


def _entering(x: X) -> X:
    """Leaves of the graph have finite gradients; what was computed passes its gradient on to formulas of its own."""
    if x.mean.layout == torch.sparse_csr:
        return x
    return type(x)(*(entering(part) if part is not None and part.is_leaf else part for part in x))  # type: ignore[arg-type]


def _products(a: Moments, W: Weights) -> Moments:
    a_m, a_s = a
    o_m, o_s = _matmul(a_m, W.mean), None
    if isinstance(W, TiedMoments):
        by_output = W.by_output.squeeze(-1) if a_m.dim() == 1 else W.by_output.mT
        o_s = _matmul(_second(a), W.by_input) * by_output
    elif W.variance is not None:
        o_s = _matmul(_second(a), W.variance)
    if a_s is not None:
        from_input = _matmul(a_s, W.mean * W.mean)
        o_s = from_input if o_s is None else o_s + from_input
    return Moments(o_m, o_s)


def _second(a: Moments) -> Tensor:
    """E a²."""
    return _squared(a.mean) if a.variance is None else a.variance + a.mean * a.mean


def saturated_sum(o: Moments, b: Moments | None) -> Moments:
    """o + b, kept finite; `o` is kept finite too where there is no b."""
    if b is not None:
        return o + b
    return Moments(saturated(o.mean), None if o.variance is None else saturated(o.variance))


def _plain_sum(o: Moments, b: Moments | None) -> Moments:
    if b is None:
        return o
    o_s = b.variance if o.variance is None else o.variance if b.variance is None else o.variance + b.variance
    return Moments(o.mean + b.mean, o_s)


def may_look(a: Moments, W: Weights) -> bool:
    """Whether values may be looked at: on a CPU, neither traced nor transformed."""
    return not torch.compiler.is_compiling() and all(
        t.device.type == "cpu" and not is_transformed(t) for t in (*a, *W) if t is not None
    )


def _is_sound(a: Moments, W: Weights, b: Moments | None, o: Moments) -> bool:
    """Whether matrix products can take these numbers: no sum overflows, here or in the backward pass."""
    if not torch.is_grad_enabled() or not any(t.requires_grad for t in o if t is not None):
        return careful_linear.is_finite(*o)
    x = Moments(a.mean.values()) if a.mean.layout == torch.sparse_csr else a
    return careful_linear.is_moderate(x, W, b)


def _carefully(a: Moments, W: Weights) -> Moments:
    W = Moments(W.mean, W.variance)
    if a.mean.layout == torch.sparse_csr:
        return _carefully(Moments(a.mean.to_dense()), W)
    if a.mean.dim() > 1:
        return careful_linear.linear(a, W)
    row = Moments(a.mean.unsqueeze(-2), None if a.variance is None else a.variance.expand_as(a.mean).unsqueeze(-2))
    o = careful_linear.linear(row, W)
    return Moments(o.mean.squeeze(-2), None if o.variance is None else o.variance.squeeze(-2))


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


def _from_scipy(a: scipy.sparse.csr_matrix, W: Weights) -> Moments:
    a = a.tocsr()
    rows, columns = (torch.as_tensor(part, dtype=torch.int64) for part in (a.indptr, a.indices))
    values = torch.as_tensor(a.data, dtype=W.mean.dtype)
    return Moments(_csr(rows, columns, values, a.shape).to(W.mean.device))


def _csr(rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse")  # torch's notice that CSR is in beta
        return torch.sparse_csr_tensor(rows, columns, values, shape)


def check_linear(a: Moments, W: Weights, b: Moments | None) -> None:
    check_moments("linear", a)
    if not isinstance(W, TiedMoments):
        check_moments("linear", W)
    elif (*W.by_output.shape[:-1], W.by_input.shape[-1]) != W.mean.shape:
        raise ValueError(
            f"linear expects tied weights of shapes (*replicas, out, in), (*replicas, out, 1), (*replicas, 1, in), got "
            f"{', '.join(str(tuple(part.shape)) for part in W)}."
        )
    if W.mean.dim() < 2 or a.mean.dim() < 1 or a.mean.shape[-1] != W.mean.shape[-1]:
        raise ValueError(
            f"linear expects weights (*replicas, out, in) and inputs (*replicas, batch, in) with the same number of in "
            f"features, got W.mean of shape {tuple(W.mean.shape)} and a.mean of shape {tuple(a.mean.shape)}."
        )
    if a.mean.layout == torch.sparse_csr and a.variance is not None:
        raise ValueError("linear expects a sparse input to be a point: Moments(x) without a variance. Densify x first.")
    if b is not None:
        check_moments("linear", b)
        if b.mean.shape[-1:] != W.mean.shape[-2:-1]:
            raise ValueError(
                f"linear expects a bias for each of the {W.mean.shape[-2]} out features, got b.mean of shape "
                f"{tuple(b.mean.shape)}."
            )
