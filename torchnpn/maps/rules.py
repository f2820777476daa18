"""Quadrature rules, and sums over their nodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from torchnpn._torch import constant_under_compile

Rule = tuple[tuple[float, ...], ...]  # one tuple per node: its place, its weight or weights

_AT_ONCE = 2**20  # elements up to which all nodes are taken in one tensor: fewer, larger operations
_UNROLLED = 8  # nodes up to which a compiler gets one operation after the other


def legendre(points: int) -> Rule:
    """∫₀¹ g(t) dt ≈ Σ w_i g(t_i), exact for polynomials of degree 2 · points - 1."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return tuple(zip(((nodes + 1) / 2).tolist(), (weights / 2).tolist(), strict=True))


@constant_under_compile  # numpy is not to be traced
def hermite(points: int) -> Rule:
    """E g(z) ≈ Σ w_i g(z_i) for standard normal z, exact for polynomials of degree 2 · points - 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(points)
    return tuple(zip(nodes.tolist(), (weights / weights.sum()).tolist(), strict=True))


def total(terms: Callable[..., tuple[Tensor, ...]], rule: Rule, like: Tensor) -> tuple[Tensor, ...]:
    """Σ_i terms(*rule[i]), one sum for each tensor that `terms` gives; these have the shape of `like`.

    Small tensors on a CPU take all nodes at once along a new first dimension: there the number of operations counts.
    Elsewhere memory does, and one node follows the other. A compiler fuses either; it gets long rules at once, because
    its own time grows with the number of operations.
    """
    if torch.compiler.is_compiling():
        at_once = len(rule) > _UNROLLED
    else:
        at_once = like.device.type == "cpu" and like.numel() * len(rule) <= _AT_ONCE
    if at_once:
        columns = torch.tensor(rule, dtype=like.dtype, device=like.device).T
        return tuple(term.sum(0) for term in terms(*(column.view(-1, *(1,) * like.dim()) for column in columns)))
    sums = terms(*rule[0])
    for node in rule[1:]:
        sums = tuple(a + b for a, b in zip(sums, terms(*node), strict=True))
    return sums
