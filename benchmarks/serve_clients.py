"""Clients of `npn serve` that know the right answers, and others that send what no server should stumble over."""

from __future__ import annotations

import http.client
import json
import random
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import torchnpn as npn

JSON, CSV = "application/json", "text/csv"
KINDS = {"one row": 12, "seven rows": 3, "CSV": 2, "explain": 1}  # good ones, with how often each comes
KINDS |= {"broken JSON": 3, "wrong cells": 3, "broken CSV": 1, "too large": 1, "slow": 1, "leaves": 2}
CLIENTS = 12
CELLS = [None, True, -1, 1e9, 1e308, "", "flat", "2023-01-01", "1e400", "\x00", "é" * 50, [], {}, [[1]], "=1+1", "-"]


class Wrong(Exception):
    """An answer that is not the one to this question, or no answer."""


def until_healthy(port: int, seconds: float) -> None:
    """Wait for a server to answer."""
    end = time.monotonic() + seconds
    while True:
        try:
            if ask(port, "GET", "/health")[0] == 200:
                return
        except OSError:
            if time.monotonic() > end:
                raise
        time.sleep(0.1)


def ask(port: int, method: str, path: str, body: bytes = b"", kind: str = JSON) -> tuple[int, bytes]:
    """Status and body of an answer."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        connection.request(method, path, body, {"Content-Type": kind})
        found = connection.getresponse()
        return found.status, found.read()


class Crowd:
    """Clients of one server that know what its model predicts for some rows."""

    def __init__(self, model: Path, port: int, rows: pd.DataFrame) -> None:
        self.port = port
        self.rows = rows.drop(columns="price")
        self.expected = pd.DataFrame(npn.load(model).predict(self.rows))
        plain = self.rows.astype(object).where(self.rows.notna(), None)
        self.objects: list[dict[str, Any]] = plain.to_dict("records")  # type: ignore[assignment]

    def visit(self, kind: str, rng: random.Random) -> int:
        """One request of a kind; its status, 0 for who leaves before there is one."""
        many = {"one row": 1, "seven rows": 7, "CSV": 40}.get(kind, 1)
        places = [rng.randrange(len(self.rows)) for _ in range(many)]
        rows = [self.objects[i] for i in places]
        body = json.dumps(rows[0] if kind in ("one row", "explain", "leaves", "slow") else rows).encode()
        if kind == "leaves":
            with socket.create_connection(("127.0.0.1", self.port)) as rude:
                rude.sendall(_head(len(body)) + body[: rng.randrange(len(body) + 1)])
            return 0
        if kind == "slow":
            return self._slowly(body)
        if kind == "too large":
            return self._refused(*ask(self.port, "POST", "/predict", b" " * (9 << 20)), {413})
        if kind == "broken JSON":
            return self._refused(*ask(self.port, "POST", "/predict", _broken(body, rng)), {200, 400, 422})
        if kind == "wrong cells":
            wrong = json.dumps({**rows[0], rng.choice(list(self.rows)): rng.choice(CELLS)}).encode()
            return self._refused(*ask(self.port, "POST", "/predict", wrong), {200, 422})
        if kind == "broken CSV":
            text = self.rows.iloc[:5].to_csv(index=False).encode()
            return self._refused(*ask(self.port, "POST", "/predict", _broken(text, rng), CSV), {200, 413, 422})
        if kind == "CSV":
            text = self.rows.iloc[places].to_csv(index=False).encode()
            status, answer = ask(self.port, "POST", "/predict", text, CSV)
            return self._right(status, lambda: pd.read_csv(BytesIO(answer)), places, 2e-6)  # seven digits
        status, answer = ask(self.port, "POST", "/explain" if kind == "explain" else "/predict", body)
        if kind == "explain":
            return self._right(status, lambda: pd.DataFrame([json.loads(answer)]).add_prefix("price_"), places)
        return self._right(status, lambda: pd.DataFrame(_listed(json.loads(answer))), places)

    def _right(self, status: int, read: Callable[[], pd.DataFrame], places: list[int], rtol: float = 1e-9) -> int:
        """The status of an answer that has the numbers of the model; 503 is an answer, too."""
        if status == 503:
            return status
        if status != 200:
            raise Wrong(f"status {status} for good rows")
        expected = self.expected.iloc[places]
        found = read()[list(expected.columns)].to_numpy(float)
        if not np.allclose(found, expected.to_numpy(), rtol=rtol, atol=1e-9):
            raise Wrong("another row's numbers")
        return status

    def _refused(self, status: int, answer: bytes, allowed: set[int]) -> int:
        """The status of an answer that is a prediction, or one sentence."""
        if status not in allowed | {503}:
            raise Wrong(f"status {status}")
        sentence = json.loads(answer)["error"] if status != 200 else "."
        if not sentence or "\n" in sentence or "Traceback" in sentence:
            raise Wrong(f"no sentence: {sentence[:80]!r}")
        return status

    def _slowly(self, body: bytes) -> int:
        """A byte each half second: the server gives up first."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as slow:
            slow.sendall(_head(len(body)))
            slow.settimeout(0.5)
            for i in range(60):
                try:
                    return int(slow.recv(1_000).split()[1])
                except TimeoutError:
                    slow.send(body[i : i + 1])
        raise Wrong("a slow body was waited for")


def crowd(model: Path, port: int, rows: pd.DataFrame, seconds: float, watch: Callable[[], None]) -> dict[str, Any]:
    """Let clients come for some time, and watch meanwhile: answers by kind and status, and how many were wrong."""
    clients, end = Crowd(model, port, rows), time.monotonic() + seconds
    answers: dict[str, Counter[str]] = defaultdict(Counter)
    wrong: list[str] = []
    lock = threading.Lock()

    def come(number: int) -> None:
        rng = random.Random(number)
        while time.monotonic() < end:
            (kind,) = rng.choices(list(KINDS), list(KINDS.values()))
            try:
                status = str(clients.visit(kind, rng))
            except (Wrong, OSError, http.client.HTTPException) as error:
                if kind == "too large" and isinstance(error, OSError):
                    status = "closed"  # before all was sent
                else:
                    status = "wrong"
                    wrong.append(f"{kind}: {type(error).__name__}: {error}")
            with lock:
                answers[kind][status] += 1

    with ThreadPoolExecutor(CLIENTS) as pool:
        coming = [pool.submit(come, number) for number in range(CLIENTS)]
        while time.monotonic() < end:
            time.sleep(min(2.0, seconds / 20))
            watch()
    for one in coming:
        one.result()
    return {"wrong": len(wrong), "complaints": wrong[:10], "answers": {k: dict(v) for k, v in sorted(answers.items())}}


def _head(length: int) -> bytes:
    return (
        b"POST /predict HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % length
    )


def _broken(body: bytes, rng: random.Random) -> bytes:
    """The same with some bytes lost, added or changed."""
    changed = bytearray(body)
    for _ in range(rng.randrange(1, 6)):
        place = rng.randrange(len(changed) or 1)
        changed[place : place + rng.randrange(3)] = rng.randbytes(rng.randrange(4))
    return bytes(changed)


def _listed(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found]
