"""The training loop: batches of equal size, one step for each, no word from the host within a step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor

from npn_studies.baselines.adam import Adam
from npn_studies.baselines.interface import Settings
from npn_studies.baselines.rows import Rows
from torchnpn.training import CapturedCall

F = TypeVar("F", bound=Callable[..., Any])


@contextlib.contextmanager
def seeded(seed: int, device: str) -> Iterator[None]:
    """Draws within depend on the seed alone; the state outside is as before."""
    place = torch.device(device)
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def steps(rows: int, settings: Settings) -> int:
    """How many batches there are in all."""
    return settings.epochs * rows // min(settings.batch_size, rows)


def batches(networks: int, rows: int, settings: Settings) -> Iterator[Tensor]:  # each (networks, batch)
    """Row numbers of batches, all of one size, from one permutation of the rows after another.

    Each network has an order of its own.
    """
    size = min(settings.batch_size, rows)
    rest = torch.empty(networks, 0, dtype=torch.int64, device=settings.device)
    for _ in range(settings.epochs):
        order = torch.rand(networks, rows, device=settings.device).argsort(1)
        numbers = torch.cat([rest, order], 1)
        full = numbers.shape[1] // size * size
        yield from numbers[:, :full].split(size, 1)
        rest = numbers[:, full:]


def recorded(step: Callable[[Tensor], None], device: str) -> Callable[[Tensor], None]:
    """`step` as a function of row numbers; on a GPU it is recorded in its first calls and then repeated."""
    place: list[Tensor] = []
    repeated = CapturedCall(lambda: step(place[0]), torch.device(device))

    def call(numbers: Tensor) -> None:
        if not place:
            place.append(torch.empty_like(numbers, memory_format=torch.contiguous_format))
        place[0].copy_(numbers)
        repeated()

    return call


def fused(function: F, device: str) -> F:
    """`function` in few kernels on a GPU, where many small ones would cost more than their work; compiled at once."""
    return torch.compile(function) if torch.device(device).type == "cuda" else function  # type: ignore[return-value]


def minimise(
    loss: Callable[[Tensor, Tensor], Tensor], parameters: list[Tensor], rows: Rows, settings: Settings
) -> None:
    """Adam on loss(batch of x, batch of y), which has one number for each network (networks,)."""
    rate = rows.replicas.number("learning_rate", settings.learning_rate)
    adam = Adam(parameters, rate, steps(rows.size, settings), settings.schedule)

    def step(numbers: Tensor) -> None:
        adam.step(torch.autograd.grad(loss(*rows.batch(numbers)).sum(), parameters))

    repeat = recorded(step, settings.device)
    for numbers in batches(rows.replicas.networks, rows.size, settings):
        repeat(numbers)
