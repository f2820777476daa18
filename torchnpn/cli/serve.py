"""`npn serve`: a model over HTTP, and a page to play with."""

from __future__ import annotations

import signal
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from torchnpn.cli.arguments import ModelPath
from torchnpn.cli.console import say
from torchnpn.cli.errors import fail, in_one_line

_NEEDED = ("starlette", "uvicorn", "httptools", "prometheus_client")


@in_one_line
def serve(
    model: ModelPath,
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen at; 0 takes any that is free.")] = 8000,
    rows: Annotated[int, typer.Option(min=1, max=10**7, help="Most rows of one request.")] = 20_000,
    megabytes: Annotated[int, typer.Option(min=1, max=1_024, help="Largest body of a request.")] = 8,
    seconds: Annotated[int, typer.Option(min=1, max=3_600, help="Longest wait for a body, or for an answer.")] = 30,
) -> None:
    """Serve a model over HTTP, with a page to play with.

    POST /predict takes rows as JSON or a table as CSV, GET / shows a page with a control for each column, /metrics is
    for Prometheus, /openapi.json says how to call it. There is no password: let only those in who may ask.

    An ONNX file of npn export is served by npn-runtime, with its own limits: POST /predict, /model and /health; without
    the page, /explain and /metrics.

    \b
    Examples:
      npn serve model.npn
      npn serve model.npn --port 9000 --rows 1000
      curl -d '{"area": 50, "district": "North"}' localhost:8000/predict
      curl -H content-type:text/csv --data-binary @new.csv localhost:8000/predict
    """
    if model.suffix == ".onnx":
        return _serve_exported(model, host, port)
    for needed in _NEEDED:
        if find_spec(needed) is None:
            fail(f"{needed} is not installed. npn serve needs: pip install 'torchnpn[cli,serve]'")
    from torchnpn import serve as server
    from torchnpn.cli.models import load_model

    try:
        listening = server.listen(host, port)
    except OSError as error:
        fail(f"cannot listen at {host}, port {port}: {error.strerror or error}.")
    with listening:
        fitted = load_model(model)
        limits = server.Limits(body=megabytes << 20, bodies=max(64, 4 * megabytes) << 20, rows=rows, seconds=seconds)
        shown = f"[{host}]" if ":" in host else host
        say(f"Predicting {fitted.target.name} at http://{shown}:{listening.getsockname()[1]}/  (stop with Ctrl-C)")
        for number in (signal.SIGINT, signal.SIGTERM):  # which uvicorn acts on, and then raises once more
            signal.signal(number, signal.SIG_IGN)
        server.serve(fitted, listening, limits)
    say("Stopped.")


def _serve_exported(model: Path, host: str, port: int) -> None:
    """Such a file holds a graph and what it reads, and cannot say more than its predictions."""
    if find_spec("npn_runtime") is None:
        fail("npn_runtime is not installed. To serve an ONNX file: pip install ./runtime (in a clone of torchnpn)")
    import npn_runtime
    from npn_runtime import server

    try:
        exported = npn_runtime.load(model)
    except (npn_runtime.ModelError, OSError) as error:
        fail(f"{error}")
    say("An ONNX file gives predictions alone: for the page, explanations and metrics, serve the .npn file.")
    try:
        server.serve(exported, host, port)
    except OSError as error:
        fail(f"cannot listen at {host}, port {port}: {error.strerror or error}.")
