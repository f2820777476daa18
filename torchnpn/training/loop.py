"""The training loop: one for all networks, likelihoods and priors."""

from __future__ import annotations

import copy
import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from torchnpn import kernels
from torchnpn.likelihoods import Likelihood
from torchnpn.priors import Prior
from torchnpn.training import checkpoint as checkpoints
from torchnpn.training.adversarial import check_dense
from torchnpn.training.checkpoint import Best, Checkpoint, check_tensors
from torchnpn.training.data import Loader, Rows, Source, as_batches
from torchnpn.training.distributed import Processes, join
from torchnpn.training.engine import choose_engine, resolve_device
from torchnpn.training.epoch import own_seed, seed_of_epoch
from torchnpn.training.fingerprint import fingerprint_of
from torchnpn.training.history import Epoch, History
from torchnpn.training.recipe import Recipe
from torchnpn.training.tape import Objective
from torchnpn.training.wide import row_loss

_log = logging.getLogger("torchnpn")


class TrainingDiverged(FloatingPointError, ValueError):
    """The loss is no longer a finite number: the settings, or the data, are not such as can be learnt with."""


@torch.enable_grad()
def train(
    model: nn.Module,
    data: Any,
    likelihood: Likelihood,
    prior: Prior | None = None,
    recipe: Recipe | None = None,
    *,
    validation: Any = None,
    subsets: Any = None,
    callback: Callable[[History], Any] | None = None,
    checkpoint: str | Path | None = None,
    device: str | torch.device = "auto",
    strategy: str = "auto",
) -> History:
    """Minimise `mean over rows of loss + (β/N) · KL` over the parameters of `model` and `likelihood`, in place.

    Args:
        model: Gives latent moments (…, outputs) for a batch of inputs.
        data: (x, y) or (x, y, weight) of arrays, tensors, `Moments` or a CSR matrix; a DataLoader; or a `RowStream`.
        likelihood: Turns latent moments into the loss of a row.
        prior: On the weights; None for no KL.
        recipe: Settings.
        validation: Like `data`; its mean loss is recorded each epoch, and the best epoch's weights are kept.
        subsets: (replicas, n) row numbers, for a model with replicas: replica r is trained on rows subsets[r] of `data`
            only, as for cross-validation, a bootstrap or a curve of learning. None: all see all rows.
        callback: Called with the history after each epoch, for progress or a plot; where it returns True, this epoch
            is the last.
        checkpoint: A file from which training goes on if it exists, and to which it writes as it runs, at most once a
            second. It belongs to this network, data, likelihood, prior and recipe.
        device: "auto" (a GPU if there is one), or torch's name of a device.
        strategy: How processes share the work, where torchrun started several: "auto" or "ddp", each takes its part of
            every batch, and the result is that of one process but for rounding; "alone", each trains by itself. Give
            all of them the same rows, or a DataLoader of its own to each. The first one writes the checkpoint.

    Returns:
        The figures of every epoch.

    Raises:
        TrainingDiverged: When the loss of an epoch is not finite.
        CheckpointError: If `checkpoint` is no checkpoint, is damaged, or belongs to another training.
    """
    path = None if checkpoint is None else checkpoints.check_path(checkpoint)
    if not isinstance(likelihood, Likelihood):
        raise TypeError(f"train expects a likelihood of torchnpn.likelihoods, got {type(likelihood).__name__}.")
    if not (prior is None or hasattr(prior, "divergence")):
        raise TypeError(f"train expects a prior of torchnpn.priors or None, got {type(prior).__name__}.")
    processes = join(strategy)
    recipe, place = Recipe() if recipe is None else recipe, resolve_device(device)
    if recipe.patience is not None and validation is None:
        raise ValueError("Recipe(patience=...) needs validation data: train(..., validation=(x, y)).")
    dtype = next((p.dtype for p in model.parameters()), torch.get_default_dtype())
    rows, held_out = (None if part is None else as_batches(part, place, dtype) for part in (data, validation))
    assert rows is not None
    if subsets is not None:
        if not isinstance(rows, Rows):
            raise ValueError("subsets needs data in memory: (x, y), not a DataLoader.")
        rows = rows.restricted(subsets)

    objective = Objective(model.to(place), likelihood.to(place), prior, recipe)
    identity = fingerprint_of(objective, data, validation, subsets) if path or processes.connected else {}
    own = [name for name, part in (("data", rows), ("validation", held_out)) if isinstance(part, Loader)]
    processes.check_same({name: text for name, text in identity.items() if name not in own})
    processes.take_from_first_(objective.learnt)
    run = _Run(objective, rows, held_out, place, processes)
    if path is not None and (stored := processes.from_first(lambda: checkpoints.read(path, identity))) is not None:
        run.resume(path, stored)
    saved = time.monotonic()
    while not run.finished:
        run.epoch()
        ended = processes.each(lambda: callback is not None and callback(run.history) is True)  # by that of any process
        run.history.stopped_early |= any(ended)
        due = run.finished or time.monotonic() - saved > checkpoints.SECONDS
        if path is not None and due and processes.is_first:
            checkpoints.write(path, run.state(), identity)
            saved = time.monotonic()
    run.finish()
    return run.history


