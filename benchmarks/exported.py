"""Exported files beside the library: how far apart they are, how long an export takes, and a row in onnxruntime.

    python benchmarks/exported.py                    # some minutes on one core; writes studies/results/onnx.json
    python benchmarks/exported.py --compile          # a minute: only the archive for torch, compiled, into the record
    python benchmarks/exported.py --render PAGE      # the tables of the record into a page

Rows are made (Friedman's function of ten features); a tenth of the cells of the new rows is empty. Times are of the
processor, the least of several rounds, in one thread; a row goes in and out as numpy, as a server would do it.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torchnpn as npn
from benchmarks import records, summaries

RECORD = records.RESULTS / "onnx.json"
ROWS, NEW, LEVELS = 500, 200, (0.05, 0.5, 0.95)
FAMILIES = ("gamma", "poisson", "student_t", "beta", "hurdle_lognormal")
QUICK = {"effort": "quick", "random_state": 0}
SIZES, BATCHES = (50, 800), (1, 256)


def made(rows: int, seed: int) -> tuple[Any, Any]:
    """Features and Friedman's function of them, between 0 and 30, without noise."""
    X = np.random.default_rng(seed).random((rows, 10))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, f


def targets(f: Any) -> dict[str, Any]:
    """A target of each kind that follows it."""
    rng = np.random.default_rng(2)
    amount = rng.gamma(4.0, f / 4)
    return {
        "gamma": amount,
        "poisson": rng.poisson(f / 5).astype(float),
        "student_t": f + rng.standard_t(3, len(f)),
        "beta": np.clip(rng.beta(f, 30 - np.minimum(f, 29)), 1e-6, 1 - 1e-6),
        "hurdle_lognormal": np.where(rng.random(len(f)) < 0.3, 0.0, amount),
    }


def models() -> Iterator[tuple[str, Any]]:
    """What is exported, fitted."""
    X, f = made(ROWS, 0)
    y = f + np.random.default_rng(1).normal(size=ROWS)
    gaps = np.where(np.random.default_rng(4).random(X.shape) < 0.1, np.nan, X)
    yield "NPNRegressor()", npn.NPNRegressor(random_state=0).fit(X, y)
    yield 'NPNRegressor(effort="quick")', npn.NPNRegressor(**QUICK).fit(X, y)
    yield "NPNRegressor(n_estimators=5)", npn.NPNRegressor(n_estimators=5, max_epochs=50, random_state=0).fit(X, y)
    yield 'NPNRegressor(missing="conditional")', npn.NPNRegressor(missing="conditional", **QUICK).fit(gaps, y)
    for family, values in targets(f).items():
        yield f'NPNRegressor("{family}")', npn.NPNRegressor(family, **QUICK).fit(X, values)
    yield "NPNClassifier(), 3 classes", npn.NPNClassifier(random_state=0).fit(X, np.digitize(y, (10, 18)))
    yield "NPNClassifier, 100 classes", npn.NPNClassifier(**QUICK).fit(X, f.argsort().argsort() % 100)


