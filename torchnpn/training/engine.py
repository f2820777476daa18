"""Where a network is trained, by which engine, and why not by a faster one; and the epochs that it computes.

There are two: by autograd (`tape`), for any network, and Gaussian chains (`chain`), in numpy, torch or Triton. On a GPU
the steps of either are recorded in a CUDA graph.
"""

from __future__ import annotations

import logging
import os
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor, nn

from torchnpn import kernels
from torchnpn._cuda import CapturedCall
from torchnpn.likelihoods import Likelihood
from torchnpn.nn import count_replicas, drawing_from, replicas_of
from torchnpn.priors import Prior
from torchnpn.sparse import SparseRows
from torchnpn.training.chain import TritonChainSteps, why_not_triton
from torchnpn.training.cpu_chain import CpuChainSteps, NumpyChainSteps, WideChainSteps, why_not_numpy, why_not_on_cpu
from torchnpn.training.data import Loader, Rows, Source, as_batches
from torchnpn.training.distributed import ALONE, Processes
from torchnpn.training.epoch import DevicePlan, EpochSummary, HostPlan
from torchnpn.training.recipe import Recipe
from torchnpn.training.tape import Objective, Steps, TapeSteps

_log = logging.getLogger("torchnpn")


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
    try:
        torch.zeros(1, device=place).item()  # on "meta" there is no number
    except (RuntimeError, AssertionError, ImportError):  # torch's answers for devices that are not there
        raise ValueError(
            f'device="{place}" expects a device that this torch computes on, got another. Take device="auto".'
        ) from None
    return place


class Engine:
    """Epochs of steps; on a CUDA device each step after the first few is a repeated graph, as is an epoch's end."""

    def __init__(self, stepper: Steps) -> None:
        self.stepper, self.plan, self.precision = stepper, stepper.plan, stepper.recipe.precision
        recorded = isinstance(self.plan, DevicePlan)
        self.run = CapturedCall(self._step, self.plan.device, self.plan.generator) if recorded else stepper.step
        self.close = CapturedCall(self._close, self.plan.device) if recorded else self._close

    @property
    def name(self) -> str:
        """Of the way to compute a step, in a word."""
        return type(self.stepper).__name__

    def _step(self) -> None:
        with kernels.precision(self.precision), drawing_from(self.plan.generator):
            self.stepper.step()

    def begin(self, number: int) -> None:
        """Prepare epoch `number`, counted from zero."""
        self.plan.begin(number)
        self.stepper.begin()

    def epoch(self, number: int) -> EpochSummary:
        """One pass over the rows."""
        with kernels.precision(self.precision), drawing_from(self.plan.generator):
            self.begin(number)
            scheduler = self.stepper.update.scheduler
            for _ in range(self.plan.steps):
                self.run()
                if scheduler is not None:
                    scheduler.step()
            loss, divergence, broken = self.close().tolist()  # the host waits for a GPU here, and nowhere else
            loss = self.plan.processes.total(loss, self.plan.device)
        return EpochSummary(loss, self.plan.last_kl_weight, divergence, bool(broken))

    @torch.no_grad()
    def _close(self) -> Tensor:  # (3,)
        broken = torch.stack([p.isnan().any() for p in self.stepper.parameters]).any()
        parts = (self.plan.loss(), self.stepper.divergence(), broken)
        return torch.stack([torch.as_tensor(part, dtype=torch.float64, device=self.plan.device) for part in parts])


def choose_engine(objective: Objective, data: Source, device: torch.device, processes: Processes = ALONE) -> Engine:
    """The engine for a training, perhaps by several processes."""
    recorded = recorded_engine(objective, data, device, processes)
    if isinstance(recorded, Engine):
        return recorded
    if device.type == "cuda" and isinstance(data, Rows):
        _log.warning("Training without a CUDA graph, which is slower: %s.", recorded)
    steps = host_steps(objective, data, device)
    return Engine(steps(objective, HostPlan(data, objective.recipe, device, processes)))


def host_steps(objective: Objective, data: Source, device: torch.device) -> type[CpuChainSteps] | type[TapeSteps]:
    """The kind of steps that the host takes one by one."""
    if not _is_single(objective.model) or why_not_cpu_chain(objective, data, device) is not None:
        return TapeSteps
    return NumpyChainSteps if why_not_numpy(objective.model, objective.prior, device) is None else WideChainSteps


