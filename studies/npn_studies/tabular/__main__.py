"""`python -m npn_studies.tabular`: the comparison on tables in worker processes, on one machine or several."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from npn_studies.tabular.collection import TABLES
from npn_studies.tabular.contest import METHODS, jobs, known, run, table
from npn_studies.tabular.rows import NotInstalled, write


def main(arguments: Sequence[str] | None = None) -> int:
    """Write tables as files, or run methods on them; the exit status is 0 if nothing was wrong."""
    parser = argparse.ArgumentParser("python -m npn_studies.tabular", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="write the tables of installed packages to a folder")
    build.add_argument("folder", type=Path)
    go = commands.add_parser("run", help="run methods, and write a line of JSON for each split")
    go.add_argument("parts", type=Path, help="file to append to; what it holds is not run again")
    go.add_argument("--folder", type=Path, help="of tables that `build` wrote; by default from their packages")
    go.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS, metavar="METHOD")
    go.add_argument("--tables", nargs="*", default=[], metavar="TABLE")
    go.add_argument("--half", choices=("choose", "report"), help="only this half of the tables")
    go.add_argument("--splits", type=int, default=5)
    go.add_argument("--workers", type=int, default=os.cpu_count())
    gather = commands.add_parser("collect", help="make the record of `npn report` from what runs wrote")
    gather.add_argument("parts", type=Path, nargs="+")
    gather.add_argument("--out", type=Path, help="folder of records; studies/results in a clone")
    given = parser.parse_args(arguments)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"  # of the workers, which start with nothing imported
    if given.command == "build":
        return _build(given.folder)
    if given.command == "collect":
        return _collect(given.parts, given.out)
    try:
        tables = [name for name in known(given.tables) if given.half in (None, TABLES[name].half)]
    except ValueError as error:
        parser.error(str(error))
    run(list(jobs(given.methods, tables, range(given.splits), given.folder)), given.parts, given.workers, print)
    return 0


def _collect(parts: Sequence[Path], folder: Path | None) -> int:
    from npn_studies.experiments import Options, tabular
    from npn_studies.experiments.run import folder_for

    options = Options(torch.device("cpu"))
    record = tabular.collected(parts, options, folder_for(options, folder))
    print(f"{len(record['cells'])} of {record['planned']} cells")
    return 0


def _build(folder: Path) -> int:
    missing = 0
    for name in TABLES:
        try:
            write(table(name, None), folder)
        except NotInstalled as error:
            missing += 1
            print(f"{name}: left out, {error}", file=sys.stderr)
    print(f"{len(TABLES) - missing} of {len(TABLES)} tables written to {folder}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
