"""Measure the error of every map over wide grids, beside the paper's formulas as printed.

    python benchmarks/accuracy.py             measure, write accuracy.json to studies/results, render
    python benchmarks/accuracy.py --render    render docs/numerics.md from the record

Exact values come from the references of the tests, which share no code with the library.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import numpy as np
import torch
from support import bounds, cases, closed_forms, map_cases, reference

from benchmarks import numerics_page, printed, records
from torchnpn import maps
from torchnpn.moments import Moments

RECORD, PAGE = records.RESULTS / "accuracy.json", ROOT / "docs" / "numerics.md"
TYPES = {"float32": torch.float32, "float64": torch.float64}
TAUS = (0.1, 1.0)
NEGLIGIBLE = 1e-30  # an exact variance below this has no relative error: float32 flushes it to zero

Array = np.ndarray
Row = dict[str, Any]


def errors(got: Moments, mean: Array, variance: Array, scale2: Array, bound: bounds.Bound | None) -> Row:
    """The figures of one row; maxima over the points where the result is finite."""
    a_m, a_s = (part.detach().double().numpy() for part in got)
    finite = np.isfinite(a_m) & np.isfinite(a_s)
    d_m, d_s = np.abs(a_m - mean), np.abs(a_s - variance)
    row = {
        "points": mean.size,
        "mean": largest(d_m, 1 + np.abs(mean), finite),
        "variance_scaled": largest(d_s, scale2, finite),
        "variance_relative": largest(d_s, variance, finite & (variance > NEGLIGIBLE)),
        "negative": float((a_s < 0).mean()),
        "not_finite": float((~finite).mean()),
        "off_by_tenth": float((~(d_s <= 0.1 * variance + NEGLIGIBLE)).mean()),
    }
    if bound is not None:
        row["bound"] = bound._asdict()
        row["mean_used"] = largest(d_m, bound.a * (1 + np.abs(mean)), finite)
        row["variance_used"] = largest(d_s, bound.b * variance + bound.c * scale2, finite)
    return row


def largest(error: Array, unit: Array, where: Array) -> float:
    ratio = np.divide(error, unit, out=np.where(error > 0, np.inf, 0.0), where=unit > 0)
    return float(ratio[where].max())


def gaussian_row(name: str, call: Callable[[Moments], Moments], form: str, kind: str) -> Row:
    """One map of a Gaussian variable over the grid of `reference`, where its moments exist and fit the type."""
    case = next(case for case in map_cases.CASES if case.name == name)
    exact = reference.table(case.reference)
    o = map_cases.grid(TYPES[kind])
    fits = np.maximum(np.abs(exact.mean), exact.variance) < float(torch.finfo(TYPES[kind]).max) / 2  # NaN does not
    with torch.no_grad():
        a = call(o)
    table = bounds.GAUSSIAN if kind == "float32" else bounds.GAUSSIAN_FLOAT64
    scale2 = bounds.SCALES[bounds.GAUSSIAN[name].scale](exact.mean, o.variance.detach().double().numpy())
    picked = Moments(*(part[torch.tensor(fits)] for part in a))
    bound = table.get(name) if form == "ours" else None
    figures = errors(picked, exact.mean[fits], exact.variance[fits], scale2[fits], bound)
    return {"group": "gaussian", "name": name, "form": form, "type": kind, **figures}


def family_row(case: cases.Case, call: Callable[[Any, float], Moments], form: str, kind: str) -> Row:
    """The saturating activation of one family over the grids of tests/support/cases.py, both rates τ together."""
    member = case.grid(TYPES[kind])
    exact = [cases.exact_moments(case, member, tau) for tau in TAUS]
    mean, variance = (np.concatenate(part) for part in zip(*exact, strict=True))
    got = [call(member, tau) for tau in TAUS]
    a = Moments(*(torch.cat(part) for part in zip(*got, strict=True)))
    bound = bounds.FAMILIES[case.name] if (form, kind) == ("ours", "float32") else None
    figures = errors(a, mean, variance, np.ones_like(mean), bound)
    return {"group": "family", "name": case.name, "form": form, "type": kind, **figures}


def max2_row(kind: str) -> Row:
    points = map_cases.max2_points()
    exact = closed_forms.max2(points)
    m_1, s_1, m_2, s_2 = torch.tensor(points, dtype=TYPES[kind]).T
    a = maps.max2(Moments(m_1, s_1), Moments(m_2, s_2))
    figures = errors(a, *exact.T, scale2=points[:, 1] + points[:, 3], bound=None)
    return {"group": "operation", "name": "max2", "form": "ours", "type": kind, **figures}


def operation_rows() -> list[Row]:
    """Sums of products, float32 against the textbook sums in float64."""
    rng = np.random.default_rng(0)
    a_m, W_m = rng.normal(size=(64, 800)), rng.normal(size=(100, 800))
    a_s, W_s = 10 ** rng.uniform(-6, 2, a_m.shape), 10 ** rng.uniform(-6, 2, W_m.shape)
    a_m, a_s, W_m, W_s = (x.astype(np.float32).astype(float) for x in (a_m, a_s, W_m, W_s))
    a, W = (Moments(*(torch.tensor(part, dtype=torch.float32) for part in pair)) for pair in ((a_m, a_s), (W_m, W_s)))
    b = Moments(*(part[:64] for part in W))
    b_m, b_s = W_m[:64], W_s[:64]
    p = 0.3
    exact = {
        "linear": (a_m @ W_m.T, a_s @ W_s.T + a_s @ (W_m**2).T + a_m**2 @ W_s.T, maps.linear(a, W)),
        "product": (a_m * b_m, a_s * b_s + a_s * b_m**2 + a_m**2 * b_s, maps.product(a, b)),
        "dropout": (a_m, (a_s + p * a_m**2) / (1 - p), maps.dropout(a, p)),
    }
    for name, (mean, variance, got) in exact.items():
        figures = errors(got, mean, variance, variance, bound=None)
        yield {"group": "operation", "name": name, "form": "ours", "type": "float32", **figures}


def softmax_rows() -> list[Row]:
    """|error| of the probabilities, the largest at each logit variance."""
    worst = dict.fromkeys(bounds.SOFTMAX, 0.0)
    for variance, m, s in map_cases.softmax_cases():
        exact = np.stack([reference.softmax_mean(*row) for row in zip(m.astype(float), s.astype(float), strict=True)])
        p = maps.softmax_mean(Moments(torch.tensor(m), torch.tensor(s))).double().numpy()
        worst[variance] = max(worst[variance], float(np.abs(p - exact).max()))
    return [
        {"group": "softmax", "name": "softmax_mean", "form": "ours", "type": "float32", "logit_variance": variance}
        | {"mean": error, "bound": {"a": bounds.SOFTMAX[variance]}, "mean_used": error / bounds.SOFTMAX[variance]}
        for variance, error in worst.items()
    ]


def measure() -> dict[str, Any]:
    """The whole record."""
    start = time.perf_counter()
    rows = []
    for kind in TYPES:
        for case in map_cases.CONVERGENT:
            rows.append(gaussian_row(case.name, case.map, "ours", kind))
        for case in cases.FAMILIES:
            rows.append(family_row(case, maps.saturating, "ours", kind))
        rows.append(max2_row(kind))
    rows += [gaussian_row(name, call, "printed", "float32") for name, call in printed.GAUSSIAN.items()]
    by_name = {case.name: case for case in cases.FAMILIES}
    rows += [family_row(by_name[name], call, "printed", "float32") for name, call in printed.FAMILIES.items()]
    rows += [*operation_rows(), *softmax_rows()]
    return {
        "configuration": {"tau": TAUS, "negligible_variance": NEGLIGIBLE, "threads": torch.get_num_threads()},
        "grids": {
            "gaussian": {"mean": span(reference.GRID_M), "variance": span(reference.GRID_S)},
            "family": {case.name: [span(axis) for axis in case.wide] for case in cases.FAMILIES},
        },
        **records.circumstances(),
        "duration_s": round(time.perf_counter() - start, 1),
        "rows": rows,
    }


def span(axis: Array) -> dict[str, float]:
    """An axis of a grid in three numbers; `smallest` is the smallest size that is not zero."""
    sizes = np.abs(axis[axis != 0])
    return {"low": axis.min(), "high": axis.max(), "smallest": sizes.min(), "points": axis.size}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--render", action="store_true", help="only render the page from the record")
    if not parser.parse_args().render:
        with np.errstate(over="ignore"):  # the square of exp's largest means
            records.write_json(RECORD, measure())
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    records.write(PAGE, numerics_page.render(record))


if __name__ == "__main__":
    main()
