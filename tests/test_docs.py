"""Pages that are rendered from records are what the records say, and the records keep the table of bounds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import bounds

import torchnpn
from benchmarks import cluster_page, numerics_page, step
from torchnpn import families, maps

ROOT = Path(__file__).parent.parent
RECORD = json.loads((ROOT / "studies" / "results" / "accuracy.json").read_text(encoding="utf-8"))
ROWS = RECORD["rows"]
ANEW = "run `python benchmarks/accuracy.py` to measure anew"
UNMEASURED = {  # exported from maps, and why they have no row of their own
    "accurate": "a module, measured function by function",
    "cheap": "a module, measured function by function",
    "paper": "a module, measured as the printed form of sigmoid and tanh",
    "quadrature": "as accurate as the function it is given is smooth",
    "saturating": "measured family by family",
}


def ours(kind: str) -> dict[str, dict]:
    return {row["name"]: row for row in ROWS if row["form"] == "ours" and row["type"] == kind}


def test_the_page_is_rendered_from_the_record():
    page = (ROOT / "docs" / "numerics.md").read_text(encoding="utf-8")
    assert page == numerics_page.render(RECORD), "run `python benchmarks/accuracy.py --render`"


def test_the_page_on_clusters_is_rendered_from_the_records():
    page = cluster_page.PAGE.read_text(encoding="utf-8")
    assert page == cluster_page.with_tables(page), "run `python benchmarks/cluster_page.py`"


def test_record_says_how_it_came_about():
    assert RECORD.keys() >= {"configuration", "grids", "versions", "device", "date", "rows"}


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_every_map_and_family_has_a_row(kind):
    names = ours(kind).keys()
    operations = {"linear", "product", "dropout", "softmax_mean"}  # sums of products and a mean: float32 only
    assert set(maps.__all__) - UNMEASURED.keys() - (operations if kind == "float64" else set()) <= names, ANEW
    assert families.BY_NAME.keys() - {"gaussian"} <= names, ANEW  # a Gaussian has the maps above instead
    variants = {f"{module}.{name}" for module in ("accurate", "cheap") for name in ("sigmoid", "tanh")}
    assert variants <= names, ANEW


def test_table_of_costs_is_rendered_from_the_record():
    page = (ROOT / "docs" / "networks.md").read_text(encoding="utf-8")
    assert step.with_table(page, json.loads((ROOT / "studies" / "results" / "step_cpu.json").read_text())) == page, ANEW


def test_every_public_name_is_in_the_reference():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    packages = [getattr(torchnpn, name) for name in torchnpn.__all__]
    for name in [name for package in (torchnpn, *packages) for name in getattr(package, "__all__", ())]:
        assert f".{name}" in page, f"docs/api.md lacks {name}"


@pytest.mark.slow
def test_first_steps_run():
    result = subprocess.run([sys.executable, ROOT / "examples" / "first_steps.py"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert len(result.stdout.splitlines()) == 10


def test_paper_forms_stand_beside():
    printed = {row["name"] for row in ROWS if row["form"] == "printed"}
    assert printed == {"relu", "sigmoid", "tanh", "gamma", "poisson", "rayleigh", "beta"}


def test_bounds_are_those_the_tests_read():
    tables = {("gaussian", "float32"): bounds.GAUSSIAN, ("gaussian", "float64"): bounds.GAUSSIAN_FLOAT64}
    tables["family", "float32"] = bounds.FAMILIES
    for (group, kind), table in tables.items():
        rows = [row for row in ROWS if (row["group"], row["type"]) == (group, kind)]
        assert {row["name"]: bounds.Bound(**row["bound"]) for row in rows if "bound" in row} == table, ANEW
    softmax = {row["logit_variance"]: row["bound"]["a"] for row in ROWS if row["group"] == "softmax"}
    assert softmax == bounds.SOFTMAX, ANEW


@pytest.mark.parametrize("row", [row for row in ROWS if "bound" in row], ids=lambda row: f"{row['name']}-{row['type']}")
def test_measured_figures_keep_their_bounds(row):
    assert row["mean"] <= row["bound"]["a"]
    assert row["mean_used"] <= 1
    assert row.get("variance_used", 0) <= 1
    assert row.get("negative", 0) == row.get("not_finite", 0) == 0
