"""The steps of an epoch: which rows each of them has, their shares in the loss, and its settings.

A `HostPlan` hands out one batch after the other. A `DevicePlan` never makes the host wait: before an epoch the device
is given all that its steps will need, and a step finds its own part by a counter that lies on the device too. Such a
step can be recorded in a CUDA graph once and repeated. On a CPU the same code runs step by step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torchnpn.training.data import Batch, Rows, Source
from torchnpn.training.distributed import ALONE, Processes
from torchnpn.training.recipe import Recipe, rates_of


class EpochSummary(NamedTuple):
    """What is known at the end of an epoch."""

    loss: float  # the mean of a row, over all replicas
    kl_weight: float  # β of the last step
    divergence: float  # the KL, the mean over replicas
    broken: bool  # whether a weight is not a number


def seed_of_epoch(recipe: Recipe, number: int) -> int:
    """All randomness of an epoch depends on this number alone, so it can be repeated."""
    return recipe.seed * 1_000_003 + number


def own_seed(seed: int, processes: Processes) -> int:
    """Of what layers draw: another one in each process, which has other rows; that of the first is `seed`."""
    return seed + processes.rank * 2**40


class HostPlan:
    """Batches that the host hands out one by one."""

    def __init__(self, data: Source, recipe: Recipe, device: torch.device, processes: Processes = ALONE) -> None:
        self.data, self.recipe, self.device, self.processes = data, recipe, device, processes
        self.steps, self.total_weight = data.steps_of_all(recipe.batch_size, processes), data.weight_of_all(processes)
        self.generator = torch.Generator(device)  # of all that layers draw
        self._even: dict[tuple[int, float], Tensor] = {}  # shares of rows without weights, by their number and weight
        self._batches: Iterator[tuple[Batch, float | Tensor]]

    def begin(self, number: int) -> None:
        """Prepare epoch `number`, counted from zero."""
        seed = seed_of_epoch(self.recipe, number)
        self.generator.manual_seed(own_seed(seed, self.processes))
        self._batches = self.data.own_batches(self.recipe.batch_size, seed, self.processes, number)
        self._first, self._step = number * self.steps, -1
        rates = rates_of(self.recipe, self.steps, self._first + np.arange(self.steps))
        self._rates = list(zip(*(part.tolist() for part in np.broadcast_arrays(*rates)), strict=True))
        self._losses: list[Tensor | float] = []  # read once an epoch
        self._weights: list[Tensor | float] = []

    def next(self) -> tuple[Batch, Tensor]:
        """Go to the next step: its rows, and the share of each in the loss."""
        self._step += 1
        self.beta: Any = self.recipe.kl_weight((self._first + self._step) / (self.recipe.epochs * self.steps))
        batch, total = next(self._batches)
        self._weights.append(total)
        if batch.weight is not None:
            return batch, batch.weight / torch.as_tensor(total, device=self.device).clamp_min(1e-12)
        key = batch.rows, float(total)
        if key not in self._even:
            self._even[key] = torch.full((batch.rows,), 1 / float(total), device=self.device)
        return batch, self._even[key]

    @property
    def kl_per_row(self) -> Any:
        """β/N of this step, divided among the processes; an array has one for each replica."""
        return self.beta / (self.total_weight * self.processes.count)

    def rates(self) -> tuple[float, float]:
        """The optimizer's rate and correction of this step."""
        return self._rates[self._step]

    def note(self, losses: Tensor) -> None:
        """Write down share · loss of the rows of this step, (*replicas, batch)."""
        self.note_total(losses.sum(-1).mean())

    def note_total(self, loss: Tensor | float) -> None:
        """Write down their sum."""
        self._losses.append(loss)

    def loss(self) -> Tensor:
        """This process's part of the mean loss of the epoch's rows, over all replicas."""
        means, weights = self._stacked(self._losses), self._stacked(self._weights)
        return (weights * means).sum() / weights.sum()

    def _stacked(self, numbers: list[Tensor | float]) -> Tensor:
        """Numbers of the host, or of the device, on the device."""
        if all(isinstance(x, float) for x in numbers):
            return torch.tensor(numbers, device=self.device)
        return torch.stack([torch.as_tensor(x, device=self.device) for x in numbers])

    @property
    def last_kl_weight(self) -> float:
        return float(np.mean(self.beta))


