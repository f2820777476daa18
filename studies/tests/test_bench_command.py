"""`npn bench` as a command, and the pages that show its records."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from npn_studies import bench
from npn_studies.bench import contest, plan, shapes, table
from npn_studies.bench.figure import growth
from support.pages import png_size
from typer.testing import CliRunner

from benchmarks import step
from torchnpn import plots
from torchnpn.cli import app as cli

ON_CPU = [name for name in contest.ENTRIES if not name.endswith(("compiled", "graph", "replayed", "tied-replicas"))]
ROOT = Path(__file__).parents[2]
RUNNER = CliRunner()


@pytest.mark.slow
def test_quick_bench_by_the_command(tmp_path):
    path = tmp_path / "new.json"
    result = RUNNER.invoke(cli.app, ["bench", "--quick", "--device", "cpu", "-o", str(path)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    record = json.loads(path.read_text())
    assert record.keys() >= {
        "versions",
        "device",
        "date",
        "configuration",
        "duration_s",
        "tables",
        "scaling",
        "left_out",
    }
    assert record["tables"].keys() == {"mnist", "autoencoder", "latency", "throughput"}
    assert record["left_out"].keys() == {"wide", "shapes"}
    for name, found in record["tables"].items():
        measured = [row["contestant"] for row in found["rows"] if "why" not in row]
        assert measured == ON_CPU
        keys = {"predict_us"} if name in ("latency", "throughput") else {"step_us", "predict_us", "peak_mb"}
        assert all(row[key] > 0 for row in found["rows"] if "why" not in row for key in keys)
    for axis, points in record["scaling"].items():
        assert [point["at"] for point in points] == list(plan.QUICK.sweep.points[axis])
        assert all(
            point[who][key] > 0 for point in points for who in ("plain", "npn") for key in ("step_us", "predict_us")
        )
    assert png_size(path.with_suffix(".png").read_bytes())[0] > 1000
    for words in ("NPN", "MC dropout", "needs a CUDA GPU", "wide: ", "fastest plain network", "new.json"):
        assert words in result.stdout
    assert {file.name for file in tmp_path.iterdir()} == {"new.json", "new.png"}


def test_shapes_are_drawn_evenly_and_measured_when_asked(tmp_path):
    drawn = shapes.drawn()
    assert drawn == shapes.drawn() and len(drawn) == 60 and drawn != shapes.drawn(seed=1)
    batches = np.log2([size.batch for size in drawn.values()])
    np.testing.assert_allclose(np.quantile(batches, [0, 0.5, 1]), [0, 6.5, 13], atol=2.5)
    path = tmp_path / "new.json"
    arguments = ["bench", "--quick", "--device", "cpu", "--only", "shapes", "-o", str(path)]
    result = RUNNER.invoke(cli.app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found = json.loads(path.read_text())["shapes"]
    assert [shape["name"] for shape in found] == list(plan.QUICK.shapes)
    assert shapes.ratios(found, "npn-tied").keys() == plan.QUICK.shapes.keys()
    (*_, median, worst), columns = table.shape_cells(found), table.shape_header(found)
    assert columns == ["network", "plain, µs", "NPN, fused, ratio", "NPN, tied, ratio", "predict"]
    assert float(worst[2]) >= float(median[2]) > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "nonsense"], "got nonsense"),
        (["--device", "abacus"], "abacus"),
        (["-o", "speed.png"], "ends in .json"),
        (["-o", "nowhere/at/all.json"], "cannot write nowhere/at/all.json"),
    ],
)
def test_mistakes_are_one_line_before_any_work(arguments, words, monkeypatch):
    monkeypatch.setattr(bench, "run", lambda *_: pytest.fail("checked after the work"))
    result = RUNNER.invoke(cli.app, ["bench", *arguments])
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("npn: ") and words in line


def test_growth_leaves_gaps_where_nothing_was_measured():
    times = {"step_us": 10.0, "predict_us": 5.0}
    points = [{"at": 1, "plain": times, "npn": {"why": "out of memory"}}, {"at": 2, "plain": times, "npn": times}]
    figure = growth({"width": points, "depth": points, "batch": points})
    plots.png(figure, dpi=50)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["Width", "Depth", "Batch"]
    assert [len(line.get_xdata()) for line in figure.axes[0].lines] == [2, 2, 1, 1]


def test_pages_show_the_records():
    again = "run `python benchmarks/step.py --render`"
    networks, speed = ((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("networks", "speed"))
    record = step.read("cpu")
    assert step.with_table(networks, record) == networks, again
    assert not record["configuration"]["quick"] and record["configuration"]["threads"] == 1
    for device in step.NAMES:
        if (record := step.read(device)) is not None:
            assert step.with_tables(speed, device, record) == speed, again
            assert "scaling" not in record or (ROOT / "docs" / "images" / f"{step.NAMES[device]}.png").exists()


def test_a_page_needs_its_comments():
    with pytest.raises(ValueError, match="Write both first"):
        step.with_tables("nothing", "cpu", step.read("cpu"))
