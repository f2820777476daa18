"""Examples run without a word on the error stream, and print what the gallery shows."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
SHOWN = runpy.run_path(str(EXAMPLES / "render_gallery.py"))["outputs"](
    (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def run(name: str, *arguments: str) -> str:
    result = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", *arguments], capture_output=True, encoding="utf-8"
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def words(text: str) -> str:
    return re.sub(r"\s+", " ", NUMBER.sub("#", text))


def is_near(printed: str, shown: str) -> bool:
    """Within a tenth, or six units of the last digit that is shown."""
    unit = 10.0 ** -len(shown.partition(".")[2])
    return abs(float(printed) - float(shown)) <= max(0.1 * abs(float(shown)), 6 * unit)


def test_gallery_shows_every_example():
    pages = {"calibration_figures", "inspection_figures", "uncertainty_figures"}
    others = {"first_steps", "readme_picture", "render_gallery", *pages}
    assert SHOWN.keys() == {path.stem for path in EXAMPLES.glob("*.py")} - others


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_are_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 60


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN)
def test_gallery_shows_what_is_printed(name, tmp_path):
    """The same words; numbers as near as another machine's rounding, carried through training, leaves them."""
    picture = tmp_path / "picture.png"
    printed = run(name, "--plot", str(picture))
    assert words(printed) == words(SHOWN[name]), "run `python examples/render_gallery.py`"
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(SHOWN[name]), strict=True)
    assert [pair for pair in pairs if not is_near(*pair)] == [], "run `python examples/render_gallery.py`"
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_figures_of_the_page_on_uncertainty(tmp_path):
    assert "90% intervals hold" in run("uncertainty_figures", str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"uncertainty_calibration.png", "uncertainty_gap.png"}


@pytest.mark.slow
def test_figures_of_the_page_on_explanations(tmp_path):
    assert "the least certain patient: 2" in run("inspection_figures", str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"inspection_dependence.png", "inspection_row.png"}


@pytest.mark.slow
def test_picture_of_the_readme(tmp_path):
    assert re.fullmatch(r"90% intervals hold 9\d% of 10,000 new days\n", run("readme_picture", str(tmp_path / "p.png")))
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
