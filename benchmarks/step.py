"""What a probabilistic network costs beside a plain one: `npn bench`, its record, and the pages that show it.

    python benchmarks/step.py [--device auto|cpu|cuda]     measure, then render
    python benchmarks/step.py --render                     render the records that are there

Records are studies/results/step_cpu.json and step_cuda.json; figures go to docs/images/.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from npn_studies import bench
from npn_studies.bench.figure import growth

from benchmarks import records, summaries
from torchnpn import plots
from torchnpn.cli import app as cli
from torchnpn.training import resolve_device

DOCS = records.DOCS
NAMES = {"cpu": "step_cpu", "cuda": "step_cuda"}  # of a record and its figure, by device
SHORT = "plain", "npn", "dropout-10", "ensemble-5"  # what docs/networks.md shows


def with_table(page: str, record: dict[str, Any]) -> str:
    """docs/networks.md: the plain network, ours and two others at the size of MNIST."""
    rows = [row for row in record["tables"]["mnist"]["rows"] if row["contestant"] in SHORT]
    return summaries.with_table(page, "step.py", _table(rows))


def with_tables(page: str, device: str, record: dict[str, Any]) -> str:
    """docs/speed.md: all tables of one record."""
    about = record["configuration"]
    threads = f", {about['threads']} thread(s)" if device == "cpu" else ""
    head = f"{record['device']}{threads}, {about['precision']}, torch {record['versions']['torch']}, {record['date']}."
    tables = [f"**{name}**: {table['size']}\n\n{_table(table['rows'])}" for name, table in record["tables"].items()]
    name = NAMES[device]
    figure = f"![Time against width, depth and batch](images/{name}.png)"
    start = f"<!-- rendered from results/{name}.json by benchmarks/step.py: do not edit -->\n"
    before, found, rest = page.partition(start)
    if not found or summaries.END not in rest:
        raise ValueError(f"The page expects {start!r}, and after it {summaries.END!r}. Write both first.")
    parts = "\n\n".join([head, *tables, *([figure] if "scaling" in record else [])])
    return f"{before}{start}\n{parts}\n\n{summaries.END}{rest.partition(summaries.END)[2]}"


def _table(rows: list[dict[str, Any]]) -> str:
    return summaries.table(bench.header(rows), bench.cells(rows), words=1)


def read(device: str) -> dict[str, Any] | None:
    """The record of a device, where there is one."""
    path = records.RESULTS / f"{NAMES[device]}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def render() -> None:
    """Write the tables of the records into the pages."""
    for device in NAMES:
        if (record := read(device)) is not None:
            page = DOCS / "speed.md"
            records.write(page, with_tables(page.read_text(encoding="utf-8"), device, record))
            if "scaling" in record:
                bench.write(DOCS / "images" / f"{NAMES[device]}.png", plots.png(growth(record["scaling"])))
    records.render(DOCS / "networks.md", records.RESULTS / "step_cpu.json", with_table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--render", action="store_true", help="measure nothing")
    arguments = parser.parse_args()
    if not arguments.render:
        device = resolve_device(arguments.device).type
        path = records.RESULTS / f"{NAMES[device]}.json"
        cli.app(["bench", "--device", device, "-o", str(path)], standalone_mode=False)
        path.with_suffix(".png").unlink()  # drawn anew below, from the record
    render()


if __name__ == "__main__":
    main()
