"""What tests of `npn serve` share: small models, and servers of them on sockets of this machine."""

from __future__ import annotations

import http.client
import json
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import uvicorn

from torchnpn.serve import Limits, application, listen
from torchnpn.serve.server import BoundedProtocol
from torchnpn.tables import TableModel

QUICK = {"hidden": (8,), "max_epochs": 30, "device": "cpu"}


def frame(rows: int = 200) -> pd.DataFrame:
    """Every kind of column, and a target of every kind."""
    rng = np.random.default_rng(0)
    x, colour = rng.normal(size=rows), rng.choice(["red", "green", "blue"], rows)
    level = 3 * x + (colour == "red")
    return pd.DataFrame(
        {
            "x": np.where(rng.random(rows) < 0.1, np.nan, x),
            "colour": colour,
            "day": (pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, rows), unit="D")).strftime(
                "%Y-%m-%d"
            ),
            "y": level + rng.normal(size=rows),
            "kind": np.where(level > 1, "large", np.where(level > -1, "middle, or so", "small")),
            "count": rng.poisson(np.exp(0.3 * x + 1)),
        }
    )


def model(target: str) -> TableModel:
    features = ["x", "colour", "day", target]
    return TableModel.fit(frame()[features], target, **QUICK)


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def sentence(self) -> str:
        """Of a request that was refused."""
        assert 400 <= self.status < 600, self.status
        assert list(self.json) == ["error"]
        assert "\n" not in self.json["error"]
        return self.json["error"]


@dataclass
class Client:
    """Asks a server, each time over a new connection."""

    port: int

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Answer:
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        with closing(http.client.HTTPConnection("127.0.0.1", self.port)) as connection:
            connection.request(method, path, content, {"Content-Type": kind} if body is not None else {})
            found = connection.getresponse()
            headers = {name.lower(): value for name, value in found.getheaders()}
            return Answer(found.status, headers, found.read())

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def post(self, path: str, body: Any, kind: str = "application/json") -> Answer:
        return self.ask("POST", path, body, kind)


@contextmanager
def server(served: TableModel, limits: Limits | None = None):
    """The port of a server in a thread."""
    with listen("127.0.0.1", 0) as listening:
        app = application(served, limits)
        one = uvicorn.Server(uvicorn.Config(app, http=BoundedProtocol, ws="none", log_level="critical", lifespan="on"))
        thread = threading.Thread(target=one.run, kwargs={"sockets": [listening]})
        thread.start()
        while not one.started and thread.is_alive():
            time.sleep(0.01)
        yield listening.getsockname()[1]
        one.should_exit = True
        thread.join()
