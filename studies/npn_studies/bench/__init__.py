"""What a network costs beside a plain one and beside other ways to uncertainty; `npn bench` shows it.

Training step, prediction with uncertainty and memory of each contestant, measured in turns in one process.
"""

from npn_studies.bench.plan import FULL, QUICK, choose, run
from npn_studies.bench.record import circumstances, write, write_json
from npn_studies.bench.table import cells, header, shape_cells, shape_header

__all__ = [
    "FULL",
    "QUICK",
    "cells",
    "choose",
    "circumstances",
    "header",
    "run",
    "shape_cells",
    "shape_header",
    "write",
    "write_json",
]
