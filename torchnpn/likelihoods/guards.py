"""What keeps losses and gradients finite for every finite number of the type.

Latent numbers may go so far. Within the limits nothing changes; beyond, a number is drawn back by a smooth, rising
function, so that the loss stays finite and its gradient still points the right way. Latent values that far out mean
that training has gone astray.

Losses are formed in float64, in which the squares of float32 numbers are ordinary numbers. On the way back a gradient
that the narrower type cannot hold saturates at its largest number, as the loss itself does on the way out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchnpn import maps
from torchnpn._torch import has_values
from torchnpn.finite import applied
from torchnpn.moments import Moments

LOG_MEAN = 30.0  # means of amounts and counts are taken as they are from 1e-13 to 1e13
LOG_VARIANCE = 20.0  # noise variances and precisions from 2e-9 to 5e8, relative variances up to 5e8
FAR = 1e100  # float64 numbers beyond are drawn back to it: their squares, and quotients of these, would overflow
FOLDED_MEAN, FOLDED_VARIANCE, FOLDED_SCALE = 15.0, 4.0, 3.0
_MOST_VARIANCE = 1e30  # of a logit: beyond, nothing is known about the answer
_ORDINARY = 1e24  # a loss below has residuals below 1e17, and no gradient above 1e33
_ROWS = 2.0**-20  # of the largest number: a loss of so many rows can still be summed


def soft_clamp(x: Tensor, limit: Tensor | float) -> Tensor:
    """x for |x| ≤ limit; beyond, a rising function of x that stays within 1.1 · limit."""
    scaled = x / limit
    inner = scaled.clamp(-1.0, 1.0)
    excess = scaled - inner
    return limit * (inner + excess / (1 + 10 * excess.abs()))


def exp_of_parameter(logarithm: Tensor) -> Tensor:  # (*replicas, targets) -> (*replicas, 1, targets)
    """A learnt number above 0, from its logarithm, in float64."""
    return torch.exp(soft_clamp(widened(logarithm), LOG_VARIANCE)).unsqueeze(-2)


def clamp_straight_through(x: Tensor, low: float, high: float = torch.inf) -> Tensor:
    """x within [low, high], with the gradient of x itself: what has left the interval can find its way back."""
    fixed = x.detach()
    return fixed.clamp(low, high) + (x - fixed)


def logit(m: Tensor, s: Tensor) -> Moments:
    """The logit N(m, s), with m limited to where E σ(x) and E σ(-x) are above about 1e-25.

    Their tail is exp(-|m| + s/2) for small variances and Φ(-|m|/√s) for large ones: |m| ≤ √(50² + 90 s) covers both.
    """
    s = soft_clamp(s, _MOST_VARIANCE)
    return Moments(soft_clamp(m, torch.sqrt(2500 + 90 * s)), s)


def folded(m: Tensor, s: Tensor) -> Moments:
    """The logit N(m, s), with a variance of at most 4 and within ±15 (`soft_clamp`), of nearly the same probability.

    For s > 4 it is N(m √(7/(s + 3)), 4): E σ is right to 0.003. Sums over few nodes then give its moments, and
    "surely" is a ten-millionth.
    """
    excess = (s - FOLDED_VARIANCE).clamp_min(0.0)
    shrunk = m * torch.rsqrt(1 + excess / (FOLDED_VARIANCE + FOLDED_SCALE))
    return Moments(soft_clamp(shrunk, FOLDED_MEAN), s - excess)


def sigmoid_parts(x: Moments) -> tuple[Tensor, Tensor, Tensor]:
    """P = E σ(x), 1 - P with its own digits, and the share ρ = Var σ(x)/P(1 - P) in [0, 1], for a logit x."""
    above, V = maps.sigmoid(x)
    below = maps.sigmoid(-x).mean
    assert V is not None
    return above, below, (V / (above * below)).clamp_max(1.0)


class _Widened(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, dtype: torch.dtype) -> Tensor:
        return x.to(dtype) if x.dtype != dtype else x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.dtype = inputs[0].dtype

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        most = 0.5 * torch.finfo(ctx.dtype).max  # room for the sum of two such gradients
        return gradient.clamp(-most, most).nan_to_num(0.0).to(ctx.dtype), None


class _Narrowed(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, dtype: torch.dtype) -> Tensor:
        most = torch.finfo(dtype).max * _ROWS
        return x.clamp(-most, most).to(dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.dtype = inputs[0].dtype

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient.to(ctx.dtype), None


def widened(x: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    """x in the wider type; its gradient saturates, and is zero where it is undefined (∞ - ∞ beyond float64)."""
    wider = torch.promote_types(x.dtype, dtype)
    wide: Tensor = applied(_Widened, x, wider) if x.requires_grad else x.to(wider)
    return wide if x.dtype != torch.float64 else _near(wide)


def _near(x: Tensor) -> Tensor:
    """x itself, drawn back where it is beyond ±1e100."""
    inside = x.abs() <= FAR
    return torch.where(inside, x, soft_clamp(torch.where(inside, FAR, x), FAR))


def is_ordinary(*losses: Tensor) -> bool:
    """Whether losses in their own type are so far from its largest number that their gradients are finite, too.

    Known on the CPU only: a GPU would have to wait for the look, and a traced value has none.
    """
    if torch.compiler.is_compiling() or not all(loss.device.type == "cpu" and has_values(loss) for loss in losses):
        return False
    return all(bool(loss.detach().abs().amax() <= _ORDINARY) for loss in losses if loss.numel())


def narrowed(loss: Tensor, dtype: torch.dtype) -> Tensor:
    """A loss in the narrower type, at most a millionth of its largest number, with its own gradient."""
    narrow: Tensor = applied(_Narrowed, loss, dtype)
    return narrow
