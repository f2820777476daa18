"""`npn export`: a model as a file that predicts without torch."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from torchnpn.cli.arguments import Level, ModelPath
from torchnpn.cli.console import say
from torchnpn.cli.errors import check_writable, fail, in_one_line


@in_one_line
def export(
    model: ModelPath,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; by default MODEL.onnx.")] = None,
    level: Level = 0.9,
    quantiles: Annotated[
        str, typer.Option(metavar="LEVELS", help="Levels of the quantiles of a number, such as 0.1,0.5; or none.")
    ] = "0.05,0.5,0.95",
) -> None:
    """Write a model as an ONNX file, which predicts without torch and without this library.

    It takes rows with gaps, and gives mean, variance and its parts, an interval and quantiles, or the probability of
    each class. The Python package npn-runtime reads tables with it; any other language takes onnxruntime.

    \b
    Examples:
      npn export model.npn
      npn export model.npn -o claims.onnx --level 0.8 --quantiles 0.5,0.99
      npn export model.npn -o claims.pt2
    """
    out = model.with_suffix(".onnx") if out is None else out
    if out.suffix == ".onnx" and find_spec("onnx") is None:
        fail("onnx is not installed. npn export needs: pip install 'torchnpn[cli,onnx]'")
    levels = _levels(quantiles)
    check_writable(out, model)
    import torchnpn as npn
    from torchnpn.cli.models import load_model

    try:
        npn.export(load_model(model), out, levels=levels, interval=level)
    except ValueError as error:
        fail(str(error))
    say(f"Wrote {out} ({out.stat().st_size / 1e3:,.0f} kB).")


def _levels(text: str) -> tuple[float, ...]:
    if text == "none":
        return ()
    try:
        return tuple(map(float, text.split(",")))
    except ValueError:
        fail(f"--quantiles expects levels between 0 and 1, such as 0.1,0.5, got {text[:80]!r}.")
