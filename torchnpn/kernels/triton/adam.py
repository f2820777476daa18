"""One step of Adam, in place: on any tensor, and as a function of tiles for kernels that have the gradient."""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024


def adam_(x: Tensor, gradient: Tensor, averages: Tensor, now: Tensor, b1: float, b2: float, epsilon: float) -> None:
    """See `kernels.adam_`; `x` and `averages` are contiguous."""
    replicas = len(now)
    size = x.numel() // replicas
    adam_kernel[(triton.cdiv(size, _BLOCK), replicas)](
        x, gradient.contiguous(), averages, now, size, B1=b1, B2=b2, EPSILON=epsilon, BLOCK=_BLOCK
    )


@triton.jit
def adam_at(x, g, averages, size, at, inside, rate, correction, B1: tl.constexpr, B2: tl.constexpr, E: tl.constexpr):
    """One step of Adam on the numbers x, with averages in memory, `size` numbers apart; the new x."""
    m = B1 * tl.load(averages + at, mask=inside, other=0.0) + (1 - B1) * g
    v = B2 * tl.load(averages + size + at, mask=inside, other=0.0) + (1 - B2) * g * g
    tl.store(averages + at, m, mask=inside)
    tl.store(averages + size + at, v, mask=inside)
    return x - rate * m / (tl.sqrt(v) * correction + E)


@triton.jit
def adam_kernel(
    x, g, averages, now, size, B1: tl.constexpr, B2: tl.constexpr, EPSILON: tl.constexpr, BLOCK: tl.constexpr
):
    """Adam on any tensor, in place; `now` has the rate and the correction of each replica."""
    replica, replicas = tl.program_id(1).to(tl.int64), tl.num_programs(1).to(tl.int64)
    here = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside, at = here < size, replica * size + here
    rate, correction = tl.load(now + 3 * replica), tl.load(now + 3 * replica + 1)
    value, slope = tl.load(x + at, mask=inside, other=0.0), tl.load(g + at, mask=inside, other=0.0)
    value = adam_at(value, slope, averages, replicas * size, at, inside, rate, correction, B1, B2, EPSILON)
    tl.store(x + at, value, mask=inside)


@triton.jit
def settings_now(schedule, cursor, replica, replicas):
    """The step under way; Adam's rate and correction, and β/N."""
    step = tl.load(cursor + replica)
    now = schedule + (step.to(tl.int64) * replicas + replica) * 3
    return step, tl.load(now), tl.load(now + 1), tl.load(now + 2)
