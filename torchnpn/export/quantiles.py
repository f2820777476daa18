"""Quantiles in a fixed number of operations: of a member in closed form, of a mixture by a search between its members'.

The quantile of a mixture lies between the least and the largest of its members'. Twice, the distribution function is
asked at `_POINTS` places of that interval at once, which leaves a thousandth of it; one step of Newton's method ends.
Everything is in units of the mixture: y = mean + std t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from scipy import special
from torch import Tensor

_POINTS, _ROUNDS = 31, 2


def of_gaussians(m: Tensor, s: Tensor, shares: Tensor, levels: Sequence[float]) -> Tensor:
    """Quantiles (rows, targets, levels) of Gaussian mixtures, m and s (members, rows, targets), in float64.

    The search is in float32, of which it needs four digits.
    """
    z = torch.tensor([float(special.ndtri(q)) for q in levels], dtype=torch.float64)
    if len(m) == 1:
        return m[0].unsqueeze(-1) + s[0].sqrt().unsqueeze(-1) * z
    w = shares.unsqueeze(-1)
    mean = (m.movedim(0, -1) @ w).squeeze(-1)
    spread = ((s + (m - mean) ** 2).movedim(0, -1) @ w).sqrt()  # (rows, targets, 1)
    d = ((m.movedim(0, -1) - mean.unsqueeze(-1)) / spread).float().unsqueeze(-2)  # (rows, targets, 1, members)
    std = (s.movedim(0, -1).sqrt() / spread).float().unsqueeze(-2)
    own = d + std * z.float().unsqueeze(-1)  # (rows, targets, levels, members)
    low, high = own.amin(-1, keepdim=True), own.amax(-1, keepdim=True)
    d, inverse = d.unsqueeze(-2), std.reciprocal().unsqueeze(-2) * math.sqrt(0.5)
    goal = 2 * torch.tensor(levels, dtype=torch.float64).float().unsqueeze(-1) - 1
    steps = torch.arange(1, _POINTS + 1, dtype=torch.float32)
    step, w = (high - low) / (_POINTS + 1), w.float()
    for _ in range(_ROUNDS):
        y = (low + step * steps).unsqueeze(-1)  # (rows, targets, levels, points, 1)
        risen = (torch.erf((y - d) * inverse) @ w).squeeze(-1)
        low = low + step * (risen < goal).float().sum(-1, keepdim=True)
        step = step * (1 / (_POINTS + 1))
    step = step * (_POINTS + 1)
    y = low + 0.5 * step
    x = (y.unsqueeze(-1) - d) * inverse
    lack = goal - (torch.erf(x) @ w).squeeze(-1)
    slope = ((torch.exp(-x * x) * inverse) @ w).squeeze(-1) * (2 / math.sqrt(math.pi))
    move = torch.maximum(torch.minimum(lack / slope.clamp_min(1e-30), 0.5 * step), -0.5 * step)
    return mean.unsqueeze(-1) + spread * (y + move).squeeze(-1).double()
