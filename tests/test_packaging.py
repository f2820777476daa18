"""What a release needs beside the code: metadata, links and recipes agree with each other and with the tree."""

from __future__ import annotations

import json
import re
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import torchnpn
from release import check, pages

ROOT = Path(__file__).parent.parent
HOME = "https://github.com/torchnpn/torchnpn"
PROJECTS = {
    folder: tomllib.loads((ROOT / folder / "pyproject.toml").read_text()) for folder in (".", "studies", "runtime")
}
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RECIPES = {"torchnpn": ".", "npn-runtime": "runtime"}
CONDA = {"torch": "pytorch", "matplotlib": "matplotlib-base"}  # other names there


def requirements(folder: str, *extras: str) -> set[str]:
    project = PROJECTS[folder]["project"]
    return {*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])}


def recipe(name: str) -> dict:
    return yaml.safe_load((ROOT / "release" / "conda" / f"{name}.yaml").read_text())


@pytest.mark.parametrize("path", ["README.md", "studies/README.md", "runtime/README.md"])
def test_links_lead_somewhere_on_the_package_index_too(path):
    """Relative links break there; absolute ones into the repository name files that are in it."""
    text = re.sub(r"```.*?```", "", (ROOT / path).read_text(encoding="utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"^\[[^\]]+\]: (\S+)$", text, re.MULTILINE)
    assert all(link.startswith("https://") for link in links), [link for link in links if link[:8] != "https://"]
    home = re.compile(
        rf"{HOME}/(?:blob|tree)/main/([^#]+)|https://raw\.githubusercontent\.com/torchnpn/torchnpn/main/(.+)"
    )
    for found in filter(None, map(home.fullmatch, (link.partition("#")[0] for link in links))):
        assert (ROOT / (found[1] or found[2])).exists(), found[0]
    named = set(re.findall(r"^\[([^\]]+)\]: ", text, re.MULTILINE))
    assert set(re.findall(r"\]\[([^\]]+)\]", text)) == named


@pytest.mark.parametrize("folder", PROJECTS)
def test_metadata_say_where_the_project_lives_and_what_it_runs_on(folder):
    project = PROJECTS[folder]["project"]
    assert all(url.startswith(HOME) for url in project["urls"].values())
    versions = {f"Programming Language :: Python :: 3.{minor}" for minor in range(11, 15)}
    assert versions <= set(project["classifiers"])
    assert (ROOT / folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_versions_agree():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    runtime = re.search(r'__version__ = "(.+)"', (ROOT / "runtime" / "npn_runtime" / "__init__.py").read_text())
    assert runtime
    stated = {cited["version"], runtime[1], *(recipe(name)["context"]["version"] for name in RECIPES)}
    assert stated == {torchnpn.__version__}


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_ask_for_what_the_package_asks_for(name):
    asked = requirements(RECIPES[name], *(["cli"] if name == "torchnpn" else []))
    translated = {CONDA.get(one.split(">=")[0], one.split(">=")[0]) + " >=" + one.split(">=")[1] for one in asked}
    assert set(recipe(name)["requirements"]["run"]) == {"python >=3.11", *translated}
    scripts = PROJECTS[RECIPES[name]]["project"]["scripts"]
    assert recipe(name)["build"]["python"]["entry_points"] == [f"{key} = {value}" for key, value in scripts.items()]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_use_known_actions_and_targets_that_there_are(path):
    workflow = yaml.safe_load(path.read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert all(step.get("uses", "actions/").startswith(("actions/", "pypa/gh-action-pypi-publish@")) for step in steps)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    used = {name for step in steps for name in re.findall(r"^make ([a-z-]+)", step.get("run", ""), re.MULTILINE)}
    assert used <= targets
    assert "secrets." not in path.read_text()  # a release is trusted for what it is, not for what it knows


def test_every_python_of_the_metadata_is_tested():
    matrix = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]["tested"]["strategy"]["matrix"]
    assert {f"Programming Language :: Python :: {version}" for version in matrix["python"]} <= set(
        PROJECTS["."]["project"]["classifiers"]
    )


@pytest.mark.parametrize(
    "path", [*(ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"), ROOT / ".pre-commit-config.yaml"]
)
def test_other_settings_can_be_read(path):
    assert yaml.safe_load(path.read_text())


def test_lowest_versions_are_read_from_a_wheel(tmp_path):
    wheel = tmp_path / "a-1-py3-none-any.whl"
    asked = ["numpy>=1.26", "uvloop>=0.20; sys_platform != 'win32'", "torchnpn[cli]", "pandas<3,>=2.2; extra == 'x'"]
    text = "".join(f"Requires-Dist: {one}\n" for one in asked)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(
            "a-1.dist-info/METADATA", f"Metadata-Version: 2.4\n{text}\nThe description: Requires-Dist: no\n"
        )
    assert check.lowest([wheel]) == {"numpy": "1.26", "uvloop": "0.20", "pandas": "2.2"}


def test_pages_show_what_the_last_release_check_found():
    record = json.loads((ROOT / "studies" / "results" / "release.json").read_text())
    for name, part in pages.PAGES.items():
        page = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert pages.with_part(page, part(record)) == page, "run `make release-check RECORD=1`"
