"""No file and no package outgrows a reader: where a package is above its goal, it stays where it is."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

import torchnpn

ROOT = Path(torchnpn.__file__).parent


class Size(NamedTuple):
    lines: int
    files: int


LARGEST_FILE = 400
GOAL = Size(2_400, 16)  # of a package
ABOVE = {  # its goal, and no larger than it is; `families` and `maps` have a file for each thing they list
    "cli": Size(2_400, 19),  # a file for each command
    "estimators": Size(3_050, 15),
    "families": Size(4_250, 34),
    "kernels": Size(5_500, 37),
    "likelihoods": Size(2_550, 20),
    "maps": Size(2_250, 22),
    "training": Size(3_050, 17),
}
PACKAGES = sorted(path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file())


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("package", PACKAGES)
def test_size_of_a_package(package):
    files = sorted((ROOT / package).rglob("*.py"))
    size, most = Size(sum(map(lines, files)), len(files)), ABOVE.get(package, GOAL)
    assert size.lines <= most.lines, f"{package} has {size.lines:,} lines: find what it can do without"
    assert size.files <= most.files, f"{package} has {size.files} files: find two that are one idea"


def test_size_of_files():
    sizes = {path.relative_to(ROOT).as_posix(): lines(path) for path in ROOT.rglob("*.py")}
    long = {name: size for name, size in sizes.items() if size > LARGEST_FILE}
    assert not long, f"find the second idea in each: {long}"


def test_exceptions_are_needed():
    for name in ABOVE:
        files = [*(ROOT / name).rglob("*.py")]
        assert sum(map(lines, files)) > GOAL.lines or len(files) > GOAL.files, name