def session(content: bytes | str) -> onnxruntime.InferenceSession:
    """In one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def least(call: Callable[[], Any], least_seconds: float = 0.3) -> float:
    """Processor seconds of a call: the least mean of ten rounds."""
    call()
    rounds, number = [], 1
    while (spent := timed(call, number)) < least_seconds / 10:
        number *= 4
    rounds = [spent, *(timed(call, number) for _ in range(9))]
    return min(rounds) / number


def timed(call: Callable[[], Any], number: int) -> float:
    start = time.process_time()
    for _ in range(number):
        call()
    return time.process_time() - start


def errors(model: Any, found: dict[str, Any], X: Any) -> dict[str, float]:
    """The largest ones of all rows."""
    if isinstance(model, npn.NPNClassifier):
        return {"probabilities": float(np.abs(found["probabilities"] - model.predict_proba(X)).max())}
    expected, std = model.predict_dist(X), model.predict_dist(X).std
    quantiles = np.abs(found["quantiles"] - expected.quantile(LEVELS)) / std[:, None]
    return {
        "mean": float(np.abs((found["mean"] - expected.mean) / std).max()),
        "variance": float(np.abs(found["variance"] / expected.variance - 1).max()),
        "quantiles": float(quantiles.max()),
    }


def all_asked(model: Any, X: Any) -> Any:
    """What the file gives, of the library."""
    if isinstance(model, npn.NPNClassifier):
        return model.predict_proba(X)
    predicted = model.predict_dist(X)
    return predicted.mean, predicted.variance, predicted.quantile(LEVELS), predicted.interval(0.9)


def measure(name: str, model: Any) -> dict[str, Any]:
    """One row of the first table."""
    X = made(NEW, 5)[0]
    gappy = np.where(np.random.default_rng(6).random(X.shape) < 0.1, np.nan, X)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        export_seconds = timed(lambda: npn.export(model, path, levels=LEVELS), 1)
        content = path.read_bytes()
    running = session(content)
    names = [output.name for output in running.get_outputs()]
    found = dict(zip(names, running.run(None, {"X": gappy}), strict=True))
    one = X[:1]
    return {
        "model": name,
        **errors(model, found, gappy),
        "nodes": len(onnx.load_from_string(content).graph.node),
        "kilobytes": round(len(content) / 1e3),
        "export_s": round(export_seconds, 1),
        "row_us": round(1e6 * least(lambda: running.run(None, {"X": one}))),
        "rows_us": round(1e6 * least(lambda: running.run(None, {"X": X})) / NEW, 1),
        "library_row_us": round(1e6 * least(lambda: all_asked(model, one))),
        "library_rows_us": round(1e6 * least(lambda: all_asked(model, X)) / NEW, 1),
    }


def plain(sizes: list[int]) -> bytes:
    """A network of Gemm and ReLU with these layers, without uncertainty."""
    rng, nodes, constants, last = np.random.default_rng(0), [], [], "x"
    for k, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        W, b = (rng.normal(size=shape).astype(np.float32) for shape in ((inputs, outputs), (outputs,)))
        constants += [numpy_helper.from_array(W, f"W{k}"), numpy_helper.from_array(b, f"b{k}")]
        nodes.append(helper.make_node("Gemm", [last, f"W{k}", f"b{k}"], [f"o{k}"]))
        last = f"o{k}"
        if k < len(sizes) - 2:
            nodes.append(helper.make_node("Relu", [last], [f"a{k}"]))
            last = f"a{k}"
    ends = (("x", sizes[0]), (last, sizes[-1]))
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", size]) for name, size in ends]
    graph = helper.make_graph(nodes, "plain", infos[:1], infos[1:], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    content: bytes = made.SerializeToString()
    return content


def ratios() -> Iterator[dict[str, Any]]:
    """An NPN with two hidden layers beside a plain network of the same layers."""
    for size in SIZES:
        sizes = [size, size, size, 1]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "network.onnx"
            npn.export(npn.nn.mlp(sizes, generator=torch.Generator().manual_seed(0)), path)
            ours, theirs = session(path.read_bytes()), session(plain(sizes))
        for rows in BATCHES:
            x = np.random.default_rng(0).normal(size=(rows, size)).astype(np.float32)
            feed = {"input_mean": x, "input_variance": np.full_like(x, 0.1)}
            seconds = [least(lambda: ours.run(None, feed)), least(lambda: theirs.run(None, {"x": x}))]  # noqa: B023
            npn_us, plain_us = (round(1e6 * one, 1) for one in seconds)
            yield {"units": size, "rows": rows, "npn_us": npn_us, "plain_us": plain_us}


def study() -> dict[str, Any]:
    """The record of a run in one thread."""
    start = time.perf_counter()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        measured, beside = [], list(ratios())
        for name, model in models():
            measured.append(measure(name, model))
            print(measured[-1], flush=True)
    circumstances = records.circumstances()
    circumstances["versions"] |= {name: importlib.metadata.version(name) for name in ("onnx", "onnxruntime")}
    configuration = {"rows": ROWS, "new_rows": NEW, "empty_cells": 0.1, "levels": LEVELS, "threads": 1}
    seconds = round(time.perf_counter() - start)
    return {
        "configuration": configuration,
        **circumstances,
        "duration_s": seconds,
        "models": measured,
        "ratios": beside,
        "archive": archives(),
    }


# --8<-- [start:compiled]
def compiled(archive: Path) -> Callable[..., Any]:
    """A .pt2 file as machine code of this kind of computer; it takes a C++ compiler."""
    program = torch.export.load(archive)
    package = torch._inductor.aoti_compile_and_package(program, package_path=str(archive.with_suffix(".compiled.pt2")))
    loaded: Callable[..., Any] = torch._inductor.aoti_load_package(package)
    return loaded
    # --8<-- [end:compiled]


def archives() -> dict[str, Any]:
    """The default regressor as an archive for torch, as it is and compiled."""
    torch.set_num_threads(1)
    name, model = next(models())
    one, X = (torch.from_numpy(made(rows, 5)[0]) for rows in (1, NEW))
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        npn.export(model, path := Path(folder) / "model.pt2", levels=LEVELS)
        start = time.perf_counter()
        fast = compiled(path)
        seconds = time.perf_counter() - start
        mean, variance, *_, quantiles = (part.numpy() for part in fast(X))
        found = {"mean": mean, "variance": variance, "quantiles": quantiles}
        times = {
            form: {
                "row_us": round(1e6 * least(partial(call, one))),
                "rows_us": round(1e6 * least(partial(call, X)) / NEW, 1),
            }
            for form, call in (("as it is", torch.export.load(path).module()), ("compiled", fast))
        }
    return {"model": name, **errors(model, found, X.numpy()), "compile_s": round(seconds), **times}


def render(record: dict[str, Any]) -> str:
    """Three markdown tables: files beside the library, NPN beside plain networks, an archive compiled."""
    head = (
        *("model", "mean", "variance", "quantiles, or probabilities", "nodes", "export, s"),
        *("one row, µs", "by the library", "of 200 rows, µs", "by the library"),
    )
    lines = []
    for row in record["models"]:
        last = row.get("quantiles", row.get("probabilities"))
        figures = [f"{row[key]:.0e}" if key in row else "" for key in ("mean", "variance")]
        times = [f"{row[key]:,}" for key in ("row_us", "library_row_us", "rows_us", "library_rows_us")]
        lines.append((f"`{row['model']}`", *figures, f"{last:.0e}", f"{row['nodes']:,}", f"{row['export_s']}", *times))
    beside = []
    for row in record["ratios"]:
        ratio = f"{row['npn_us'] / row['plain_us']:.1f}"
        beside.append((f"{row['units']}", f"{row['rows']}", f"{row['npn_us']:,}", f"{row['plain_us']:,}", ratio))
    second = ("units of both hidden layers", "rows at once", "NPN, µs", "plain, µs", "ratio")
    archive = record["archive"]
    third = ("`NPNRegressor()` as a `.pt2` file", "one row, µs", "of 200 rows, µs")
    forms = [(form, *(f"{archive[form][key]:,}" for key in ("row_us", "rows_us"))) for form in ("as it is", "compiled")]
    tables = (summaries.table(head, lines), summaries.table(second, beside, words=0), summaries.table(third, forms))
    return "\n\n".join(tables) + f"\n\nCompiling took {archive['compile_s']} s."


def with_table(page: str, record: dict[str, Any]) -> str:
    """The page with these tables between its comments."""
    return summaries.with_table(page, "exported.py", render(record))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--render", type=Path, metavar="PAGE", help="only render the record into a page")
    parser.add_argument("--compile", action="store_true", help="only measure the archive for torch, compiled")
    options = parser.parse_args(arguments)
    if options.render:
        return records.render(options.render, RECORD, with_table)
    if options.compile:
        record = json.loads(RECORD.read_text()) | {"archive": archives()}
    else:
        record = study()
    records.write_json(RECORD, record)
    print(render(record))


if __name__ == "__main__":
    main()
