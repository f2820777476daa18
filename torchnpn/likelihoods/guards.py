"""What keeps losses and gradients finite for every finite number of the type.

Losses are formed in float64, in which the squares of float32 numbers are ordinary numbers. On the way back a gradient
that the narrower type cannot hold saturates at its largest number, as the loss itself does on the way out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchnpn._torch import has_values
from torchnpn.finite import applied
from torchnpn.likelihoods.limits import soft_clamp

FAR = 1e100  # float64 numbers beyond are drawn back to it: their squares, and quotients of these, would overflow
_ORDINARY = 1e24  # a loss below has residuals below 1e17, and no gradient above 1e33
_ROWS = 2.0**-20  # of the largest number: a loss of so many rows can still be summed


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
