"""The training loop: batches of equal size, one step for each, no word from the host within a step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from torchnpn.baselines.interface import Settings
from torchnpn.training.graphs import Repeated


@contextlib.contextmanager
def seeded(seed: int, device: str) -> Iterator[None]:
    """Draws within depend on the seed alone; the state outside is as before."""
    place = torch.device(device)
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def batches(count: int, settings: Settings) -> Iterator[Tensor]:
    """Row numbers of batches, all of one size, from one permutation of the rows after another."""
    size = min(settings.batch_size, count)
    rest = torch.empty(0, dtype=torch.int64, device=settings.device)
    for _ in range(settings.epochs):
        rows = torch.cat([rest, torch.randperm(count, device=settings.device)])
        full = len(rows) // size * size
        yield from rows[:full].split(size)
        rest = rows[full:]


def for_each_batch(step: Callable[[Tensor], None], count: int, settings: Settings) -> None:
    """Calls `step` with the row numbers of each batch; on a GPU it is recorded once and then repeated."""
    device = torch.device(settings.device)
    rows = torch.zeros(min(settings.batch_size, count), dtype=torch.int64, device=device)
    repeated = Repeated(lambda: step(rows), device)
    for drawn in batches(count, settings):
        rows.copy_(drawn)
        repeated()


def adam(parameters: Iterable[Tensor], learning_rate: float, device: str) -> torch.optim.Adam:
    """Adam that can be recorded; its learning rate lies on the device."""
    rate = torch.tensor(learning_rate, device=device)
    return torch.optim.Adam(list(parameters), lr=rate, fused=True, capturable=torch.device(device).type == "cuda")


def decay_each_step(count: int, settings: Settings) -> float:
    """The factor by which the learning rate falls in each step."""
    steps = settings.epochs * count / min(settings.batch_size, count)
    return float(settings.decay ** (1 / max(steps, 1)))


def minimise(
    loss: Callable[[Tensor, Tensor], Tensor], parameters: Iterable[Tensor], x: Tensor, y: Tensor, settings: Settings
) -> None:
    """Adam on loss(batch of x, batch of y)."""
    optimizer = adam((p for p in parameters if p.requires_grad), settings.learning_rate, settings.device)
    factor = decay_each_step(len(x), settings)

    def step(rows: Tensor) -> None:
        optimizer.zero_grad()
        loss(x[rows], y[rows]).backward()
        optimizer.step()
        optimizer.param_groups[0]["lr"].mul_(factor)

    for_each_batch(step, len(x), settings)
