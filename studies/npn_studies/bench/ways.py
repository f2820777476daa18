"""Ways to run the same work: as it is written, compiled, or replayed from a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from npn_studies.bench.task import Task

Call = Callable[[], object]
_WARM_UPS = 3  # before a capture: lazy libraries and compilers do their work in the first calls


class Unavailable(Exception):
    """A contestant cannot run here; the message says why in a few words."""


class Way(NamedTuple):
    compiled: bool = False
    graph: bool = False


EAGER, COMPILED, GRAPH, COMPILED_GRAPH = Way(), Way(compiled=True), Way(graph=True), Way(compiled=True, graph=True)


class Contestant(NamedTuple):
    """What is measured. `training` and `prediction` make it ready, in this order; what they return is timed."""

    training: Callable[[], Call]  # one step: take rows, forward, backward, Adam
    prediction: Callable[[], Call]  # an answer with its uncertainty for one batch
    networks: int = 1  # that it trains at once


def require(way: Way, task: Task) -> None:
    """Raise where a way cannot be gone, before any work."""
    if way.graph and not task.gpu:
        raise Unavailable("needs a CUDA GPU")


def training_step(
    loss: Callable[[Tensor, Tensor], Tensor],
    parameters: Iterable[nn.Parameter],
    task: Task,
    way: Way,
    after_backward: Call = lambda: None,
    batch: Callable[[], tuple[Any, Tensor]] | None = None,
) -> Call:
    """One step of training with torch's fused Adam.

    Args:
        loss: Of a batch (x, y).
        parameters: To train.
        task: Whose batch is taken, on whose device.
        way: Compiled means the loss and its gradient; a graph holds the whole step.
        after_backward: What else adds to the gradients.
        batch: Takes the rows, instead of the task's own.
    """
    require(way, task)
    batch = task.batch if batch is None else batch
    optimizer = torch.optim.Adam(parameters, 1e-3, fused=True, capturable=task.gpu)
    forward = _compiled(loss) if way.compiled else loss

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)  # in a graph the new gradients get the same memory in every replay
        forward(*batch()).backward()
        after_backward()
        optimizer.step()

    return _replayed(step) if way.graph else step


def prediction(answer: Callable[[Any], object], x: Any, task: Task, way: Way) -> Call:
    """The answer for inputs x, without gradients."""
    require(way, task)
    function = _compiled(answer) if way.compiled else answer

    def predict() -> object:
        with torch.no_grad():
            return function(x)

    return _replayed(predict) if way.graph else predict


@cache
def side_stream() -> torch.cuda.Stream:
    """The stream of all captures; a first product has taken the library's workspace, which is no contestant's."""
    side = torch.cuda.Stream()
    for stream in (side, torch.cuda.current_stream()):
        with torch.cuda.stream(stream):
            torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")
    torch.cuda.synchronize()
    return side


def _replayed(function: Call) -> Call:
    """The kernels of one call, captured in a CUDA graph, which is launched as a whole."""
    here, side = torch.cuda.current_stream(), side_stream()
    side.wait_stream(here)
    with torch.cuda.stream(side):
        for _ in range(_WARM_UPS):
            function()
    here.wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):  # on the stream where the tape's leaves have been
        function()
    held = function  # and with it the memory that the graph works on

    def replay() -> object:
        graph.replay()
        return held

    return replay


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, dynamic=False)
