"""Training steps that never make the host wait: rows, their order and the schedule lie on the device.

Before an epoch the device is given all that its steps will need; a step finds its own part by a counter that lies on
the device too. Such a step can be recorded in a CUDA graph once and repeated. On a CPU the same code runs step by step.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from torchnpn import kernels
from torchnpn.nn import Linear
from torchnpn.nn.sampling import drawing_from
from torchnpn.priors import Prior, kl
from torchnpn.training.data import Batch, Rows
from torchnpn.training.graph import Repeated
from torchnpn.training.optimizer_state import Averages
from torchnpn.training.recipe import Recipe
from torchnpn.training.schedule import schedule


class Feed:
    """What the steps of an epoch need: the order of rows, their shares in the loss, the schedule; and what they leave.

    Args:
        rows: The data, on the device.
        recipe: Settings.
        replicas: How many networks are trained at once; each has an order of rows of its own.
    """

    def __init__(self, rows: Rows, recipe: Recipe, replicas: int) -> None:
        self.rows, self.recipe, self.replicas = rows, recipe, replicas
        self.device, self.batch = rows.y.device, min(recipe.batch_size, rows.count)
        self.steps = rows.steps(self.batch)
        length, place = self.steps * self.batch, {"device": self.device}
        self.order = torch.zeros(replicas, length, dtype=torch.int64, **place)  # beyond the last row: row 0, share 0
        self.share = torch.zeros(replicas, length, **place)
        self.schedule = torch.zeros(self.steps, replicas, 3, **place)
        self.losses = torch.zeros(replicas, length, **place)  # share · loss of each row
        self.weights = torch.zeros(replicas, self.steps, 1, **place)  # of the rows of each batch
        self.cursor = torch.zeros(replicas, dtype=torch.int32, **place)  # the step under way
        self.following = torch.zeros_like(self.cursor)  # the next: kernels write one and read the other
        self.seed = torch.zeros(1, dtype=torch.int64, **place)
        self.generator = torch.Generator(self.device)  # of the order of rows, and then of all that layers draw
        self.kl_weight = 0.0  # β of the last step
        self._each = torch.arange(replicas, **place)

    def begin(self, number: int) -> None:
        """Fill in epoch `number`; its randomness depends on the seed and this number alone."""
        seed = self.recipe.seed * 1_000_003 + number
        self.generator.manual_seed(seed)
        count = self.rows.count
        drawn = torch.rand(self.replicas, count, device=self.device, generator=self.generator).argsort(-1)
        self.order[:, :count] = drawn if self.rows.subsets is None else self.rows.subsets.gather(1, drawn)
        present = torch.zeros_like(self.share)
        present[:, :count] = 1.0 if self.rows.weight is None else self.rows.weight[self.order[:, :count]].to(present)
        batches = present.view(self.replicas, self.steps, self.batch)
        weight = batches.sum(-1, keepdim=True)
        self.share.copy_((batches / weight.clamp_min(1e-12)).view_as(self.share))
        self.weights.copy_(weight)
        numbers = schedule(self.recipe, number, self.steps, self.rows.total_weight, self.replicas)
        self.schedule.copy_(torch.from_numpy(numbers))
        self.kl_weight = float(numbers[-1, :, 2].mean() * self.rows.total_weight)
        self.following.zero_()
        self.seed.fill_(seed * self.steps)

    def part(self, per_step: Tensor) -> Tensor:  # (R, steps · batch) -> (R, batch)
        """The part of this step."""
        return per_step.view(self.replicas, self.steps, self.batch)[self._each, self.cursor]

    def rows_of_step(self) -> Batch:
        """Inputs and targets of this step; (R, batch, …) where there are replicas."""
        rows = self.part(self.order)
        return self.rows.take(rows if self.replicas > 1 else rows[0])._replace(weight=None)

    def shares(self) -> Tensor:  # (R, batch), or (batch,) without replicas
        """The share of each of them in the loss."""
        shares = self.part(self.share)
        return shares if self.replicas > 1 else shares[0]

    def now(self) -> Tensor:  # (R, 3)
        """Rate, correction and β/N of this step."""
        return self.schedule[self.cursor, self._each]

    def advance(self) -> None:
        """Go to the next step."""
        self.cursor.copy_(self.following)

    def note(self, losses: Tensor) -> None:
        """Write down share · loss of the rows (R, batch) of this step, and that it is done."""
        self.losses.view(self.replicas, self.steps, self.batch)[self._each, self.cursor] = losses.to(self.losses)
        self.following.copy_(self.cursor + 1)

    def loss(self) -> Tensor:
        """The mean loss of the epoch's rows, over all replicas."""
        batches = self.losses.view(self.replicas, self.steps, self.batch)
        return (batches * self.weights).sum() / self.weights.sum()


class Steps(Protocol):
    """A network's training step on the device: see `taped.TapedSteps` and `fused.FusedSteps`."""

    feed: Feed

    def begin(self) -> None:
        """Whatever is to be done at the beginning of an epoch."""

    def step(self) -> None:
        """One step, at the feed's cursor."""

    def after(self) -> None:
        """Whatever the host does after each step."""

    @property
    def averages(self) -> list[Averages]:
        """Adam's, in the memory that the steps work in; none where `optimizer` has them."""

    @property
    def optimizer(self) -> Optimizer | None:
        """One of torch's, where the recipe asks for another than the default."""

    @property
    def scheduler(self) -> LRScheduler | None:
        """Of that optimizer."""


class Closing(NamedTuple):
    """What is known at the end of an epoch."""

    loss: float  # the mean of a row, over all replicas
    kl_weight: float  # β of the last step
    divergence: float  # the KL, the mean over replicas
    broken: bool  # whether a weight is not a number


class DeviceTraining:
    """Epochs of `steps`, each step after the first few a repeated graph, and so is the end of an epoch."""

    def __init__(
        self, steps: Steps, model: nn.Module, likelihood: nn.Module, prior: Prior | None, precision: str
    ) -> None:
        self.kind, self.feed, self.model, self.prior, self.precision = steps, steps.feed, model, prior, precision
        self.steps = self.feed.steps
        self.parameters = [p for module in (model, likelihood) for p in module.parameters()]
        self.run = Repeated(self._step, self.feed.device, self.feed.generator)  # one training step
        self.close = Repeated(self._close, self.feed.device)

    def _step(self) -> None:
        with kernels.precision(self.precision), drawing_from(self.feed.generator):
            self.kind.step()

    def begin(self, number: int) -> None:
        """Prepare epoch `number`, counted from zero."""
        self.feed.begin(number)
        self.kind.begin()

    def epoch(self, number: int) -> Closing:
        """One pass over the rows."""
        self.begin(number)
        for _ in range(self.steps):
            self.run()
            self.kind.after()
        loss, divergence, broken = self.close().tolist()  # the host waits here, and nowhere else
        return Closing(loss, self.feed.kl_weight, divergence, bool(broken))

    @torch.no_grad()
    def _close(self) -> Tensor:  # (3,)
        divergence = self.feed.losses.new_zeros(()) if self.prior is None else kl(self.model, self.prior).mean()
        broken = torch.stack([p.isnan().any() for p in self.parameters]).any()
        return torch.stack([part.float() for part in (self.feed.loss(), divergence, broken)])


def count_replicas(model: nn.Module) -> int:
    """How many networks `model` holds, along one leading dimension."""
    shapes = {m.replicas for m in model.modules() if isinstance(m, Linear)}
    if any(len(shape) > 1 for shape in shapes):
        raise ValueError("replicas have more than one leading dimension")
    return max((shape[0] for shape in shapes if shape), default=1)
