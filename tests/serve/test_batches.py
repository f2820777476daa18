"""Requests that wait are predicted together: by the event loop while that is quick, else by a thread."""

from __future__ import annotations

import asyncio
import threading
import time

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")

from torchnpn.serve.batches import MOST_ROWS, Batches


def together(predict, requests):
    """Answers, or errors, of requests that come at a time, and the rows of each batch."""
    sizes = []

    async def all_of_them():
        batches = Batches(predict, 10_000, sizes.append)
        answers = [batches.predict(np.array(rows, float)[:, None], level) for rows, level in requests]
        found = await asyncio.gather(*answers, return_exceptions=True)
        batches.close()
        return found

    return asyncio.run(all_of_them()), sizes


def shifted(X, level):
    if (X < 0).any():
        raise ValueError(f"no negative rows, got {X.min():g}")
    return {"y": X[:, 0] + level}


def test_what_waits_is_predicted_together_and_each_gets_its_own():
    requests = [([i, i + 0.5], 0.5) for i in range(20)] + [([100 + i], 0.9) for i in range(5)]
    answers, sizes = together(shifted, requests)
    for (rows, level), answer in zip(requests, answers, strict=True):
        np.testing.assert_array_equal(answer["y"], np.array(rows) + level)
    assert sizes == [40, 5]


def test_rows_that_cannot_be_predicted_are_no_trouble_to_others():
    answers, _ = together(shifted, [([1], 0.5), ([-3], 0.5), ([2, 4], 0.5)])
    np.testing.assert_array_equal(answers[0]["y"], [1.5])
    assert str(answers[1]) == "no negative rows, got -3"
    np.testing.assert_array_equal(answers[2]["y"], [2.5, 4.5])


def test_many_rows_go_in_parts():
    (answer,), sizes = together(shifted, [(range(600), 0.5)])
    np.testing.assert_array_equal(answer["y"], np.arange(600) + 0.5)
    assert sizes == [MOST_ROWS, MOST_ROWS, 600 - 2 * MOST_ROWS]


def test_slow_batches_go_to_a_thread_and_quick_ones_come_back():
    where = []

    def predict(X, level):
        where.append(threading.current_thread() is threading.main_thread())
        start = time.thread_time()
        while time.thread_time() - start < X[0, 0]:
            pass
        return {"y": X[:, 0]}

    async def in_turn():
        batches = Batches(predict, 10)
        for seconds in (0, 0.02, 0.02, 0, 0):
            await batches.predict(np.array([[seconds]]), 0.9)
        batches.close()

    asyncio.run(in_turn())
    assert where == [True, True, False, False, True]
