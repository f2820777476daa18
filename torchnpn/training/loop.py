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
from torchnpn.training.adversarial import check_dense
from torchnpn.training.chain import NumpyChainSteps
from torchnpn.training.checkpoints import files as checkpoints
from torchnpn.training.checkpoints import fingerprint_of, optimizer_state
from torchnpn.training.data import Loader, Rows, as_batches
from torchnpn.training.engine import choose_engine
from torchnpn.training.epoch import seed_of_epoch
from torchnpn.training.history import Epoch, History
from torchnpn.training.recipe import Recipe
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
    callback: Callable[[History], None] | None = None,
    checkpoint: str | Path | None = None,
    device: str | torch.device = "auto",
) -> History:
    """Minimise `mean over rows of loss + (β/N) · KL` over the parameters of `model` and `likelihood`, in place.

    Args:
        model: Gives latent moments (…, outputs) for a batch of inputs.
        data: (x, y) or (x, y, weight) of arrays, tensors, `Moments` or a CSR matrix; or a DataLoader.
        likelihood: Turns latent moments into the loss of a row.
        prior: On the weights; None for no KL.
        recipe: Settings.
        validation: Like `data`; its mean loss is recorded each epoch, and the best epoch's weights are kept.
        subsets: (replicas, n) row numbers, for a model with replicas: replica r is trained on rows subsets[r] of `data`
            only, as for cross-validation, a bootstrap or a curve of learning. None: all see all rows.
        callback: Called with the history after each epoch, for progress or a plot.
        checkpoint: A file from which training goes on if it exists, and to which it writes as it runs, at most once a
            second. It belongs to this network, data, likelihood, prior and recipe.
        device: "auto" (a GPU if there is one), or torch's name of a device.

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
    recipe = Recipe() if recipe is None else recipe
    place = resolve_device(device)
    dtype = next((p.dtype for p in model.parameters()), torch.get_default_dtype())
    batches = as_batches(data, place, dtype)
    if subsets is not None:
        if not isinstance(batches, Rows):
            raise ValueError("subsets needs data in memory: (x, y), not a DataLoader.")
        batches = batches.restricted(subsets)
    run = _Run(model, batches, likelihood, prior, recipe, place)
    if validation is not None:
        run.validation = as_batches(validation, place, dtype)
        run.check_targets(run.validation)
    if recipe.patience is not None and validation is None:
        raise ValueError("Recipe(patience=...) needs validation data: train(..., validation=(x, y)).")
    if path is not None:
        identity = fingerprint_of(model, data, likelihood, prior, recipe, validation, subsets)
        run.resume(path, checkpoints.read(path, identity))
    saved = time.monotonic()
    while not run.finished:
        run.epoch()
        if callback is not None:
            callback(run.history)
        if path is not None and (run.finished or time.monotonic() - saved > checkpoints.SECONDS):
            checkpoints.write(path, run.state(), identity)
            saved = time.monotonic()
    run.keep_best()
    model.eval()
    return run.history


def resolve_device(device: str | torch.device) -> torch.device:
    """The device that a `device=` argument means."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        place = torch.device(device)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        raise ValueError(
            f'device expects "auto", "cpu", "cuda" or another name of torch\'s, got {device!r:.80}.'
        ) from None
    if place.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f'device="{place}" expects a GPU that torch can use, and there is none. Take device="auto".')
    if not _computes(place):
        raise ValueError(
            f'device="{place}" expects a device that this torch computes on, got another. Take device="auto".'
        )
    return place


def _computes(place: torch.device) -> bool:
    """Whether tensors with numbers can be made there; on "meta" they have none."""
    try:
        return float(torch.zeros(1, device=place).sum()) == 0.0
    except (RuntimeError, AssertionError, ImportError):  # torch's answers for devices that are not there
        return False


def has_foreign_layers(*modules: nn.Module) -> bool:
    """Whether there are layers that are not ours, which may draw from torch's global random state."""
    return any(not type(part).__module__.startswith("torchnpn.") for module in modules for part in module.modules())


