"""What the last `make release-check` found, on the pages about installation and deployment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent / "docs"
START, END = "by release/check.py: do not edit -->\n", "<!-- end of rendered part -->"


def versions(record: dict[str, Any]) -> str:
    """docs/install.md: the versions of each package that was used."""
    lowest, newest = (record[kind]["versions"] for kind in ("lowest", "newest"))
    bounds = {"python": "3.11", **record["bounds"]}
    rows = [f"| {name} | {bounds[name]} | {lowest[name]} | {newest[name]} |" for name in newest]
    head = "| package | lowest by `pyproject.toml` | lowest that was used | newest that was used |\n|---|---|---|---|"
    return "\n".join([head, *rows, "", f"{record['date']}."])


def runtime(record: dict[str, Any]) -> str:
    """docs/runtime.md: how small it is."""
    found = record["newest"]["runtime"]
    return (
        f"An environment with nothing but npn-runtime takes {found['without pip']:.0f} MB "
        f"({found['megabytes']:.0f} MB with pip), and `import npn_runtime` {found['import seconds']:.2f} s. "
        f"On the 50 rows of `make release-check` its figures are those of `npn predict` to {found['worst']:.0e} "
        f"standard deviations, as far as the files show them ({record['date']})."
    )


PAGES = {"install.md": versions, "runtime.md": runtime}


def with_part(page: str, part: str) -> str:
    """The page with another rendered part."""
    before, found, rest = page.partition(START)
    if not found or END not in rest:
        raise ValueError(f"The page expects a comment that ends in {START!r}, and after it {END!r}.")
    return f"{before}{START}\n{part}\n\n{END}{rest.partition(END)[2]}"


def render(record: dict[str, Any]) -> None:
    """Write both pages."""
    for name, part in PAGES.items():
        path = DOCS / name
        path.write_text(with_part(path.read_text(encoding="utf-8"), part(record)), encoding="utf-8")
