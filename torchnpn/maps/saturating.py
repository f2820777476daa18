"""Theorem 1 of the paper: the bounded activation whose moments are exact for every exponential family."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torchnpn.families import ExponentialFamily
from torchnpn.finite import cast, clamped, largest_log
from torchnpn.moments import Moments


def saturating(
    p: ExponentialFamily, tau: float, r: float = 1.0, q: float | None = None, statistic: int | None = None
) -> Moments:
    """Moments of v(x) = r - q exp(-τ u_i(x)) for x ~ p, any family (paper, Theorem 1).

    With Δ_k = log E exp(-kτ u(x)) = A(η - kτ e) - A(η) and δ = Δ_2 - 2 Δ_1 ≥ 0:
        a_m = r - q exp(Δ_1),    a_s = q² (exp(Δ_2) - exp(2 Δ_1)) = q² exp(Δ_2) (1 - exp(-δ)).

    Computed in at least float32. By default u is the family's own statistic: x for most, x² for Rayleigh, -log x for
    beta, …; or another of its sufficient statistics, such as log x of a gamma variable, v = r - q x^-τ. The moments of
    that exist for shapes c > 2τ only; where they do not, the type's largest numbers stand in their place.

    Args:
        p: Distribution of the neuron before the activation.
        tau: Rate τ > 0.
        r: Value where u is infinite.
        q: Height; `None` means r, so that v = 0 where u = 0.
        statistic: Number i of the statistic u_i, in the order of the family's natural parameters and counted from 0.
    """
    if not isinstance(tau, (int, float)) or not 0 < tau < float("inf"):
        raise ValueError(f"saturating expects tau, a finite Python number > 0, got {tau!r}.")
    q = r if q is None else q
    if not (math.isfinite(r) and math.isfinite(q)):
        raise ValueError(f"saturating expects finite numbers r and q, got r={r!r} and q={q!r}.")
    are_ordinary = max(abs(r), abs(q)) < torch.finfo(torch.float32).max
    wide = (p.widened() if are_ordinary else p.to(torch.float64)).entered()
    most = largest_log(wide.dtype)  # reached by Gaussian neurons alone, whose u = x may be far below zero
    once, twice = (wide.log_mean_exp(k * tau, statistic) for k in (1, 2))
    once, half = once.clamp(max=most), (0.5 * twice).clamp(max=most)
    gap = wide.log_mean_exp_gap(tau, statistic)  # δ, formed by the family without cancellation
    root = torch.exp(half)  # of exp(Δ_2), which may be beyond the type where a_s is not
    a_s = q * (q * clamped(root * (root * _one_minus_exp(-gap))))  # not exp(2Δ_1) expm1(δ): 0 · inf
    if abs(r) < abs(r - q):  # of two equal forms, the one with the smaller constant keeps the digits of small means
        a_m = r - q * torch.exp(once)
    else:
        a_m = (r - q) + q * _one_minus_exp(once)
    return Moments(cast(clamped(a_m), p.dtype), cast(clamped(a_s), p.dtype))


def _one_minus_exp(x: Tensor) -> Tensor:
    """1 - exp(x) for x ≤ 0, with its slope: autograd of expm1 multiplies by expm1(x) + 1, nothing once saturated."""
    saturated = x < -0.7
    low, high = torch.where(saturated, x, -1.0), torch.where(saturated, 0.0, x)
    return torch.where(saturated, 1 - torch.exp(low), -torch.expm1(high))