def recorded_engine(
    objective: Objective, data: Source, device: torch.device, processes: Processes = ALONE
) -> Engine | str:
    """One with steps on the device: on a GPU, or for replicas; else why not."""
    several = np.ndim(objective.recipe.learning_rate) > 0 or getattr(data, "subsets", None) is not None
    if not isinstance(data, Rows):
        if several:
            raise ValueError("One learning rate for each replica needs data in memory: (x, y), not a DataLoader.")
        return "the rows do not lie in memory" if device.type == "cuda" else f"it trains on {device.type}"
    together = not _is_single(objective.model) and _why_not_together(objective, data, device) is None
    if not (device.type == "cuda" or several or together):
        return f"it trains on {device.type}"
    try:
        return device_engine(objective.model, data, *objective[1:], processes=processes)
    except ValueError as reason:
        if several:
            raise
        return str(reason)


def _is_single(model: nn.Module) -> bool:
    """Whether it is one network."""
    return replicas_of(model) in ((), (1,))


def _why_not_together(objective: Objective, data: Source, device: torch.device) -> str | None:
    """Why several networks are not trained by `NumpyChainSteps`; None where they are."""
    reason = why_not_cpu_chain(objective, data, device)
    return why_not_numpy(objective.model, objective.prior, device) if reason is None else reason


def why_not_cpu_chain(objective: Objective, data: Source, device: torch.device) -> str | None:
    """Why a training is not computed by steps of `cpu_chain`; None where it is."""
    model, _, prior, recipe = objective
    if isinstance(data, Loader) or (isinstance(data, Rows) and not isinstance(data.y, Tensor)):
        return "the data are a DataLoader, or targets are sparse"
    x = data.x if isinstance(data, Rows) else None
    if isinstance(x, SparseRows) or (scipy.sparse.issparse(x) and not _is_single(model)):
        return "inputs are sparse, and there are replicas"
    return "the recipe asks for compiling" if recipe.compile else why_not_on_cpu(model, prior, device)


def device_engine(
    model: nn.Module,
    data: Any,
    likelihood: Likelihood,
    prior: Prior | None,
    recipe: Recipe,
    *,
    fused: bool | None = None,
    processes: Processes = ALONE,
) -> Engine:
    """Steps for data on the device: in Triton where that applies, else by autograd; or as `fused` demands.

    Raises:
        ValueError: If a fused step is demanded for a network that has none, or anything here cannot be recorded.
    """
    objective = Objective(model, likelihood, prior, recipe)
    rows = data if isinstance(data, Rows) else as_batches(data, next(model.parameters()).device)
    assert isinstance(rows, Rows)
    rows = rows.with_gathering()
    on_cuda = rows.y.device.type == "cuda"
    reason = why_not_triton(model, rows, prior, recipe, on_cuda or "TRITON_INTERPRET" in os.environ, processes)
    if fused and reason is not None:
        raise ValueError(f"A fused training step does not apply: {reason}.")
    replicas, rates = count_replicas(model), np.shape(recipe.learning_rate)
    if rates not in ((), (replicas,)):
        raise ValueError(
            f"Recipe expects one learning rate, or {replicas}, one for each replica of the network, got {rates[0]}."
        )
    if rows.subsets is not None and len(rows.subsets) != replicas:
        raise ValueError(f"subsets expects rows for each of {replicas} replicas, got {len(rows.subsets)}.")
    if replicas > 1 and any(p.shape[:1] != (replicas,) for p in objective.learnt.parameters()):
        raise ValueError("replicas share some parameters, of the network or of the likelihood")
    kind: type[TritonChainSteps | NumpyChainSteps | TapeSteps] = TapeSteps
    if fused or (fused is None and reason is None and on_cuda):
        kind = TritonChainSteps
    elif fused is None and replicas > 1 and _why_not_together(objective, rows, rows.y.device) is None:
        kind = NumpyChainSteps
    return Engine(kind(objective, DevicePlan(rows, recipe, replicas, processes)))
