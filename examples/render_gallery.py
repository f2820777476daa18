"""Run the examples of the gallery, and put what they print and draw into its page.

python examples/render_gallery.py
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "gallery.md"
SHOWN = re.compile(r"<!-- output of examples/(\w+)\.py -->\n```text\n(.*?)```", re.DOTALL)


def outputs(page: str) -> dict[str, str]:
    """What the page shows, by the name of the example."""
    return dict(SHOWN.findall(page))


def run(name: str, *arguments: str) -> str:
    """What an example prints."""
    script = [sys.executable, str(ROOT / "examples" / f"{name}.py"), *arguments]
    return subprocess.run(script, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


def render(found: re.Match[str]) -> str:
    name = found[1]
    printed = run(name, "--plot", str(ROOT / "docs" / "images" / f"{name}.png"))
    return f"<!-- output of examples/{name}.py -->\n```text\n{printed}```"


if __name__ == "__main__":
    PAGE.write_text(SHOWN.sub(render, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
