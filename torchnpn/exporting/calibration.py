"""Levels that rows held out have corrected, as a graph has them: P(x ≤ y) = mean over parts k of G_k(F_k(y))."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torchnpn.conformal import HeldOut
from torchnpn.exporting.quantiles import Levels

Array = NDArray[np.float64]
_BLOCK = 64  # levels that are compared at once


class Calibration:
    """How the networks of each part count, and what their levels mean; without rows held out all are one part.

    Args:
        shares: (members,) of the networks in the mixture.
        held_out: What is known of the levels, if anything; the networks of part k are k, k + parts, k + 2 parts, …
    """

    def __init__(self, shares: Tensor, held_out: HeldOut | None) -> None:
        knots = () if held_out is None else held_out.by_part
        count = len(knots) if len(shares) > 1 and len(knots) > 1 else 1
        member = torch.arange(len(shares))
        self.parts = [torch.where(member % count == k, shares, 0.0) for k in range(count)]
        self.parts = [part / part.sum() for part in self.parts]
        self.knots = [
            np.concatenate([np.zeros((1, u.shape[1])), np.sort(u, axis=0), np.ones((1, u.shape[1]))]) for u in knots
        ]

    @property
    def shares(self) -> Tensor:
        """Of the networks, for the mean and the variance of all parts."""
        return torch.stack(self.parts).mean(0)

    def levels(self, q: Array) -> Levels:
        """Where each part would have a quantile; one part alone has it just there."""
        levels = torch.from_numpy(q)
        if not self.knots:
            return Levels.of(levels[None], levels[None, None])
        own = torch.from_numpy(np.stack([_inverse(q, u) for u in self.knots]))
        return Levels.of(own[0] if len(self.parts) == 1 else levels[None], own)

    def together(self, below: Tensor, is_erf: bool = False) -> Tensor:  # (rows, targets, points)
        """P(x ≤ y) of all, from those of the networks, (rows, targets, members, points); or from 2P - 1 of them."""
        shares = torch.stack(self.parts).to(below.dtype)
        by_part = 0.5 + (0.5 * shares) @ below if is_erf else shares @ below
        if len(self.parts) == 1:
            return by_part.squeeze(-2)
        return torch.stack([_risen(by_part[:, :, k], u) for k, u in enumerate(self.knots)]).mean(0)


def _inverse(q: Array, knots: Array) -> Array:  # (levels,), (n + 2, targets) -> (targets, levels)
    """G⁻¹(q) for each target."""
    places = np.arange(len(knots)) / (len(knots) - 1)
    return np.stack([np.interp(q, places, u) for u in knots.T])


def _risen(F: Tensor, knots: Array) -> Tensor:  # (rows, targets, …) -> the same
    """G(F): a straight line between one knot and the next."""
    return torch.stack([_interpolated(F[:, j], torch.from_numpy(u.copy())) for j, u in enumerate(knots.T)], 1)


def _interpolated(F: Tensor, knots: Tensor) -> Tensor:
    """The place of F among rising knots, found in two steps: its block, then its place there."""
    count = len(knots) - 1
    blocks = -(-count // _BLOCK)
    padded = torch.cat([knots[:count], torch.full((blocks * _BLOCK - count,), torch.inf, dtype=torch.float64)])
    table = padded.view(blocks, _BLOCK)
    wide = F.double().clamp(0.0, 1.0).unsqueeze(-1)
    block = (table[1:, 0] <= wide).long().sum(-1)
    place = block * _BLOCK + (table[block] <= wide).long().sum(-1) - 1
    place = place.clamp_min(0)
    left, right = knots[place], knots[place + 1]
    share = (wide.squeeze(-1) - left) / (right - left).clamp_min(1e-300)
    return ((place.double() + share.clamp(0.0, 1.0)) / count).to(F.dtype)
