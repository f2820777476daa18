"""Requests that arrive while others are predicted wait together, and are predicted together next."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from torchnpn.serve.limits import Refused

Array = NDArray[Any]
Columns = dict[str, Array]  # each (rows,)
MOST_ROWS = 256  # that are predicted at a time: a request of many rows lets others pass between its parts
_QUICK = 0.005  # seconds, in which handing a batch to a thread and back would be most of the work


class _Job(NamedTuple):
    X: Array  # (rows, inputs)
    level: float
    answer: asyncio.Future[Columns]


class Batches:
    """All that waits is predicted at once, each time that nothing else is: nobody waits for a batch to fill.

    While batches are quick, the event loop predicts them itself: two threads of Python would only wait for each other.
    Slow ones go to a thread, so that the loop can go on to read and to answer.

    Args:
        predict: From rows and a level to columns of predictions; a ValueError for rows that cannot be predicted.
        waiting: Rows that may wait at most.
        observe: Told the rows of each batch.
    """

    def __init__(
        self,
        predict: Callable[[Array, float], Columns],
        waiting: int,
        observe: Callable[[int], None] = lambda rows: None,
    ) -> None:
        self._predict, self._most, self._observe = predict, waiting, observe
        self._jobs: deque[_Job] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="npn-predict")
        self._worker: asyncio.Task[None] | None = None
        self._seconds = 0.0  # of its thread, that the last batch took
        self.waiting = 0  # rows

    async def predict(self, X: Array, level: float) -> Columns:
        """Predictions of these rows; a ValueError where one of them cannot be predicted."""
        with self._room(len(X)):
            parts = [await self._part(X[i : i + MOST_ROWS], level) for i in range(0, len(X), MOST_ROWS)]
        return parts[0] if len(parts) == 1 else {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}

    async def run(self, work: Callable[[], Any]) -> Any:
        """Other work with the model, in its turn."""
        with self._room(1):
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        """Stop after the batch at hand."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    @contextmanager
    def _room(self, rows: int) -> Iterator[None]:
        if self.waiting + rows > self._most:
            raise Refused(503, f"{self.waiting:,} rows are waiting already; try again in a few seconds.")
        self.waiting += rows
        try:
            yield
        finally:
            self.waiting -= rows

    async def _part(self, X: Array, level: float) -> Columns:
        job = _Job(X, level, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await job.answer

    async def _work(self) -> None:
        """Until nothing waits."""
        loop = asyncio.get_running_loop()
        while self._jobs:
            jobs = self._next()
            if not jobs:
                continue
            try:
                if self._seconds < _QUICK:
                    answers = self._timed_answers(jobs)
                else:
                    answers = await loop.run_in_executor(self._thread, self._timed_answers, jobs)
            except Exception as error:  # whatever it is, those who wait must hear of it
                answers = [error] * len(jobs)
            for job, answer in zip(jobs, answers, strict=True):
                if job.answer.done():  # whoever asked has gone
                    continue
                if isinstance(answer, Exception):
                    job.answer.set_exception(answer)
                else:
                    job.answer.set_result(answer)
            await asyncio.sleep(0)  # these answers go out before the next batch

    def _next(self) -> list[_Job]:
        """The first jobs that ask for the same level, as many as fit; without those that nobody waits for."""
        taken: list[_Job] = []
        rows = 0
        while self._jobs:
            job = self._jobs[0]
            if not job.answer.done():
                if taken and (job.level != taken[0].level or rows + len(job.X) > MOST_ROWS):
                    break
                taken.append(job)
                rows += len(job.X)
            self._jobs.popleft()
        return taken

    def _timed_answers(self, jobs: list[_Job]) -> list[Columns | Exception]:
        since = time.thread_time()
        answers = self._answers(jobs)
        self._seconds = time.thread_time() - since
        return answers

    def _answers(self, jobs: list[_Job]) -> list[Columns | Exception]:
        """Of one batch; where it fails, of each job alone, so that nobody suffers for the rows of others."""
        level, ends = jobs[0].level, np.cumsum([len(job.X) for job in jobs]).tolist()
        self._observe(ends[-1])
        try:
            whole = self._predict(np.concatenate([job.X for job in jobs]), level)
        except ValueError as error:
            return [error] if len(jobs) == 1 else [self._answers([job])[0] for job in jobs]
        parts = zip([0, *ends[:-1]], ends, strict=True)
        return [{name: column[a:b] for name, column in whole.items()} for a, b in parts]
