"""The routes of a server for one model: predictions, one row explained, a page to play with, health and metrics."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

import torchnpn
from torchnpn.serve.about import about
from torchnpn.serve.answers import as_csv, as_json, objects
from torchnpn.serve.batches import Batches
from torchnpn.serve.explain import explain
from torchnpn.serve.limits import Limits, Refused
from torchnpn.serve.openapi import document
from torchnpn.serve.rows import RowReader, parsed, read_csv
from torchnpn.serve.telemetry import Telemetry
from torchnpn.tables import TableModel

_PAGE = {"/": ("index.html", "text/html"), "/style.css": ("style.css", "text/css")} | {
    f"/{name}.js": (f"{name}.js", "text/javascript") for name in ("page", "controls", "drawing")
}
_SAFE = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_SMALL = 1 << 16  # bytes of a body that is parsed at once; others go to a thread, so that nobody waits for them
_MANY_CLASSES, _TOP = 20, 5
Answer = Callable[[Request], Awaitable[Response]]


class Service:
    """What the routes share: the model, its thread, and what is counted."""

    def __init__(self, model: TableModel, limits: Limits) -> None:
        self.model, self.limits, self.reader = model, limits, RowReader(model.schema)
        top = _TOP if len(model.target.classes) > _MANY_CLASSES else 0
        self.telemetry = Telemetry(lambda: self.batches.waiting)
        self.batches = Batches(partial(model.predict_inputs, top=top), limits.waiting, self.telemetry.batch)
        self.about = as_json(about(model))
        self.bodies = 0  # bytes of those that are worked on

    # Answers -----------------------------------------------------------------------------------------------------

    async def predict(self, request: Request) -> Response:
        """Predictions of the rows of a body, in the format that they came in."""
        level, kind, body = _level(request), _media_type(request), await self._body(request)
        try:
            if kind == "text/csv":
                return await self._predict_csv(body, level)
            rows, single = await _off_loop(parsed, body, self.limits)
            X = await _off_loop(self.reader.encode, rows, size=len(body))
            async with _at_most(self.limits.seconds, 503, "The prediction took too long; send fewer rows at a time."):
                answers = objects(await self.batches.predict(X, level))
        finally:
            self.bodies -= len(body)
        return _json(answers[0] if single else answers)

    async def _predict_csv(self, body: bytes, level: float) -> Response:
        parts = await asyncio.to_thread(lambda: list(read_csv(body, self.model, self.limits)))
        async with _at_most(self.limits.seconds, 503, "The prediction took too long; send fewer rows at a time."):
            predicted = [await self.batches.predict(part.X, level) for part in parts]
        pairs = zip((part.rows for part in parts), predicted, strict=True)
        return Response(await asyncio.to_thread(as_csv, pairs), media_type="text/csv")

    async def explain(self, request: Request) -> Response:
        """One row, looked at closely."""
        level, kind, body = _level(request), _media_type(request), await self._body(request)
        try:
            if kind == "text/csv":
                raise Refused(415, "Expected one row as JSON, got text/csv.")
            rows, single = await _off_loop(parsed, body, self.limits)
            if not single:
                raise Refused(422, f"Expected one row as a JSON object, got a list of {len(rows):,}.")
            x = self.reader.encode(rows)
            async with _at_most(self.limits.seconds, 503, "The explanation took too long; try again later."):
                return _json(await self.batches.run(partial(explain, self.model, x, level)))
        finally:
            self.bodies -= len(body)

    async def describe(self, request: Request) -> Response:
        """The model in plain values."""
        return Response(self.about, media_type="application/json")

    async def health(self, request: Request) -> Response:
        """That the server answers."""
        return _json({"status": "ok", "predicts": self.model.target.name, "version": torchnpn.__version__})

    async def metrics(self, request: Request) -> Response:
        """Counters for Prometheus."""
        return Response(self.telemetry.text(), headers={"Content-Type": self.telemetry.content_type})

    async def openapi(self, request: Request) -> Response:
        """How to call all of this."""
        return _json(document(self.model))

    # Around them -------------------------------------------------------------------------------------------------

    def counted(self, path: str, answer: Answer) -> Answer:
        """The same, with errors as sentences, and counted."""

        async def endpoint(request: Request) -> Response:
            since = time.perf_counter()
            try:
                response = await answer(request)
            except Refused as refused:
                response = _sentence(refused.status, refused.sentence)
            except ValueError as error:  # of tables and estimators: what the user sent cannot be read or predicted
                response = _sentence(422, str(error))
            except ClientDisconnect:
                response = _sentence(400, "The connection ended before the body did.")
            self.telemetry.answered(path, response.status_code, since)
            return response

        return endpoint

    async def _body(self, request: Request) -> bytes:
        """The whole body, counted in `bodies` until whoever asked gives it back."""
        parts: list[bytes] = []
        size = 0
        try:
            async with _at_most(self.limits.seconds, 408, "The body took too long to arrive."):
                async for part in request.stream():
                    size, self.bodies = size + len(part), self.bodies + len(part)
                    parts.append(part)
                    if size > self.limits.body:
                        raise Refused(413, f"The body is larger than {self.limits.body:,} bytes: send it in parts.")
                    if self.bodies > self.limits.bodies:
                        raise Refused(503, "Too many large requests at a time; try again in a few seconds.")
        except BaseException:
            self.bodies -= size
            raise
        return b"".join(parts)


def application(model: TableModel, limits: Limits | None = None) -> Starlette:
    """An ASGI application that serves a model."""
    service = Service(model, limits or Limits())
    answers: dict[str, tuple[str, Answer]] = {
        "/predict": ("POST", service.predict),
        "/explain": ("POST", service.explain),
        "/model": ("GET", service.describe),
        "/health": ("GET", service.health),
        "/metrics": ("GET", service.metrics),
        "/openapi.json": ("GET", service.openapi),
        **{path: ("GET", _file(name, kind)) for path, (name, kind) in _PAGE.items()},
    }

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        service.batches.close()

    async def other(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        paths = ", ".join(f"{method} {path}" for path, (method, _) in answers.items() if path not in _PAGE)
        sentence = f"There is no {request.method} {request.url.path[:80]}; there are {paths}."
        service.telemetry.answered("other", error.status_code, time.perf_counter())
        return _sentence(error.status_code, sentence, error.headers)

    async def failed(request: Request, error: Exception) -> Response:
        return _sentence(500, "The server failed to answer; its log says why.")

    routes = [
        Route(path, service.counted(path, answer), methods=[method]) for path, (method, answer) in answers.items()
    ]
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: other, Exception: failed})


def _level(request: Request) -> float:
    given = request.query_params.get("level", "0.9")
    try:
        level = float(given)
    except ValueError:
        level = math.nan
    if not 0.01 <= level <= 0.999:
        raise Refused(422, f"level expects a number from 0.01 to 0.999, got {given[:40]!r}.")
    return level


def _media_type(request: Request) -> str:
    """Of the body; JSON where nobody said, which is when curl -d says that it is a form."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    kind = "application/json" if kind == "application/x-www-form-urlencoded" else kind
    if kind not in ("application/json", "text/csv"):
        raise Refused(415, f"Expected a body of type application/json or text/csv, got {kind[:80]!r}.")
    return str(kind)


async def _off_loop(work: Callable[..., Any], content: Any, *more: Any, size: int | None = None) -> Any:
    """The same in a thread where the body is large."""
    if (len(content) if size is None else size) <= _SMALL:
        return work(content, *more)
    return await asyncio.to_thread(work, content, *more)


@asynccontextmanager
async def _at_most(seconds: float, status: int, sentence: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise Refused(status, sentence) from None


def _file(name: str, kind: str) -> Answer:
    content = files("torchnpn.serve").joinpath("page", name).read_bytes()

    async def answer(request: Request) -> Response:
        return Response(content, media_type=kind, headers=_SAFE)

    return answer


def _json(content: Any) -> Response:
    return Response(as_json(content), media_type="application/json")


def _sentence(status: int, sentence: str, headers: Any = None) -> Response:
    """An error; after one that may leave a part of the body unread, the connection ends."""
    close = {"Connection": "close"} if status in (408, 413, 503) else {}
    body = as_json({"error": " ".join(sentence.split())})
    return Response(body, status, {**(headers or {}), **close}, "application/json")