class _Run:
    """One training under way: what an epoch changes, and how that is stored and taken up again."""

    def __init__(
        self,
        objective: Objective,
        data: Source,
        validation: Source | None,
        device: torch.device,
        processes: Processes,
    ) -> None:
        self.model, self.likelihood, _, self.recipe = objective
        self.processes = processes
        self.learnt, self.data, self.validation, self.device = objective.learnt, data, validation, device
        for rows in (data, validation):
            if isinstance(rows, Rows):
                self.likelihood.check_targets(rows.target_values)
        if np.any(self.recipe.adversarial) and isinstance(data, Rows):
            check_dense(data.x)
        layers = (*self.model.modules(), *self.likelihood.modules())
        foreign = any(not type(layer).__module__.startswith("torchnpn.") for layer in layers)
        self.draws_globally = self.recipe.compile or isinstance(data, Loader) or foreign
        self.engine = choose_engine(objective, data, device, processes)
        self.history = History()
        self.best: Best | None = None

    @property
    def finished(self) -> bool:
        return self.history.stopped_early or len(self.history.epochs) >= self.recipe.epochs

    def epoch(self) -> None:
        """One pass over the data; its randomness depends on the seed and its number alone, so it can be repeated."""
        number, start = len(self.history.epochs), time.perf_counter()
        self.model.train()
        with self._seeded(number):
            loss, beta, divergence, broken = self.engine.epoch(number)
            divergence /= self.engine.plan.total_weight
            self._check_finite(number + 1, loss, divergence, broken)
            validation = None if self.validation is None else self._evaluate(self.validation)
        seconds = time.perf_counter() - start
        self.history.epochs.append(Epoch(number + 1, loss, divergence, beta, validation, seconds))
        if validation is not None:
            self._note_best(validation)

    @contextmanager
    def _seeded(self, number: int) -> Iterator[None]:
        """Our layers draw from a generator of the engine; others from torch's global state, seeded and put back."""
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices, enabled=self.draws_globally):
            if self.draws_globally:
                torch.manual_seed(own_seed(seed_of_epoch(self.recipe, number), self.processes))
            yield

    def _check_finite(self, number: int, loss: float, divergence: float, broken: bool) -> None:
        """Raise if anything is not; weights may be `broken` by the last step, whose loss is yet to come."""
        finite = math.isfinite(loss + divergence)
        if finite and not broken:
            return
        what = "weights are" if finite else "KL is" if math.isfinite(loss) else "loss is"
        raise TrainingDiverged(
            f"The {what} not finite in epoch {number} of {self.recipe.epochs}. Try a smaller learning rate "
            f"(now {self.recipe.learning_rate}), Recipe(clip_norm=1.0), a KL weight that starts lower "
            "(geometric_ramp), or standardised inputs and targets; look for infinite values in the data."
        )

    @torch.no_grad()
    def _evaluate(self, data: Source) -> float:
        """Mean loss over rows, the network in evaluation mode."""
        self.model.eval()
        sums = torch.zeros(2, device=self.device)
        with kernels.precision(self.recipe.precision):
            size = max(self.recipe.batch_size, 1024 if self.device.type == "cpu" else 8192)
            for batch in data.batches(size, torch.arange(data.count)[self.processes.part(data.count)]):
                rows = row_loss(self.model, self.likelihood, batch)
                weight = torch.ones_like(rows) if batch.weight is None else batch.weight.expand_as(rows)
                sums += torch.stack([weight.sum(), (rows * weight).sum()])
        self.processes.sum_([sums])
        return float(sums[1] / sums[0])

    def _note_best(self, validation: float) -> None:
        """Keep the weights of the best epoch, and stop where it is too long ago."""
        epoch = len(self.history.epochs)
        if self.best is None or validation < self.best.validation:
            self.best, self.history.best_epoch = Best(validation, copy.deepcopy(self.learnt.state_dict())), epoch
        if self.recipe.patience is not None and self.history.best_epoch is not None:
            self.history.stopped_early = epoch - self.history.best_epoch >= self.recipe.patience

    def finish(self) -> None:
        """Leave the best weights, or the last, in the modules' own memory."""
        if self.best is not None:
            self.learnt.load_state_dict(self.best.tensors)
        self.engine.stepper.release()
        self.model.eval()

    def state(self) -> Checkpoint:
        """All that a training needs to go on."""
        stepper, tensors = self.engine.stepper, self.learnt.state_dict()
        return Checkpoint(tensors, stepper.optimizer_state(), self.history, self.best, self.engine.name)

    def resume(self, path: Path, state: Checkpoint) -> None:
        """Go on from the checkpoint that was read from `path`."""
        try:
            for stored in (state, state.best):
                if stored is not None:
                    check_tensors(self.learnt, stored.tensors)
            epochs, steps = len(state.history.epochs), self.engine.plan.steps
            if epochs > self.recipe.epochs:
                raise ValueError(f"it has {epochs} epochs of {self.recipe.epochs}")
            self.engine.stepper.load_optimizer_(state.optimizer, epochs * steps, self.recipe.epochs * steps)
        except (ValueError, TypeError, LookupError, RuntimeError, AttributeError) as error:  # torch raises all of them
            raise checkpoints.refusal(path, error) from error
        self.learnt.load_state_dict(state.tensors)
        self.history, self.best = state.history, state.best
        if state.engine != self.engine.name:
            _log.info("%s was computed by %s; %s goes on.", path, state.engine, self.engine.name)
