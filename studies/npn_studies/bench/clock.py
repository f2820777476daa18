"""Time and memory of calls, in one process, in turns."""

from __future__ import annotations

import gc
import itertools
import os
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

import torch

from npn_studies.bench.ways import Call, side_stream

_REPLAYS = 20  # between two events: a single short call is lost in the time of a launch
_FEWEST = 3  # rounds, however long they take
Result = TypeVar("Result")


class Limits(NamedTuple):
    """How long to measure: so many rounds, or fewer where the seconds are over."""

    rounds: int
    seconds: float


class Clock(NamedTuple):
    seconds: Callable[[Call], float]  # of one call
    typical: Callable[[list[float]], float]  # of many


def clock(device: torch.device) -> Clock:
    """Of a device.

    CPU: the smallest over the rounds, of the process's own time with one thread and of the wall clock with more,
    because everything else on a machine can only add to it. GPU: the median of the time between two events.
    """
    if device.type == "cuda":
        return Clock(_between_events, statistics.median)
    hand = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    return Clock(partial(_by_hand, hand), min)


def in_turns(calls: Mapping[str, Call], clock: Clock, limits: Limits) -> dict[str, float]:
    """Microseconds of each call; rounds of all of them alternate, and each is called once before the first."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    start = time.perf_counter()
    for done in range(limits.rounds):
        if done >= _FEWEST and time.perf_counter() - start > limits.seconds:
            break
        for name, call in calls.items():
            times[name].append(1e6 * clock.seconds(call))
    return {name: clock.typical(seen) for name, seen in times.items()}


def _by_hand(hand: Callable[[], float], call: Call) -> float:
    start = hand()
    call()
    return hand() - start


def _between_events(call: Call) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    for _ in range(_REPLAYS):
        call()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / _REPLAYS


def with_peak(action: Callable[[], Result], device: torch.device) -> tuple[Result, float]:
    """What `action` returns, and the most megabytes of tensors that it held at any time."""
    if device.type == "cuda":
        side_stream()
        gc.collect()  # what is freed during the action would count in its favour
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        result = action()
        torch.cuda.synchronize()
        return result, (torch.cuda.max_memory_allocated() - before) / 2**20
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else the profiler writes its own lines on the error stream
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        result = action()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return result, max(itertools.accumulate((event.nbytes() for event in events), initial=0)) / 2**20