class _Run:
    """One training under way: what an epoch changes, and how that is stored and taken up again."""

    def __init__(
        self,
        model: nn.Module,
        data: Rows | Loader,
        likelihood: Likelihood,
        prior: Prior | None,
        recipe: Recipe,
        device: torch.device,
    ) -> None:
        self.model, self.likelihood = model.to(device), likelihood.to(device)
        self.data, self.prior, self.recipe, self.device = data, prior, recipe, device
        self.validation: Rows | Loader | None = None
        self.check_targets(data)
        if np.any(recipe.adversarial) and isinstance(data, Rows):
            check_dense(data.x)
        self.draws_globally = recipe.compile or isinstance(data, Loader) or has_foreign_layers(model, likelihood)
        self.engine = choose_engine(model, data, likelihood, prior, recipe, device)
        self.history = History()
        self.best: tuple[float, dict[str, Any], dict[str, Any]] | None = None

    def check_targets(self, data: Rows | Loader) -> None:
        """Look at the values of targets that lie in memory."""
        if isinstance(data, Rows):
            self.likelihood.check_targets(data.target_values)

    @property
    def finished(self) -> bool:
        return self.history.stopped_early or len(self.history.epochs) >= self.recipe.epochs

    def epoch(self) -> None:
        """One pass over the data; its randomness depends on the seed and its number alone, so it can be repeated."""
        number, start = len(self.history.epochs), time.perf_counter()
        self.model.train()
        with self._seeded(number), kernels.precision(self.recipe.precision):
            loss, beta, divergence, broken = self.engine.epoch(number)
            divergence /= self.data.total_weight
            self._check_finite(number + 1, loss, divergence, broken)
            validation = None if self.validation is None else self._evaluate(self.validation)
        seconds = time.perf_counter() - start
        self.history.epochs.append(Epoch(number + 1, loss, divergence, beta, validation, seconds))
        if validation is not None:
            self._note_best(validation)

    @contextmanager
    def _seeded(self, number: int) -> Iterator[None]:
        """Our layers draw from a generator of the engine; others from torch's global state, seeded and put back."""
        if not self.draws_globally:
            yield
            return
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(seed_of_epoch(self.recipe, number))
            yield

    @torch.no_grad()
    def _evaluate(self, data: Rows | Loader) -> float:
        """Mean loss over rows, the network in evaluation mode."""
        self.model.eval()
        sums = torch.zeros(2, device=self.device)
        for batch in data.batches(max(self.recipe.batch_size, 1024 if self.device.type == "cpu" else 8192)):
            rows = row_loss(self.model, self.likelihood, batch)
            weight = torch.ones_like(rows) if batch.weight is None else batch.weight.expand_as(rows)
            sums += torch.stack([weight.sum(), (rows * weight).sum()])
        return float(sums[1] / sums[0])

    def _check_finite(self, number: int, loss: float, divergence: float, broken: bool) -> None:
        """Raise if anything is not; weights may be `broken` by the last step, whose loss is yet to come."""
        what = None
        if not math.isfinite(loss + divergence):
            what = "KL is" if math.isfinite(loss) else "loss is"
        elif broken:
            what = "weights are"
        if what is not None:
            raise TrainingDiverged(
                f"The {what} not finite in epoch {number} of {self.recipe.epochs}. Try a smaller learning rate "
                f"(now {self.recipe.learning_rate}), Recipe(clip_norm=1.0), a KL weight that starts lower "
                "(geometric_ramp), or standardised inputs and targets; look for infinite values in the data."
            )

    def _note_best(self, validation: float) -> None:
        if self.best is None or validation < self.best[0]:
            states = (copy.deepcopy(module.state_dict()) for module in (self.model, self.likelihood))
            self.best = (validation, *states)  # type: ignore[assignment]
            self.history.best_epoch = len(self.history.epochs)
        patience, best = self.recipe.patience, self.history.best_epoch
        if patience is not None and best is not None:
            self.history.stopped_early = len(self.history.epochs) - best >= patience

    def keep_best(self) -> None:
        if self.best is not None:
            self.model.load_state_dict(self.best[1])
            self.likelihood.load_state_dict(self.best[2])
        self.engine.stepper.release()

    def state(self) -> checkpoints.Checkpoint:
        """All that a training needs to go on."""
        parts = (
            self.model.state_dict(),
            self.likelihood.state_dict(),
            optimizer_state.state_of(self.engine.stepper.update, self._places),
        )
        best = None if self.best is None else checkpoints.Best(*self.best)
        return checkpoints.Checkpoint(*parts, self.history, best, self.engine.name)

    def resume(self, path: Path, state: checkpoints.Checkpoint | None) -> None:
        """Go on from a checkpoint, if there is one."""
        if state is None:
            return
        try:
            states = [(self.model, state.model), (self.likelihood, state.likelihood)]
            if state.best is not None:
                states += [(self.model, state.best.model), (self.likelihood, state.best.likelihood)]
            for module, tensors in states:
                _check_tensors(module, tensors)
            if len(state.history.epochs) > self.recipe.epochs:
                raise ValueError(f"it has {len(state.history.epochs)} epochs of {self.recipe.epochs}")
            update, steps = self.engine.stepper.update, self.engine.plan.steps
            taken, total = len(state.history.epochs) * steps, self.recipe.epochs * steps
            optimizer_state.load_(update, state.optimizer, self._places, taken, total)
        except (ValueError, TypeError, LookupError, RuntimeError, AttributeError) as error:  # torch raises all of them
            raise checkpoints.refusal(path, error) from error
        for module, tensors in states[:2]:
            module.load_state_dict(tensors)
        self.history, self.best = state.history, state.best
        if state.engine != self.engine.name:
            _log.info("%s was computed by %s; %s goes on.", path, state.engine, self.engine.name)

    @property
    def _places(self) -> optimizer_state.Places:
        """The parameters, by what is optimized."""
        places = optimizer_state.places_of(model=self.model, likelihood=self.likelihood)
        if isinstance(self.engine.stepper, NumpyChainSteps):
            chain = self.engine.stepper.chain
            places[id(chain.flat)] = [places[id(parameter)][0] for parameter in chain.parts]
        return places


def _check_tensors(module: nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    """Raise unless these are the tensors of a module, with no infinite number where it started from a finite one."""
    own = module.state_dict()
    if {name: (one.shape, one.dtype) for name, one in tensors.items()} != {
        name: (one.shape, one.dtype) for name, one in own.items()
    }:
        raise ValueError(f"its tensors are not those of the {type(module).__name__}")
    for name, one in tensors.items():
        if bool((one.isinf() & ~own[name].cpu().isinf()).any()):
            raise ValueError(f"{name} holds infinite numbers")
