"""One step of an optimizer, in place: on any tensor, and as a function of tiles for kernels that have the gradient."""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024


def step_(x: Tensor, gradient: Tensor, averages: Tensor, now: Tensor, rule: tuple[str, float, float, float]) -> None:
    """See `kernels.step_`; `x` and `averages` are contiguous."""
    replicas = len(now)
    size = x.numel() // replicas
    places = x, gradient.contiguous(), averages, now, size
    step_kernel[(triton.cdiv(size, _BLOCK), replicas)](*places, **constants(rule), BLOCK=_BLOCK)


def constants(rule: tuple[str, float, float, float]) -> dict[str, object]:
    """For kernels."""
    return dict(zip(("KIND", "B1", "B2", "EPSILON"), rule, strict=True))


@triton.jit
def step_at(
    x, g, averages, size, at, inside, rate, correction,
    KIND: tl.constexpr, B1: tl.constexpr, B2: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    """One step on the numbers x, with averages in memory, `size` numbers apart; the new x."""
    first = tl.load(averages + at, mask=inside, other=0.0)
    second = B2 * tl.load(averages + size + at, mask=inside, other=0.0) + (1 - B2) * g * g
    if KIND == "adam":
        first = B1 * first + (1 - B1) * g
        change = first / (tl.sqrt(second) * correction + E)
    else:
        change = tl.sqrt(first + E) / tl.sqrt(second + E) * g
        first = B1 * first + (1 - B1) * change * change
    tl.store(averages + at, first, mask=inside)
    tl.store(averages + size + at, second, mask=inside)
    return x - rate * change


@triton.jit
def step_kernel(
    x, g, averages, now, size,
    KIND: tl.constexpr, B1: tl.constexpr, B2: tl.constexpr, EPSILON: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A step on any tensor, in place; `now` has the rate and the correction of each replica."""
    replica, replicas = tl.program_id(1).to(tl.int64), tl.num_programs(1).to(tl.int64)
    here = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside, at = here < size, replica * size + here
    rate, correction = tl.load(now + 3 * replica), tl.load(now + 3 * replica + 1)
    value, slope = tl.load(x + at, mask=inside, other=0.0), tl.load(g + at, mask=inside, other=0.0)
    value = step_at(value, slope, averages, replicas * size, at, inside, rate, correction, KIND, B1, B2, EPSILON)
    tl.store(x + at, value, mask=inside)


@triton.jit
def settings_now(schedule, cursor, replica, replicas):
    """The step under way; the optimizer's rate and correction, and β/N."""
    step = tl.load(cursor + replica)
    now = schedule + (step.to(tl.int64) * replicas + replica) * 3
    return step, tl.load(now), tl.load(now + 1), tl.load(now + 2)
