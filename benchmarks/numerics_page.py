"""Render the record of `accuracy.py` as the page docs/numerics.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from support import bounds

Record = dict[str, Any]
Row = dict[str, Any]

INTRO = """\
# Numerics

Every map has a row in a table of bounds, and tests hold it to that row over wide grids:

$$|\\Delta\\,\\text{mean}| \\le a\\,(1 + |\\text{mean}|), \\qquad
|\\Delta\\,\\text{var}| \\le b\\,\\text{var} + c\\,\\text{scale}^2 .$$

Beyond the grids, for every finite mean and every finite variance ≥ 0 of the type, values and gradients are finite and
no variance is negative. Where the exact value is beyond the largest number of the type, as `exp` soon is, that number
is given. It holds for float16, bfloat16 (both computed in float32), float32 and float64, for the products and sums of
`Moments`, and for `linear` on a CPU; on a GPU, where nobody looks at the values, a sum of products beyond the largest
number of both signs can be NaN. A NaN that comes in stays a NaN. A negative variance is not looked for by the maps:
networks check the moments they are called with on a CPU, estimators and families all that they take. This page is
rendered from a record: no figure on it was typed.
"""


MEASURED = ("Δmean ≤ a", "measured", "Δvar ≤ b var + c scale²", "measured / var", "/ scale²", "used", "off > 10 %")


def render(record: Record) -> str:
    """The whole page."""
    rows = record["rows"]
    parts = [INTRO, *_float32(rows), *_families(rows), *_printed(rows), *_others(rows), *_float64(rows), *_how(record)]
    return "\n".join(parts)


def _float32(rows: list[Row]) -> Iterable[str]:
    yield "## Maps of a Gaussian variable\n"
    yield (
        "float32. Each measured figure is the largest on the grid; *used* is the share of its bound that the worst "
        "point takes. Relative errors near 1 sit in far tails, where the variance itself is below "
        "$c\\,\\text{scale}^2$; the last column says how rare a relative error above a tenth is.\n"
    )
    yield _table(("map", *MEASURED), (_bounded(row) for row in _pick(rows, "gaussian", "ours", "float32")))


def _families(rows: list[Row]) -> Iterable[str]:
    yield "## The saturating activation of a family\n"
    yield "float32, `maps.saturating(p, tau)` with τ = 0.1 and τ = 1 together; the scale is 1.\n"
    yield _table(("family", *MEASURED), (_bounded(row) for row in _pick(rows, "family", "ours", "float32")))


def _bounded(row: Row) -> tuple[str, ...]:
    bound = bounds.Bound(**row["bound"])
    used = max(row["mean_used"], row["variance_used"])
    return (
        f"`{row['name']}`", _figure(bound.a), _figure(row["mean"]),
        _variance_bound(bound), _figure(row["variance_relative"]) if bound.b else "–",
        _figure(row["variance_scaled"]) if bound.c else "–", f"{100 * used:.0f} %", _share(row["off_by_tenth"]),
    )  # fmt: skip


def _printed(rows: list[Row]) -> Iterable[str]:
    yield "## Beside the paper's formulas\n"
    yield (
        "float32 on the same grids: our form, and the paper's formula evaluated as printed. Sigmoid and tanh are "
        "approximations with a variance of their own at zero input variance; the others are exact on paper and lose "
        "their digits in differences. Shares are of grid points.\n"
    )
    head = ("", "Δmean: ours", "printed", "Δvar / scale²: ours", "printed", "off > 10 %: ours", "printed")
    head += ("printed: negative", "NaN")
    ours = {(row["group"], row["name"]): row for row in rows if (row["form"], row["type"]) == ("ours", "float32")}
    lines = []
    for row in (row for row in rows if row["form"] == "printed"):
        pair = (ours[row["group"], row["name"]], row)
        errors = [_figure(side[key]) for key in ("mean", "variance_scaled") for side in pair]
        shares = [_share(side["off_by_tenth"]) for side in pair]
        lines.append((f"`{row['name']}`", *errors, *shares, _share(row["negative"]), _share(row["not_finite"])))
    yield _table(head, lines)
    ours_bad = [row["negative"] + row["not_finite"] for row in ours.values() if "negative" in row]
    yield f"Grid points where a map of ours gives a negative variance, a NaN or an infinity: {_share(max(ours_bad))}.\n"


def _others(rows: list[Row]) -> Iterable[str]:
    yield "## Operations\n"
    yield "float32; `linear`, `product` and `dropout` are sums of products of independent variables of any family.\n"
    head = ("operation", "Δmean / (1 + \\|mean\\|)", "Δvar / var")
    operations = _pick(rows, "operation", "ours", "float32")
    yield _table(head, ((f"`{r['name']}`", _figure(r["mean"]), _figure(r["variance_relative"])) for r in operations))
    yield "`softmax_mean` matches moments of log-sum-exp; its error grows with the variance of the logits.\n"
    head = ("logit variance", "Δprobability ≤", "measured")
    softmax = _pick(rows, "softmax", "ours", "float32")
    yield _table(head, ((f"{r['logit_variance']:g}", _figure(r["bound"]["a"]), _figure(r["mean"])) for r in softmax))


def _float64(rows: list[Row]) -> Iterable[str]:
    yield "## In float64\n"
    yield (
        "Where float32 uses a fitted polynomial or few nodes, float64 takes its own branch: `sigmoid` and `tanh` are "
        "those of `maps.accurate`. The cheap ones have no branch of their own.\n"
    )
    head = ("map or family", "Δmean / (1 + \\|mean\\|)", "Δvar / var", "Δvar / scale²")
    single = {row["name"]: row for row in rows if row.get("bound") and row["type"] == "float32"}
    lines = []
    for group in ("gaussian", "family", "operation"):
        for row in _pick(rows, group, "ours", "float64"):
            bound = single.get(row["name"], {}).get("bound", {"b": 1.0, "c": 0.0})
            relative = _figure(row["variance_relative"]) if bound["b"] else "–"
            scaled = _figure(row["variance_scaled"]) if bound["c"] else "–"
            lines.append((f"`{row['name']}`", _figure(row["mean"]), relative, scaled))
    yield _table(head, lines)


def _how(record: Record) -> Iterable[str]:
    grid, versions = record["grids"]["gaussian"], record["versions"]
    m, s = grid["mean"], grid["variance"]
    yield "## How it was measured\n"
    yield (
        f"Gaussian inputs: {m['points']} means in [{m['low']:g}, {m['high']:g}] times {s['points']} variances, zero "
        f"and {_figure(s['smallest'])} to {_figure(s['high'])}. Families: the grids of "
        "`tests/support/cases.py`, parameters over seven decades and more. Exact values: textbook formulas in 70 or "
        "80 digits, or quadrature checked "
        "against them, in `tests/support/reference.py`, which shares no code with the library; the bounds are in "
        "`tests/support/bounds.py`. Relative errors are taken where the variance exceeds "
        f"{_figure(record['configuration']['negligible_variance'])}.\n"
    )
    yield (
        f"Record `results/accuracy.json`: torch {versions['torch']}, Python {versions['python']}, {record['device']}, "
        f"{record['date']}, {record['duration_s']:.0f} s. `python benchmarks/accuracy.py` measures anew.\n"
    )


def _pick(rows: list[Row], group: str, form: str, kind: str) -> list[Row]:
    return [row for row in rows if (row["group"], row["form"], row["type"]) == (group, form, kind)]


def _table(head: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> str:
    rule = ("---", *("---:" for _ in head[1:]))
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines)) + "\n"


def _variance_bound(bound: bounds.Bound) -> str:
    square = {"1": "", "std of the input": " s", "mean of the output": " mean²"}[bound.scale]
    terms = [f"{_figure(bound.b)} var" if bound.b else "", f"{_figure(bound.c)}{square}" if bound.c else ""]
    return " + ".join(filter(None, terms))


def _figure(value: float) -> str:
    """Two digits, as people write them: 0, 0.017, 7.4e-7."""
    if value == 0:
        return "0"
    if 1e-3 <= value < 1e3:
        return f"{value:.2g}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


def _share(value: float) -> str:
    return "0" if value == 0 else f"{100 * value:.2g} %"