class DevicePlan:
    """The order of rows, their shares in the loss and the schedule of all steps on a device; and what steps leave.

    Each of the replicas, the networks that are trained at once, has an order of rows of its own.
    """

    def __init__(self, rows: Rows, recipe: Recipe, replicas: int, processes: Processes = ALONE) -> None:
        self.rows, self.recipe, self.replicas, self.processes = rows, recipe, replicas, processes
        self.device, self.whole_batch = rows.y.device, min(recipe.batch_size, rows.count)
        self.steps, self.total_weight = rows.steps_of_all(self.whole_batch, processes), rows.weight_of_all(processes)
        self.batch = len(range(self.whole_batch)[processes.part(self.whole_batch)])  # rows of this process in a step
        length, place = self.steps * self.batch, {"device": self.device}
        self.order = torch.zeros(replicas, length, dtype=torch.int64, **place)  # beyond the last row: row 0, share 0
        self.share = torch.zeros(replicas, length, **place)
        self.schedule = torch.zeros(self.steps, replicas, 3, **place)  # The optimizer's rate and correction, β/N
        self.losses = torch.zeros(replicas, length, **place)  # share · loss of each row
        self.weights = torch.zeros(replicas, self.steps, 1, **place)  # of the rows of each batch
        self.cursor = torch.zeros(replicas, dtype=torch.int32, **place)  # the step under way
        self.following = torch.zeros_like(self.cursor)  # the next: kernels write one and read the other
        self.seed = torch.zeros(1, dtype=torch.int64, **place)
        self.generator = torch.Generator(self.device)  # of the order of rows, and then of all that layers draw
        self.last_kl_weight = 0.0  # β of the last step
        self._each = torch.arange(replicas, **place)

    def begin(self, number: int) -> None:
        """Fill in epoch `number`, counted from zero."""
        seed = seed_of_epoch(self.recipe, number)
        self.generator.manual_seed(seed)
        count, each = self.rows.count, (self.replicas, self.steps, self.whole_batch)
        drawn = torch.rand(self.replicas, count, device=self.device, generator=self.generator).argsort(-1)
        drawn = drawn if self.rows.subsets is None else self.rows.subsets.gather(1, drawn)
        order, present = (torch.zeros(math.prod(each), dtype=x.dtype, device=self.device) for x in (drawn, self.share))
        order.view(self.replicas, -1)[:, :count] = drawn
        weight = 1.0 if self.rows.weight is None else self.rows.weight[drawn].to(present)
        present.view(self.replicas, -1)[:, :count] = weight
        mine = (..., self.processes.part(self.whole_batch))
        self.order.copy_(order.view(each)[mine].reshape(self.order.shape))
        torch.sum(present.view(each), -1, keepdim=True, out=self.weights)
        share = present.view(each) / self.weights.clamp_min(1e-12)
        self.share.copy_(share[mine].reshape(self.share.shape))
        numbers = schedule(self.recipe, number, self.steps, self.total_weight, self.replicas)
        self.last_kl_weight = float(numbers[-1, :, 2].mean() * self.total_weight)
        numbers[..., 2] /= self.processes.count
        self.schedule.copy_(torch.from_numpy(numbers))
        self.following.zero_()
        self.seed.fill_(seed * self.steps)
        if not self.processes.is_first:
            self.generator.manual_seed(own_seed(seed, self.processes))

    def part(self, per_step: Tensor) -> Tensor:  # (R, steps · batch) -> (R, batch)
        """The part of this step."""
        return per_step.view(self.replicas, self.steps, self.batch)[self._each, self.cursor]

    def next(self) -> tuple[Batch, Tensor]:
        """Go to the next step: its rows, (R, batch, …) where there are replicas, and the share of each in the loss."""
        self.cursor.copy_(self.following)
        rows, share = self.part(self.order), self.part(self.share)
        rows, share = (rows, share) if self.replicas > 1 else (rows[0], share[0])
        return self.rows.take(rows)._replace(weight=None), share

    def now(self) -> Tensor:  # (R, 3)
        """Rate, correction and β/N of this step."""
        return self.schedule[self.cursor, self._each]

    def rates(self) -> Tensor:  # (2, R)
        """The optimizer's rate and correction of this step."""
        return self.now()[:, :2].T

    @property
    def kl_per_row(self) -> Tensor:  # (R,)
        """β/N of this step, divided among the processes."""
        return self.now()[:, 2]

    def note(self, losses: Tensor) -> None:
        """Write down share · loss of the rows of this step, and that it is done."""
        per_step = self.losses.view(self.replicas, self.steps, self.batch)
        per_step[self._each, self.cursor] = losses.view(self.replicas, -1).to(self.losses)
        self.following.copy_(self.cursor + 1)

    def loss(self) -> Tensor:
        """This process's part of the mean loss of the epoch's rows, over all replicas."""
        batches = self.losses.view(self.replicas, self.steps, self.batch)
        return (batches * self.weights).sum() / self.weights.sum()


def schedule(
    recipe: Recipe, number: int, steps: int, rows: float, replicas: int
) -> np.ndarray[Any, np.dtype[np.float32]]:  # (steps, R, 3)
    """For each step of epoch `number` and each replica: The optimizer's rate and correction (`rates_of`), and β/N."""
    taken = number * steps + np.arange(steps)
    rate, correction = rates_of(recipe, steps, taken[:, None])
    beta = [np.broadcast_to(recipe.kl_weight(t / (recipe.epochs * steps)), (replicas,)) for t in taken.tolist()]
    parts = (np.broadcast_to(part, (steps, replicas)) for part in (rate, correction, np.stack(beta) / rows))
    return np.stack(list(parts), axis=-1).astype(np.float32)
