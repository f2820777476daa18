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
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from torchnpn import kernels
from torchnpn.likelihoods import Likelihood
from torchnpn.nn.sampling import drawing_from
from torchnpn.priors import Prior
from torchnpn.training import checkpoint as checkpoints
from torchnpn.training import optimizer_state, small
from torchnpn.training.adversarial import Adversary, check_dense, radii
from torchnpn.training.data import Batch, Loader, Rows, as_batches
from torchnpn.training.device import DeviceTraining
from torchnpn.training.fingerprint import fingerprint
from torchnpn.training.flat_adam import FlatAdam
from torchnpn.training.gradients import Autograd, BatchLoss, Gradients
from torchnpn.training.history import Epoch, History
from torchnpn.training.recipe import Recipe, adam, cosine
from torchnpn.training.steps import device_training
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
        identity = fingerprint(model, data, likelihood, prior, recipe, validation, subsets)
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
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        place = torch.device(device)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        raise ValueError(f'device expects "auto", "cpu", "cuda" or another name of torch\'s, got {device!r}.') from None
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
        self.steps = data.steps(recipe.batch_size)
        self.draws_globally = recipe.compile or isinstance(data, Loader) or has_foreign_layers(model, likelihood)
        self.on_device = self._choose_device_training()
        self.generator = torch.Generator(device)
        if self.on_device is None:
            self.gradients, self.parameters = self._choose_gradients()
            self.optimizer, self.scheduler = self._choose_optimizer()
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
        with self._seeded(self._seed(number)), kernels.precision(self.recipe.precision):
            if self.on_device is None:
                (loss, beta), divergence = self._steps_of(number), self.gradients.divergence()
                broken = any(p.isnan().any() for p in self.parameters)
            else:
                loss, beta, divergence, broken = self.on_device.epoch(number)
            divergence /= self.data.total_weight
            self._check_finite(number + 1, loss, divergence, broken)
            validation = None if self.validation is None else self._evaluate(self.validation)
        seconds = time.perf_counter() - start
        self.history.epochs.append(Epoch(number + 1, loss, divergence, beta, validation, seconds))
        if validation is not None:
            self._note_best(validation)

    def _steps_of(self, number: int) -> tuple[float, float]:
        """The steps of an epoch, each asked for by the host; the mean loss of a row, and the last β."""
        order = torch.randperm(self.data.count, generator=torch.Generator().manual_seed(self._seed(number)))
        losses: list[BatchLoss] = []  # read once an epoch
        for step, batch in enumerate(self.data.batches(self.recipe.batch_size, order)):
            beta = self.recipe.kl_weight(self._progress(number, step))
            losses.append(self._step(batch, beta))
        weights, means = (torch.stack([torch.as_tensor(x) for x in parts]) for parts in zip(*losses, strict=True))
        return float((weights * means).sum() / weights.sum()), float(np.mean(beta))

    def _seed(self, number: int) -> int:
        return self.recipe.seed * 1_000_003 + number

    def _progress(self, number: int, step: int) -> float:
        return (number * self.steps + step) / (self.recipe.epochs * self.steps)

    @contextmanager
    def _seeded(self, seed: int) -> Iterator[None]:
        """Our layers draw from a generator of this run; others from torch's global state, seeded and put back."""
        with drawing_from(self.generator.manual_seed(seed)):
            if not self.draws_globally:
                yield
                return
            with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
                torch.manual_seed(seed)
                yield

    def _choose_device_training(self) -> DeviceTraining | None:
        """Steps on the device, on a GPU or where replicas differ in their rates or rows; None for the host's own."""
        several = np.ndim(self.recipe.learning_rate) > 0 or getattr(self.data, "subsets", None) is not None
        if not isinstance(self.data, Rows) or (self.device.type != "cuda" and not several):
            if several:
                raise ValueError("One learning rate for each replica needs data in memory: (x, y), not a DataLoader.")
            return None
        try:
            found = device_training(self.model, self.data, self.likelihood, self.prior, self.recipe)
        except ValueError as reason:
            if several:
                raise
            _log.warning("Training without a CUDA graph, which is slower: %s.", reason)
            return None
        self.parameters = [p for module in (self.model, self.likelihood) for p in module.parameters()]
        return found

    def _choose_gradients(self) -> tuple[Gradients, list[nn.Parameter]]:
        """Numpy's for small networks, autograd's for all others; and the parameters whose `.grad` they fill."""
        dense = isinstance(self.data, Rows) and isinstance(self.data.y, torch.Tensor)
        attacked, compiled = np.any(self.recipe.adversarial), self.recipe.compile
        if dense and not compiled and small.takes(self.model, self.prior, self.device):
            radius = radii(self.recipe.adversarial, 1, next(self.model.parameters())).item()
            flat = small.SmallNetwork(self.model, self.likelihood, self.prior, radius)  # type: ignore[arg-type]
            return flat, [flat.flat]
        forward = torch.compile(self.model) if compiled else self.model
        adversary = Adversary(self.model, self.likelihood, self.recipe.adversarial) if attacked else None
        taped = Autograd(self.model, forward, self.likelihood, self.prior, adversary)
        return taped, taped.parameters

    def _choose_optimizer(self) -> tuple[Optimizer | FlatAdam, LRScheduler | None]:
        """The recipe's; its default for a small network without torch."""
        recipe, steps = self.recipe, self.recipe.epochs * self.steps
        rate = float(recipe.learning_rate)  # type: ignore[arg-type]  # several are for `_choose_device_training`
        small_network = isinstance(self.gradients, small.SmallNetwork)
        if small_network and recipe.optimizer is adam and recipe.scheduler in (None, cosine):
            falling = None if recipe.scheduler is None else steps
            return FlatAdam(self.parameters[0], rate, falling), None
        optimizer = recipe.optimizer(self.parameters, rate)
        return optimizer, None if recipe.scheduler is None else recipe.scheduler(optimizer, steps)

    def _step(self, batch: Batch, beta: Any) -> BatchLoss:
        loss = self.gradients(batch, beta / self.data.total_weight)
        if self.recipe.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip_norm)
        self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()
        return loss

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
        if self.on_device is None and isinstance(self.gradients, small.SmallNetwork):
            self.gradients.release()

    @property
    def engine(self) -> str:
        """Which of the ways to compute a step this is, in a word."""
        return type(self.gradients if self.on_device is None else self.on_device.kind).__name__

    def state(self) -> checkpoints.Checkpoint:
        """All that a training needs to go on."""
        parts = (
            self.model.state_dict(),
            self.likelihood.state_dict(),
            optimizer_state.state_of(self._keeper, self._places),
        )
        best = None if self.best is None else checkpoints.Best(*self.best)
        return checkpoints.Checkpoint(*parts, self.history, best, self.engine)

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
            taken = len(state.history.epochs) * self.steps
            total = self.recipe.epochs * self.steps
            optimizer_state.load_(self._keeper, state.optimizer, self._places, taken, total)
        except (ValueError, TypeError, LookupError, RuntimeError, AttributeError) as error:  # torch raises all of them
            raise checkpoints.refusal(path, error) from error
        if self.on_device is None and isinstance(self.optimizer, FlatAdam):
            self.optimizer.taken = taken
        for module, tensors in states[:2]:
            module.load_state_dict(tensors)
        self.history, self.best = state.history, state.best
        if state.engine != self.engine:
            _log.info("%s was computed by %s; %s goes on.", path, state.engine, self.engine)

    @property
    def _places(self) -> optimizer_state.Places:
        """The parameters, by what is optimized."""
        places = optimizer_state.places_of(model=self.model, likelihood=self.likelihood)
        if self.on_device is None and isinstance(self.gradients, small.SmallNetwork):
            places[id(self.gradients.flat)] = [places[id(parameter)][0] for parameter in self.gradients.own]
        return places

    @property
    def _keeper(self) -> optimizer_state.Keeper:
        """Who keeps the state of the optimizer."""
        if self.on_device is not None:
            return self.on_device.kind
        if not isinstance(self.optimizer, FlatAdam):
            return optimizer_state.Kept([], self.optimizer, self.scheduler)
        assert isinstance(self.gradients, small.SmallNetwork)
        return optimizer_state.Kept(self.gradients.averages(self.optimizer.first, self.optimizer.second))


def _check_tensors(module: nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    """Raise unless these are the tensors of a module."""
    expected = {name: (one.shape, one.dtype) for name, one in module.state_dict().items()}
    if {name: (one.shape, one.dtype) for name, one in tensors.items()} != expected:
        raise ValueError(f"its tensors are not those of the {type(module).__name__}")
