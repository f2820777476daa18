"""One table: all contestants on one task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import torch

from npn_studies.bench import ours, rivals
from npn_studies.bench.clock import Limits, clock, in_turns, with_peak
from npn_studies.bench.task import Task
from npn_studies.bench.ways import COMPILED, COMPILED_GRAPH, EAGER, GRAPH, Call, Contestant, Unavailable

REPLICAS = 20
_LONGEST = 90  # letters of a reason
_FIRST_CALLS = {"cpu": 2, "cuda": 6}
Result = TypeVar("Result")


class Entry(NamedTuple):
    label: str
    build: Callable[[Task], Contestant]


ENTRIES = {
    "plain": Entry("plain", partial(rivals.plain, way=EAGER)),
    "plain-compiled": Entry("plain, compiled", partial(rivals.plain, way=COMPILED)),
    "plain-graph": Entry("plain, compiled, graph", partial(rivals.plain, way=COMPILED_GRAPH)),
    "plain-replayed": Entry("plain, graph", partial(rivals.plain, way=GRAPH)),
    "npn": Entry("NPN", partial(ours.npn, way=EAGER)),
    "npn-compiled": Entry("NPN, compiled", partial(ours.npn, way=COMPILED)),
    "npn-graph": Entry("NPN, graph", partial(ours.npn_on_device, fused=False)),
    "npn-fused": Entry(
        "NPN, fused",
        lambda task: ours.npn_on_device(task, fused=True) if task.gpu else ours.npn_on_cpu(task),
    ),
    "npn-tied": Entry(
        "NPN, tied",
        lambda task: (partial(ours.npn_on_device, fused=None) if task.gpu else ours.npn_on_cpu)(task, posterior="tied"),
    ),
    "npn-replicas": Entry(
        f"{REPLICAS} NPNs, each",
        lambda task: (
            ours.npn_on_device(task, fused=None, replicas=(REPLICAS,))
            if task.gpu
            else ours.npn(task, EAGER, replicas=(REPLICAS,))
        ),
    ),
    "npn-tied-replicas": Entry(
        f"{REPLICAS} tied NPNs, each",
        lambda task: ours.npn_on_device(task, fused=None, replicas=(REPLICAS,), posterior="tied"),
    ),
    "dropout-10": Entry("MC dropout, 10", partial(rivals.dropout, samples=10)),
    "dropout-50": Entry("MC dropout, 50", partial(rivals.dropout, samples=50)),
    "ensemble-5": Entry("ensemble of 5", partial(rivals.ensemble, members=5)),
    "bbb-10": Entry("Bayes by backprop, 10", partial(rivals.bayes_by_backprop, samples=10)),
}
PLAIN = tuple(name for name in ENTRIES if name.startswith("plain"))
FIGURES = "step_us", "predict_us", "peak_mb"


def contest(
    task: Task,
    names: Sequence[str],
    limits: Limits,
    progress: Callable[[float], None] = lambda share: None,
    training: bool = True,
) -> list[dict[str, Any]]:
    """Measure each contestant: a row of figures for one network, or of the reason why there are none.

    Args:
        task: What they do.
        names: Of contestants, keys of `ENTRIES`.
        limits: Of the time to measure.
        progress: Told the share of the work that is done.
        training: Whether to time a training step and its memory, or predictions alone.
    """
    torch.compiler.reset()  # torch compiles one piece of code only a few times, then gives up without a word
    clock_ = clock(task.device)
    rows: dict[str, dict[str, Any]] = {name: {"contestant": name} for name in names}
    contestants: dict[str, Contestant] = {}
    steps: dict[str, Call] = {}
    for i, name in enumerate(names):
        built = _attempt(rows[name], partial(with_peak, partial(_built, name, task, training), task.device))
        if built is not None:
            (contestants[name], step), megabytes = built
            if step is not None:
                steps[name] = step
                rows[name]["peak_mb"] = megabytes / contestants[name].networks
        progress(0.5 * (i + 1) / len(names))
    for name, microseconds in in_turns(steps, clock_, limits).items():
        rows[name]["step_us"] = microseconds / contestants[name].networks
    steps.clear()  # and the memory of their graphs
    progress(0.7)
    predictions: dict[str, Call] = {}
    for name, contestant in contestants.items():
        predict = _attempt(rows[name], partial(_ready, contestant, task))
        if predict is not None:
            predictions[name] = predict
    progress(0.9)
    for name, microseconds in in_turns(predictions, clock_, limits).items():
        rows[name]["predict_us"] = microseconds / contestants[name].networks
    progress(1.0)
    return list(rows.values())


def _built(name: str, task: Task, training: bool) -> tuple[Contestant, Call | None]:
    contestant = ENTRIES[name].build(task)
    return contestant, _called(contestant.training(), task) if training else None


def _ready(contestant: Contestant, task: Task) -> Call:
    return _called(contestant.prediction(), task)


def _called(call: Call, task: Task) -> Call:
    """After some calls: what fails, fails here, compilers are done, and the training loop has recorded its graph."""
    for _ in range(_FIRST_CALLS[task.device.type]):
        call()
    return call


def _attempt(row: dict[str, Any], action: Callable[[], Result]) -> Result | None:
    """Its result; or None, and the reason in the row: a contestant that fails spoils no table."""
    try:
        return action()
    except Exception as error:
        row["why"] = reason(error)
        return None


def reason(error: Exception) -> str:
    """In one short line."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return "out of memory"
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    text = (
        text
        if isinstance(error, (Unavailable, ValueError)) and text
        else f"{type(error).__name__}: {text}".removesuffix(": ")
    )
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
