"""How estimators learn: for how long, which networks, all or nothing, and what goes beside the rows."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from torchnpn.estimators.forward import rows_of
from torchnpn.likelihoods import Likelihood
from torchnpn.nn import Sequential, assemble_, member, replicas_of
from torchnpn.priors import Prior
from torchnpn.progress import Watch
from torchnpn.rows import HeldOutRows
from torchnpn.training import ALONE, History, Ramp, Recipe, geometric_ramp, join, mean_history, train

Array = NDArray[Any]
P = ParamSpec("P")
E = TypeVar("E")
_LEAST_EPOCHS = 10
_BATCH = 32, 1_024
_REGRESSION_STEPS = 10_000, 80_000
_MANY_ROWS = 20_000


def all_or_nothing(fit: Callable[Concatenate[E, P], Any]) -> Callable[Concatenate[E, P], E]:
    """A method that learns on a copy of its estimator, which takes the estimator's place once it is done.

    Whatever ends it early, an error or Ctrl-C, leaves the estimator as it was: unfitted, or with its old model. A
    shallow copy is enough for methods that assign what they learn and do not change the values of old attributes.

    Gradients are recorded, whatever torch's mode is outside, and that mode is put back: Ctrl-C at the first instant of
    a `with torch.no_grad()` would leave them switched off.
    """

    @functools.wraps(fit)
    def learn(self: E, *args: P.args, **options: P.kwargs) -> E:
        learner = copy.copy(self)
        with torch.inference_mode(False), torch.enable_grad():
            fit(learner, *args, **options)
        self.__dict__ = learner.__dict__  # one assignment: nothing can come between
        return self

    return learn  # type: ignore[return-value]  # the first argument has the name self


# How long ------------------------------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """Batch size and epochs."""

    batch_size: int
    epochs: int

    @classmethod
    def of(
        cls,
        rows: int,
        batch_size: int | None,
        epochs: int | None,
        steps: int = 10_000,
        most_epochs: int = 1_000,
        least_epochs: int = _LEAST_EPOCHS,
    ) -> Plan:
        """What was asked for, or else what suits that many rows: batches of about √rows, and so many steps."""
        batch = batch_size or min(max(2 ** round(math.log2(rows) / 2), _BATCH[0]), _BATCH[1])
        batch = int(min(batch, max(rows, _BATCH[0])))
        in_epoch = -(-rows // batch)
        return cls(batch, epochs or min(max(round(steps / in_epoch), least_epochs), most_epochs))


def regression_units(rows: int) -> tuple[int, ...]:
    """Hidden layers of a regression: one of 50 units, or of 100 for many rows, as the published networks have."""
    return (50,) if rows < _MANY_ROWS else (100,)


def regression_steps(rows: int) -> int:
    """10,000, and two for each row beyond so many, up to a limit; 40,000 rows still gain from seven times the least."""
    least, most = _REGRESSION_STEPS
    return min(max(least + 2 * (rows - least), least), most)


def ramp(kl_weight: float | Array, least: Callable[[], float | Array]) -> Ramp:
    """β rises twentyfold over the first 80 % of training, and is never below a share `least` of its end.

    Where there is a weight or a share for each replica, so does the ramp.

    Low at first, so that structure is found before units are pruned; but where much of the target is noise there is
    little to find and much to overfit, and `least` keeps it up.
    """
    rising = geometric_ramp(0.05, 1.0)

    def beta(progress: float) -> float | Array:
        share: float = rising(progress)
        bound = least()
        return kl_weight * (max(share, bound) if isinstance(bound, float) else np.maximum(share, bound))

    return beta


class FitOptions(NamedTuple):
    """What goes beside the rows through a fit."""

    watch: Watch = Watch()
    subsets: Any = None  # rows that each network may see
    validation: HeldOutRows | None = None


# Which networks ------------------------------------------------------------------------------------------------------


class Member(NamedTuple):
    """What one call of `train` changes: a network, or several along a leading dimension; and its seed."""

    network: Sequential
    likelihood: Likelihood
    seed: int


def new_network(
    build: Callable[[torch.Generator | None, tuple[int, ...]], Sequential], replicas: tuple[int, ...], seed: int
) -> Sequential:
    """A new network; the k-th member draws its numbers from `seed` + k, however many there are."""
    count = replicas[0] if replicas else 1
    networks = [build(torch.Generator().manual_seed(seed + k), ()) for k in range(count)]
    if not replicas:
        return networks[0]
    together = build(torch.Generator().manual_seed(seed), replicas)  # of which nothing is left
    assemble_(together, networks)
    return together


def train_members(
    whole: Member,
    device: torch.device,
    data: tuple[Any, Any, Array | None],
    prior: Prior | None,
    recipe: Callable[[Member, int, int], Recipe],
    report: Callable[[int, int], Callable[[History], Any] | None] = lambda k, members: None,
    subsets: Array | None = None,
    at_once: bool = False,
    validation: tuple[Any, Any, Array | None] | None = None,
) -> History:
    """Train a network, or the members of an ensemble, on a CPU one by one; the mean of their histories.

    Several processes each train some of such members, or all of them train all the rest together.

    Args:
        whole: What is trained, in place.
        device: Where.
        data: Inputs, targets and perhaps weights of rows.
        prior: As for `train`.
        recipe: The recipe of what is trained in the k-th of so many trainings.
        report: What is called after each epoch of the k-th of so many trainings.
        subsets: (members, n) numbers of the rows that each member may see.
        at_once: Whether members train at once on a CPU, too: a recipe may then have a number for each of them.
        validation: Inputs, targets and perhaps weights of rows that are held out, for an early end.
    """
    network, likelihood, seed = whole
    network.to(device)
    replicas, every = replicas_of(network), [whole]
    if apart := bool(replicas) and not at_once and trains_one_by_one(device):
        every = [Member(member(network, k), member(likelihood, k), seed + k) for k in range(replicas[0])]
    together = subsets if replicas and not apart else None
    processes = join()
    spread = processes if len(every) >= processes.count else ALONE  # of fewer members, all learn each from a part

    def learn(k: int) -> _Learnt:
        one, (x, y, weight) = every[k], data
        if subsets is not None and together is None:
            x, y = rows_of(x, subsets[k]), y[subsets[k]]
        told: dict[str, Any] = {"subsets": together, "callback": report(k, len(every)), "device": device}
        rows, how = _of_train((x, y, weight)), "alone" if spread.count > 1 else "auto"
        told["validation"] = None if validation is None else _of_train(validation)
        history = train(one.network, rows, one.likelihood, prior, recipe(one, k, len(every)), **told, strategy=how)
        return _Learnt(history, one.network.state_dict(), one.likelihood.state_dict())

    mine = range(len(every))[spread.rank :: spread.count]
    learnt = {k: one for found in spread.each(lambda: {k: learn(k) for k in mine}) for k, one in found.items()}
    for k, one in enumerate(every):
        one.network.load_state_dict(learnt[k].network)
        one.likelihood.load_state_dict(learnt[k].likelihood)
    if apart:
        assemble_(network, [one.network for one in every])
        assemble_(likelihood, [one.likelihood for one in every])
    network.eval()
    likelihood.cpu()
    return mean_history([learnt[k].history for k in range(len(every))])


def _of_train(rows: tuple[Any, Any, Array | None]) -> tuple[Any, ...]:
    """The form of `train`."""
    return rows[:2] if rows[2] is None else rows


class _Learnt(NamedTuple):
    """What a process tells the others of a member that it trained."""

    history: History
    network: dict[str, Any]
    likelihood: dict[str, Any]


def trains_one_by_one(device: torch.device) -> bool:
    """Whether members train one after the other: on a CPU, where each is then what it would be alone."""
    return device.type == "cpu"
