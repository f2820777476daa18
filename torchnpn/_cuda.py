"""CUDA graphs: work that is launched once, recorded, and from then on repeated by a single call of the host."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

_log = logging.getLogger("torchnpn")
_WARM_UPS = 3  # calls before recording, in which kernels are compiled and workspaces are taken
_SIDE_STREAMS = 4


class CapturedCall:
    """A function without arguments that works on the same memory in each call; recorded after some plain calls.

    On a CPU every call is a plain one.

    Args:
        function: May allocate, but not make the host wait, nor choose by values on the device; one that does is
            called each time, and a line in the log says so.
        device: Where it works.
        generator: From which it draws random numbers, beside the device's own generator; its seed and its place when
            the function is called count also for a graph.
    """

    def __init__(
        self, function: Callable[[], Any], device: torch.device, generator: torch.Generator | None = None
    ) -> None:
        self.function, self.device, self.generator = function, device, generator
        self.result: Any = None
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __call__(self) -> Any:
        if self._graph is not None:
            self._graph.replay()
            return self.result
        if self._stream is None:
            return self.function()
        current = torch.cuda.current_stream(self.device)
        if self._calls < _WARM_UPS:
            self._calls += 1
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):
                self.result = self.function()
            current.wait_stream(self._stream)
            return self.result
        torch.cuda.synchronize(self.device)
        graph = torch.cuda.CUDAGraph()
        if self.generator is not None:
            graph.register_generator_state(self.generator)
        try:
            with gc_paused(), torch.cuda.graph(graph, stream=self._stream):
                self.result = self.function()
        except RuntimeError as reason:
            _log.warning("No CUDA graph, which is slower: %s", str(reason).partition("\n")[0])
            self._stream = None
            _release(self._generators)
            return self.function()
        self._graph = graph
        graph.replay()
        return self.result

    @property
    def _generators(self) -> list[torch.Generator]:
        """The device's own, and that of this function."""
        with torch.cuda.device(self.device):
            default = torch.cuda.default_generators[torch.cuda.current_device()]
        return [default] if self.generator is None else [default, self.generator]


@contextmanager
def gc_paused() -> Iterator[None]:
    """Garbage is collected before, and not again until the end.

    A graph of an earlier training that is destroyed while another is recorded spoils the recording, and torch does not
    collect before it any more.
    """
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _release(generators: list[torch.Generator]) -> None:
    """A recording that failed leaves generators bound to it, and all draws would fail; a copied state is free."""
    for generator in generators:
        generator.graphsafe_set_state(generator.clone_state())


class SideStreams:
    """Work that nothing waits for until `join`: it runs on streams of its own, taken in turns, beside what follows."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._streams = [torch.cuda.Stream(device) for _ in range(_SIDE_STREAMS)] if device.type == "cuda" else []
        self._held: list[Any] = []  # what the streams still read must not be given away

    def __call__(self, function: Callable[..., None], *arguments: Any) -> None:
        if not self._streams:
            function(*arguments)
            return
        stream = self._streams[len(self._held) % len(self._streams)]
        self._held.append(arguments)
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            function(*arguments)

    def join(self) -> None:
        for stream in self._streams[: len(self._held)]:
            torch.cuda.current_stream(self._device).wait_stream(stream)
        self._held.clear()


def captured(function: Callable[..., Any], *examples: Tensor) -> Callable[..., Any]:
    """`function` as a graph, for tensors of the shapes of the examples; what it returns is overwritten by each call.

    For prediction at low latency: the host launches one graph in place of every kernel. On a CPU, `function` itself.
    """
    if not examples or examples[0].device.type != "cuda":
        return function
    inputs = [example.clone() for example in examples]
    repeated = CapturedCall(lambda: function(*inputs), examples[0].device)
    for _ in range(_WARM_UPS + 1):
        repeated()

    def call(*tensors: Tensor) -> Any:
        for place, tensor in zip(inputs, tensors, strict=True):
            place.copy_(tensor)
        return repeated()

    return call
