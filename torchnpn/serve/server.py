"""The process that serves: a socket, uvicorn, and connections that must say quickly what they want."""

from __future__ import annotations

import asyncio
import gc
import socket
from typing import Any

import torch
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from torchnpn.serve.app import application
from torchnpn.serve.limits import Limits
from torchnpn.tables import TableModel

_HEAD_SECONDS, _HEAD_BYTES = 10.0, 64 << 10  # in which a request must have said its path and its headers
_BACKLOG = 2_048


class BoundedProtocol(HttpToolsProtocol):  # type: ignore[misc]  # uvicorn has no types where it is not installed
    """A connection that is closed where the head of a request is too long, or takes too long to arrive.

    uvicorn bounds neither; bodies are bounded by the application.
    """

    _timer: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._timer is not None:
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_BYTES:
                self._give_up()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect_head()

    def on_headers_complete(self) -> None:
        self._stop_timer()
        super().on_headers_complete()

    def _expect_head(self) -> None:
        if self._timer is None:
            self._head_bytes = 0
            self._timer = self.loop.call_later(_HEAD_SECONDS, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._stop_timer()
        self.transport.abort()


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound now, so that a port in use is an error before the model is loaded; port 0 takes any."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def serve(model: TableModel, listening: socket.socket, limits: Limits | None = None) -> None:
    """Answer until a signal says to stop; requests that are being answered are finished first."""
    bounds = limits or Limits()
    torch.set_num_threads(1)  # one thread predicts, the other one talks: more would only wait for each other
    config = uvicorn.Config(
        application(model, bounds),
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=bounds.connections,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
    )
    gc.collect()
    gc.freeze()  # torch is half a million objects, and to look through them again and again stops all answers
    uvicorn.Server(config).run(sockets=[listening])
