"""Assumed density filtering of one row, with the derivatives of its evidence written out.

A step of probabilistic back-propagation is this and no more, so it must be short: no tape, few operations, and all
networks at once. The last column of a layer's weights is the bias; a layer is divided by √(its inputs, bias included).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from npn_studies.baselines.precision_factors import gamma_update
from npn_studies.baselines.predicted import gaussian_log_prob


class Posterior(NamedTuple):
    """q(weights) q(noise precision).

    Attributes:
        means: Of each layer's weights (networks, out, in + 1); the bias is the last column.
        variances: Of the same.
        shape: Of the noise precision's gamma distribution (networks, 1).
        rate: Of the same.
    """

    means: list[Tensor]
    variances: list[Tensor]
    shape: Tensor
    rate: Tensor

    @property
    def noise(self) -> Tensor:  # (networks, 1)
        """E 1/precision = rate / (shape - 1)."""
        return self.rate / (self.shape - 1)


class _Rectified(NamedTuple):
    """max(0, o) for o ~ N(m, s), and the derivatives of its moments."""

    mean: Tensor
    variance: Tensor
    mean_by_m: Tensor
    mean_by_s: Tensor
    variance_by_m: Tensor
    variance_by_s: Tensor


def _rectified(m: Tensor, s: Tensor) -> _Rectified:
    """With h = m/√s, g = φ(h) + h Φ(h): mean √s g, variance s (Φ(h) - g (g - h)); in float64 that is accurate enough.

    `maps.relu` keeps all digits of far tails, for five times as many operations.
    """
    std = s.sqrt()
    h = m / std
    above, below = (0.5 * torch.special.erfc(sign * math.sqrt(0.5) * h) for sign in (-1, 1))
    pdf = torch.exp(-0.5 * h * h) / math.sqrt(2 * math.pi)
    g, g_below = torch.addcmul(pdf, h, above), torch.addcmul(pdf, h, below, value=-1)
    mean = std * g
    variance = s * (above - g * g_below).relu()  # rounding can make it less than 0, and the truth is 0 there
    return _Rectified(mean, variance, above, 0.5 * pdf / std, 2 * mean * below, above - g * pdf)


def absorb(q: Posterior, x: Tensor, y: Tensor) -> None:  # (networks, inputs), (networks, 1)
    """Changes `q` to the posterior after one row more.

    With log Z = log N(y; o_m, o_s + rate/(shape - 1)) a weight N(m, v) gets
        m + v ∂log Z/∂m,    v - v² ((∂log Z/∂m)² - 2 ∂log Z/∂v).
    An update that would not leave a distribution (v ≤ 0, say) is not made.
    """
    o_m, o_s = x, torch.zeros_like(x)
    inputs, rectified = [], []
    for number, (M, V) in enumerate(zip(q.means, q.variances, strict=True)):
        if number:
            rectified.append(_rectified(o_m, o_s))
            o_m, o_s = rectified[-1][:2]
        a_m, a_s = functional.pad(o_m, (0, 1), value=1.0)[:, None], functional.pad(o_s, (0, 1))[:, None]  # and the bias
        second = torch.addcmul(a_s, a_m, a_m)
        inputs.append((a_m, a_s, second))
        o_m = (M * a_m).sum(-1) / math.sqrt(M.shape[-1])
        o_s = torch.addcmul(V * second, M * M, a_s).sum(-1) / M.shape[-1]  # (networks, out)

    more = torch.arange(3, dtype=y.dtype, device=y.device)
    log_z = gaussian_log_prob(y, o_m, o_s + q.rate / (q.shape - 1 + more))  # (networks, 3)
    total = o_s + q.noise
    g_m = (y - o_m) / total  # ∂log Z/∂o_m, then of the layers below
    g_s = 0.5 * (g_m * g_m - 1 / total)

    for number in reversed(range(len(q.means))):
        M, V, (a_m, a_s, second) = q.means[number], q.variances[number], inputs[number]
        to_m, to_s = g_m[..., None] / math.sqrt(M.shape[-1]), g_s[..., None] / M.shape[-1]  # (networks, out, 1)
        if number:
            r = rectified[number - 1]
            by_v = (V * to_s).sum(1)[:, :-1]  # (networks, in)
            by_m = (M * to_m).sum(1)[:, :-1] + 2 * r.mean * by_v
            by_s = by_v + (M * M * to_s).sum(1)[:, :-1]
            g_m, g_s = by_m * r.mean_by_m + by_s * r.variance_by_m, by_m * r.mean_by_s + by_s * r.variance_by_s
        slope_m = torch.addcmul(to_m * a_m, 2 * M, to_s * a_s)
        slope_v = to_s * second
        new_m = torch.addcmul(M, V, slope_m)
        new_v = V - V * V * (slope_m * slope_m - 2 * slope_v)
        sound = (new_v > 0) & new_v.isfinite() & new_m.isfinite()
        M.copy_(torch.where(sound, new_m, M))
        V.copy_(torch.where(sound, new_v, V))

    shape, rate = gamma_update(q.shape, q.rate, *log_z.split(1, 1))
    q.shape.copy_(shape)
    q.rate.copy_(rate)
