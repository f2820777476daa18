"""Pages say what the records say, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_experiments import QUICK, made, only, ran
from matplotlib.figure import Figure
from npn_studies.experiments.report import duration, report
from typer.testing import CliRunner

from torchnpn.cli import app as cli

ROOT = Path(__file__).parents[2]
RUNNER = CliRunner()


def squares(record: dict) -> list[tuple[str, str, str]]:
    return [("sum", "13", str(sum(cell["figures"]["square"] for cell in record["cells"].values())))]


@pytest.fixture
def folder(tmp_path):
    """Four experiments: one whole with a figure, a search, one stopped, one never run."""
    (tmp_path / "docs").mkdir()
    experiments = {
        "search": made("search", search=True, section=lambda record: "Found."),
        "whole": made("whole", figure=lambda record: Figure(), headline=squares),
        "stopped": made("stopped", headline=squares),
        "absent": made("absent", headline=squares),
    }
    for name in ("search", "whole"):
        ran(experiments[name], tmp_path / "results")
    with pytest.raises(KeyboardInterrupt):
        ran(made("stopped", settings=(1, 2, -3)), tmp_path / "results")
    return tmp_path, experiments


def render(folder):
    path, experiments = folder
    return report(experiments, path / "results", path / "docs")


def test_the_page_shows_each_record(folder):
    path, _ = folder
    page = render(folder).pages[path / "docs" / "results.md"]
    assert "| [`whole`](#whole) | Nowhere | Squares | CPU, " in page
    assert "| `stopped` | Nowhere | Squares | Unfinished, 2 of 3 pieces |" in page
    assert "| `absent` | Nowhere | Squares | not yet run |" in page
    assert page.count("\n## ") == 2 and page.index("## whole") < page.index("## search")
    assert "![Squares](images/whole.png)" in page and "images/search.png" not in page
    assert "no results" not in page


def test_parts_are_shown_of_an_experiment_that_has_them(folder):
    path, experiments = folder
    experiments["stopped"] = made("stopped", headline=squares, section=lambda record: "Some.", in_parts=True)
    page = render(folder).pages[path / "docs" / "results.md"]
    assert "| [`stopped`](#stopped) | Nowhere | Squares | Unfinished, 2 of 3 pieces |" in page
    assert "Unfinished, 2 of 3 pieces: what follows is of these alone.\n\nSome." in page
    assert page.count("| sum |") == 1


def test_the_table_in_brief_shows_whole_records_only(folder):
    path, _ = folder
    page = render(folder).pages[path / "docs" / "results.md"]
    assert [line for line in page.splitlines() if "sum" in line] == ["| sum | 13 | 14 |"]
    assert page.index("| sum |") < page.index("| [`whole`](#whole) |")


def test_an_experiment_may_have_a_page_of_its_own(folder):
    path, experiments = folder
    experiments["whole"] = made(
        "whole", page=lambda record, found: f"{len(record['cells'])} squares of {len(found)} records"
    )
    assert render(folder).pages[path / "docs" / "whole.md"] == "3 squares of 2 records"
    assert render(folder).pages.keys() == {path / "docs" / "results.md", path / "docs" / "whole.md"}


def test_quick_records_are_marked(folder):
    path, experiments = folder
    ran(experiments["whole"], path / "results", QUICK)
    assert "these are no results" in render(folder).pages[path / "docs" / "results.md"]


def test_written_pages_are_up_to_date_until_a_record_changes(folder):
    path, _ = folder
    image = path / "docs" / "images" / "whole.png"
    assert render(folder).outdated() == [path / "docs" / "results.md", image]
    render(folder).write()
    assert render(folder).outdated() == []
    assert image.read_bytes().startswith(b"\x89PNG")
    ran(made("whole", settings=(1, 2, 4)), path / "results")
    assert path / "docs" / "results.md" in render(folder).outdated()


def test_durations_are_said_as_people_do():
    assert [duration(seconds) for seconds in (0.4, 61.2, 600)] == ["0 s", "61 s", "10 min"]


def command(path: Path, *more: str):
    places = ["--results", path / "results", "--docs", path / "docs"]
    return RUNNER.invoke(cli.app, ["report", *map(str, places), *more])


def test_the_command_checks_and_writes(folder):
    path, experiments = folder
    with only(experiments):
        assert command(path, "--check").exit_code == 1
        assert not (path / "docs" / "results.md").exists()
        assert command(path).exit_code == 0
        assert command(path, "--check").exit_code == 0


def test_the_committed_pages_are_as_the_records_say():
    places = ["--results", ROOT / "studies" / "results", "--docs", ROOT / "docs"]
    result = RUNNER.invoke(cli.app, ["report", *map(str, places), "--check"])
    assert result.exit_code == 0, result.output
