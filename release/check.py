"""`make release-check`: build every package of the repository, look into it, install it where nothing is, and use it.

Each is installed twice into an empty environment: with the newest versions of what it needs, and with the lowest ones
that it says are enough. All stands in build/release afterwards, the packages themselves in dist.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterable
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from release import pages

DIST, WORK = ROOT / "dist", ROOT / "build" / "release"
SMOKE = Path(__file__).with_name("smoke.py")
FOLDERS = {"torchnpn": ".", "npn-studies": "studies", "npn-runtime": "runtime"}
BELONGS = {  # what a wheel must hold, beside its own code
    "torchnpn": ["torchnpn/py.typed", "torchnpn/serve/page/index.html"],
    "npn-studies": ["npn_studies/commands/reproduce.py"],
    "npn-runtime": ["npn_runtime/py.typed"],
}
MOST_MEGABYTES = 200  # of an environment with nothing but npn-runtime and pip
EXTRAS = "cli,excel,serve,onnx"
TELL = ("torch", "numpy", "scipy", "scikit-learn", "safetensors", "typer", "rich", "matplotlib", "pandas", "pyarrow")
TELL += ("openpyxl", "starlette", "uvicorn", "onnx", "onnxruntime")
RECORD = ROOT / "studies" / "results" / "release.json"
REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*(?:\(?([^;)]*)\)?)")


def run(*command: str | Path, cwd: Path = WORK) -> str:
    """What a command prints; where it fails, its words, and the end."""
    result = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, encoding="utf-8")
    if result.returncode:
        sys.exit(f"FAILED: {' '.join(map(str, command))}\n{result.stdout[-3000:]}{result.stderr[-6000:]}")
    return result.stdout.strip()


def pip(python: Path, *arguments: str | Path) -> None:
    run(python, "-m", "pip", "--quiet", "--quiet", "--disable-pip-version-check", "install", *arguments)


def environment(name: str) -> Path:
    """The Python of a new and empty environment."""
    venv.create(WORK / name, with_pip=True, clear=True)
    return WORK / name / ("Scripts" if sys.platform == "win32" else "bin") / "python"


def build(tools: Path) -> dict[str, Path]:
    """The wheel of each package, built from its source archive as an installer would."""
    shutil.rmtree(DIST, ignore_errors=True)
    for folder in FOLDERS.values():
        run(tools, "-m", "build", "--outdir", DIST, ROOT / folder)
    run(tools, "-m", "twine", "check", "--strict", *DIST.iterdir())
    return {name: next(DIST.glob(f"{name.replace('-', '_')}-*.whl")) for name in FOLDERS}


def check_contents(name: str, wheel: Path) -> None:
    """The package, its licence and nothing else: no tests, no studies, no examples."""
    package = name.replace("-", "_")
    inside = zipfile.ZipFile(wheel).namelist()
    information = {path.split("/")[0] for path in inside if ".dist-info/" in path}
    strangers = [path for path in inside if path.split("/")[0] not in {package, *information} or "/tests/" in path]
    lacking = [path for path in BELONGS[name] if path not in inside]
    lacking += [] if any(path.endswith("LICENSE") for path in inside) else ["LICENSE"]
    with tarfile.open(next(DIST.glob(f"{package}-*.tar.gz"))) as archive:
        parts = {Path(path).parts[1] for path in archive.getnames() if len(Path(path).parts) > 1}
    known = {package, "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml", ".gitignore"}
    strangers += sorted(parts - known)
    if strangers or lacking:
        sys.exit(f"FAILED: {wheel.name} holds {strangers[:5]}, which are not of it, and lacks {lacking}.")
    print(f"{wheel.name}: {len(inside)} files, {wheel.stat().st_size / 1e6:.1f} MB")


def lowest(wheels: Iterable[Path]) -> dict[str, str]:
    """The lower bound of everything that these wheels ask for, extras included: {"numpy": "1.26"}."""
    bounds: dict[str, str] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as inside:
            text = inside.read(next(path for path in inside.namelist() if path.endswith("METADATA"))).decode()
        for line in HeaderParser().parsestr(text).get_all("Requires-Dist", []):
            match = REQUIREMENT.match(line)
            assert match, line
            if bound := re.search(r">=\s*([\w.]+)", match[2]):
                bounds[match[1].lower()] = bound[1]
    return bounds


def use(kind: str, wheels: dict[str, Path], constraints: dict[str, str]) -> dict[str, Any]:
    """Install the packages into one environment, each with no more than it asks for, and use them; what there was."""
    pins = WORK / f"{kind}.txt"
    pins.write_text("".join(f"{name}=={version}\n" for name, version in constraints.items()))
    python, shared = environment(kind), WORK / f"{kind}-files"
    shutil.rmtree(shared, ignore_errors=True)
    shared.mkdir()
    for asked, part in (
        (f"torchnpn @ {wheels['torchnpn'].as_uri()}", "library"),
        (f"npn-studies @ {wheels['npn-studies'].as_uri()}", "studies"),
        (f"torchnpn[{EXTRAS}] @ {wheels['torchnpn'].as_uri()}", "command"),
    ):
        pip(python, asked, "-c", pins)
        print(f"{kind}: {part}: {smoke(python, part, shared)}", flush=True)
    run(python, "-m", "pip", "check")
    versions = smoke(python, "versions", *TELL)
    alone = environment(f"{kind}-runtime")
    pip(alone, wheels["npn-runtime"], "-c", pins)
    runtime = smoke(alone, "runtime", shared)
    print(f"{kind}: npn-runtime: {runtime}")
    print(f"{kind}: {', '.join(f'{name} {version}' for name, version in versions.items())}", flush=True)
    return {"versions": versions, "runtime": runtime}


def smoke(python: Path, *arguments: str | Path) -> Any:
    """What smoke.py says in an environment."""
    return json.loads(run(python, SMOKE, *arguments))


def pinned(torch: str) -> dict[str, str]:
    """{"torch": "2.13.0"}, or nothing for the newest one."""
    name, _, version = torch.partition("==")
    return {name: version} if version else {}


def main() -> None:
    """Everything, or the words of what failed."""
    tested = re.search(r"^torch==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert tested
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    for kind in ("lowest", "newest"):
        what = f"for the {kind} versions: torch==2.11.0, or torch for the newest [{tested[0]}, of constraints.txt]"
        parser.add_argument(f"--{kind}-torch", default=tested[0], metavar="TORCH", help=what)
    parser.add_argument("--record", action="store_true", help="write studies/results/release.json, for the pages")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    tools = environment("tools")
    pip(tools, "build", "twine")
    wheels = build(tools)
    for name, wheel in wheels.items():
        check_contents(name, wheel)
    bounds = lowest(wheels.values())
    print(
        f"lowest: the bound is torch {bounds['torch']}, used is {options.lowest_torch}; newest: {options.newest_torch}"
    )
    oldest = use("lowest", wheels, bounds | pinned(options.lowest_torch))
    newest = use("newest", wheels, pinned(options.newest_torch))
    if (size := max(one["runtime"]["megabytes"] for one in (oldest, newest))) > MOST_MEGABYTES:
        sys.exit(f"FAILED: npn-runtime alone takes {size:.0f} MB, more than {MOST_MEGABYTES}.")
    record = {
        "bounds": bounds,
        "lowest": oldest,
        "newest": newest,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    if options.record:
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
        pages.render(record)
    print(f"All is well. The packages are in {DIST.relative_to(ROOT)}/")


if __name__ == "__main__":
    main()
