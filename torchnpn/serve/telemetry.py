"""What `/metrics` tells Prometheus of one server."""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Telemetry:
    """Counters of one server; several servers in a process do not share them.

    Args:
        waiting: Says how many rows wait at the moment.
    """

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, waiting: Callable[[], int]) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)  # memory, CPU seconds, open files
        self._requests = Counter("npn_requests", "Requests, by path and status.", ["path", "status"], registry=registry)
        self._seconds = Histogram(
            "npn_request_seconds", "From a request to its answer.", ["path"], registry=registry, buckets=_SECONDS
        )
        self._rows = Counter("npn_rows", "Rows that were predicted.", registry=registry)
        self._batch = Histogram("npn_batch_rows", "Rows predicted together.", registry=registry, buckets=_ROWS)
        Gauge("npn_waiting_rows", "Rows that wait.", registry=registry).set_function(waiting)

    def batch(self, rows: int) -> None:
        """A batch is predicted."""
        self._rows.inc(rows)
        self._batch.observe(rows)

    def answered(self, path: str, status: int, since: float) -> None:
        """A request that came at `since`, of `time.perf_counter`, has its answer."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(time.perf_counter() - since)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return bytes(generate_latest(self._registry))
