"""Around the recording of a CUDA graph: what a machine without one can show."""

import gc
import weakref

import pytest

from torchnpn import _cuda


class Node:
    """Dead cycles of these are found by the collector alone."""

    def __init__(self) -> None:
        self.itself = self


def dead_cycle() -> weakref.ref:
    return weakref.ref(Node())


@pytest.fixture(params=[True, False], ids=["collector on", "collector off"])
def enabled(request):
    """With the collector on or off beforehand."""
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def test_old_garbage_goes_before_and_new_garbage_stays(enabled):
    old = dead_cycle()
    with _cuda.gc_paused():
        assert old() is None
        new = dead_cycle()
        kept = [[] for _ in range(100_000)]  # as many new objects as would call the collector many times
        assert new() is not None and len(kept) == 100_000
    assert gc.isenabled() == enabled


def test_the_collector_is_as_before_after_an_error(enabled):
    with pytest.raises(ZeroDivisionError), _cuda.gc_paused():
        raise ZeroDivisionError
    assert gc.isenabled() == enabled
