"""The recipes of docs/integrations.md, run as they stand there, and what came of them.

pip install skops mlflow skorch mapie crepes     into the environment of `make test`, or another one with torchnpn
python benchmarks/integrations.py                run all, write studies/results/integrations.json, render the page
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import records, summaries

PAGE, RECORD = records.DOCS / "integrations.md", records.RESULTS / "integrations.json"
FIGURES = {  # what the recipe of each library leaves behind, and what that is
    "skops": {"largest_difference": "largest difference after loading"},
    "mlflow": {"largest_difference": "largest difference after loading"},
    "skorch": {"error": "RMSE on new rows"},
    "MAPIE": {"coverage": "new rows in 90 % intervals", "width": "mean width"},
    "crepes": {"coverage": "new rows in 90 % intervals", "width": "mean width"},
}


def blocks(heading: str) -> list[str]:
    """The code below a heading of the page; of the page's own heading: what all recipes begin with."""
    section = re.split(r"^##? ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (text,) = [part for part in section if part.startswith(f"{heading}\n")]
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def beginning() -> dict[str, Any]:
    """The names that the first block of the page defines."""
    names: dict[str, Any] = {}
    exec("".join(blocks("Fitting in with other libraries")), names)
    return names


def run(library: str, names: dict[str, Any]) -> dict[str, float]:
    """The figures of a recipe, after the names of the beginning."""
    own = dict(names)
    exec("".join(blocks(library)), own)
    return {figure: float(own[figure]) for figure in FIGURES[library]}


def with_table(page: str, record: dict[str, Any]) -> str:
    """The page with a row for each library."""
    rows = [
        [
            f"[{library}](#{library.lower()})",
            one["version"],
            _figures(library, one["figures"]),
        ]
        for library, one in record["libraries"].items()
    ]
    rows.append(["the model alone", "", _figures("MAPIE", record["alone"])])
    return summaries.with_table(page, "integrations.py", summaries.table(["library", "version", "measured"], rows, 3))


def _figures(library: str, figures: dict[str, float]) -> str:
    return "; ".join(f"{words} {figures[figure]:.3g}" for figure, words in FIGURES[library].items())


def main() -> None:
    names = beginning()
    libraries = {
        library: {"version": importlib.metadata.version(library), "figures": run(library, names)} for library in FIGURES
    }
    low, high = names["model"].predict_interval(names["X_new"], 0.9)
    coverage = float(((low <= names["y_new"]) & (names["y_new"] <= high)).mean())
    alone = {"coverage": coverage, "width": float((high - low).mean())}
    records.write_json(RECORD, {**records.circumstances(), "libraries": libraries, "alone": alone})
    records.render(PAGE, RECORD, with_table)


if __name__ == "__main__":
    main()
