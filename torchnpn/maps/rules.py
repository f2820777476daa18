"""Quadrature rules as plain numbers, so that compilers see constants."""

from __future__ import annotations

import numpy as np

Rule = tuple[tuple[float, float], ...]  # (node, weight) pairs


def legendre(points: int) -> Rule:
    """∫₀¹ g(t) dt ≈ Σ w_i g(t_i), exact for polynomials of degree 2 · points - 1."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return tuple(zip(((nodes + 1) / 2).tolist(), (weights / 2).tolist(), strict=True))


def hermite(points: int) -> Rule:
    """E g(z) ≈ Σ w_i g(z_i) for standard normal z, exact for polynomials of degree 2 · points - 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(points)
    return tuple(zip(nodes.tolist(), (weights / weights.sum()).tolist(), strict=True))
