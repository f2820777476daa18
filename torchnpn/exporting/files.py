"""`npn.export`: a model as an ONNX file, or as an archive of `torch.export`."""

from __future__ import annotations

import importlib.util
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim, ExportedProgram

import torchnpn
from torchnpn import settings
from torchnpn._files import whole_file
from torchnpn.exporting.about import KEY
from torchnpn.exporting.predictors import Options, Predictor, predictor
from torchnpn.rows import validation


def export(
    model: Any,
    path: str | os.PathLike[str],
    *,
    levels: Sequence[float] = (0.05, 0.5, 0.95),
    interval: float = 0.9,
    variance_parts: bool | None = None,
) -> None:
    """Write a model as a file that predicts by itself: numbers in, distributions out, for any number of rows.

    The graph of an ONNX file holds all arithmetic: standardising, missing values, the network, the mixture of its
    members, mean and variance with its parts, interval, quantiles and probabilities. Its metadata say what columns it
    reads and what it gives ("Deployment" in the documentation).

    Args:
        model: `NPNRegressor`, `NPNClassifier`, `tables.TableModel` (what `npn fit` writes), or a network.
        path: Where to write: a name that ends in .onnx; or in .pt2, for torch without this library.
        levels: Of the quantiles of a regression; none leaves them out.
        interval: What share of new targets the interval from `low` to `high` is to hold.
        variance_parts: Whether to give the variance of each class of a classifier, and its parts, at many times the
            cost; a regression has them anyway.

    Raises:
        TypeError: If it is no such model.
        ValueError: If some part of the model has no form in such a file.
    """
    suffix = Path(path).suffix
    if suffix not in (".onnx", ".pt2"):
        raise ValueError(f"export expects a path that ends in .onnx or .pt2, got {os.fspath(path)!r}.")
    whole = predictor(model, _options(levels, interval, variance_parts))
    program = _traced(whole)
    content = _onnx(whole, program) if suffix == ".onnx" else _archive(whole, program)
    with whole_file(path) as file:
        file.write(content)


def _options(levels: Any, interval: Any, variance_parts: bool | None) -> Options:
    q = validation.real_numbers(levels, "levels")
    if q.ndim != 1 or not ((q > 0) & (q < 1)).all():
        raise ValueError(
            f"export expects levels between 0 and 1, such as (0.05, 0.5, 0.95), got {settings.short(levels)}."
        )
    inside = validation.real_numbers(interval, "interval")
    if inside.ndim or not 0 < inside < 1:
        raise ValueError(f"export expects an interval between 0 and 1, such as 0.9, got {settings.short(interval)}.")
    return Options(tuple(q.tolist()), float(inside), variance_parts)


@torch.no_grad()
def _traced(whole: Predictor) -> ExportedProgram:
    rows = {0: Dim("rows")}
    return torch.export.export(
        whole.module, tuple(whole.inputs.values()), dynamic_shapes=(rows,) * len(whole.inputs), strict=False
    )


def _onnx(whole: Predictor, program: ExportedProgram) -> bytes:
    if importlib.util.find_spec("onnx") is None:
        raise ImportError("An ONNX file takes the package onnx: pip install 'torchnpn[onnx]'.")
    from torchnpn.exporting.translate import translated

    graph, inputs, outputs = translated(program, list(whole.inputs))
    about = {KEY: json.dumps(whole.about, ensure_ascii=False)}
    model = graph.model(
        inputs, dict(zip(whole.outputs, outputs, strict=True)), f"torchnpn {torchnpn.__version__}", about
    )
    content: bytes = model.SerializeToString()
    return content


def _archive(whole: Predictor, program: ExportedProgram) -> bytes:
    buffer = io.BytesIO()
    torch.export.save(program, buffer, extra_files={KEY: json.dumps(whole.about, ensure_ascii=False)})
    return buffer.getvalue()
