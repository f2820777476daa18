"""Several processes that train one network: who takes part, which rows each takes, and what they tell each other.

`torchrun` starts the processes, torch.distributed carries the numbers: gloo between CPUs, NCCL between GPUs. Every
process computes the gradient of its part of each batch and its share of the KL; between gradient and update these are
summed, once, so that all take the same step and hold the same weights.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

T = TypeVar("T")
STRATEGIES = ("auto", "ddp", "alone")
_alone: ContextVar[bool] = ContextVar("alone", default=False)


@dataclass(frozen=True)
class Processes:
    """Those that train together, seen by one of them."""

    rank: int = 0
    count: int = 1
    connected: bool = False  # through torch.distributed; False where there is one that asks nobody

    @property
    def is_first(self) -> bool:
        """Whether this one writes files and speaks for all."""
        return self.rank == 0

    def part(self, rows: int) -> slice:
        """Its part of so many rows; parts differ by one row at most, and no part grows where there are fewer rows."""
        each, more = divmod(rows, self.count)
        start = self.rank * each + min(self.rank, more)
        return slice(start, start + each + (self.rank < more))

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Put the sums over all processes in the place of these tensors, by one message."""
        if not self.connected or not tensors:
            return
        flat = torch.cat([one.detach().reshape(-1) for one in tensors])
        dist.all_reduce(flat)
        for one, total in zip(tensors, flat.split([one.numel() for one in tensors]), strict=True):
            one.detach().copy_(total.view_as(one))

    def total(self, number: float, device: torch.device) -> float:
        """The sum of a number over all processes; `device` is where they compute."""
        if not self.connected:
            return number
        numbers = torch.tensor([number], dtype=torch.float64, device=device)
        self.sum_([numbers])
        return float(numbers)

    def all_of(self, value: T) -> list[T]:
        """What every process has in the place of `value`, in their order."""
        if not self.connected:
            return [value]
        found: list[Any] = [None] * self.count
        dist.all_gather_object(found, value)
        return found

    def each(self, make: Callable[[], T]) -> list[T]:
        """What `make` gives in every process; an exception in one is raised in all, so that none waits for it."""
        return [_unless_failed(one) for one in self.all_of(_attempt(make))]

    def from_first(self, make: Callable[[], T]) -> T:
        """The same of the first process alone."""
        if not self.connected:
            return make()
        said: list[Any] = [_attempt(make) if self.is_first else None]
        dist.broadcast_object_list(said, src=0)
        made: T = _unless_failed(said[0])
        return made

    def take_from_first_(self, module: nn.Module) -> None:
        """Give all processes the parameters and buffers that the first one has."""
        if self.connected:
            for one in (*module.parameters(), *module.buffers()):
                dist.broadcast(one.detach(), src=0)

    def check_same(self, settings: Mapping[str, str]) -> None:
        """Raise, in all processes, unless these are the same in all of them."""
        first, *others = self.all_of(settings)
        if different := [name for name in first if any(one.get(name) != first[name] for one in others)]:
            raise ValueError(
                f"train expects the same in all processes, got another {', '.join(different)}. A process that has rows "
                "of its own gives them in a DataLoader; one that trains by itself says strategy='alone'."
            )


class _Failure(NamedTuple):
    error: Exception


def _attempt(make: Callable[[], T]) -> T | _Failure:
    try:
        return make()
    except Exception as error:  # which `_unless_failed` raises
        return _Failure(error)


def _unless_failed(made: T | _Failure) -> T:
    if isinstance(made, _Failure):
        raise made.error
    return made


ALONE = Processes()


def join(strategy: str = "auto") -> Processes:
    """The processes that a `strategy=` argument means; the first call makes the connection.

    Raises:
        ValueError: If there is no such strategy, or no other process to be found.
    """
    if strategy not in STRATEGIES:
        raise ValueError(
            f"strategy expects one of {', '.join(map(repr, STRATEGIES))}, got {strategy!r:.80}. To shard weights "
            "too many for one device, put torch's fully_shard around the layers in a training loop of your own."
        )
    if strategy == "alone" or _alone.get() or not dist.is_available():
        return ALONE
    if not dist.is_initialized():
        if not launched_by_torchrun():
            if strategy == "auto":
                return ALONE
            raise ValueError(
                f'strategy="{strategy}" expects processes that torchrun started: torchrun --nproc-per-node=2 script.py'
            )
        _connect()
    found = Processes(dist.get_rank(), dist.get_world_size(), connected=True)
    return ALONE if found.count == 1 and strategy == "auto" else found


def launched_by_torchrun() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


@contextmanager
def alone() -> Iterator[None]:
    """Training in this block is of this process alone, also under torchrun: for searches, where each tries its own."""
    before = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(before)


def _connect() -> None:
    """Meet the other processes where torchrun's variables say, each with a GPU of its own if there are any."""
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        backend = "cpu:gloo,cuda:nccl"
    store, rank, count = next(rendezvous("env://"))
    if os.environ.get("LOCAL_WORLD_SIZE") == os.environ["WORLD_SIZE"]:  # else each machine counts for itself
        # torchrun keeps one store for all restarts: where processes that are dead were listening must not be found
        restart = f"restart {os.environ['TORCHELASTIC_RESTART_COUNT']}"
        store = dist.PrefixStore(restart, store)  # type: ignore[attr-defined]
    dist.init_process_group(backend, store=store, rank=rank, world_size=count)
    atexit.register(dist.destroy_process_group)
