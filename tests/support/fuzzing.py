"""How many random inputs a fuzz test tries: a few in `make test`, many times as many in `make fuzz`.

A fuzz test draws from `generator(name)`, runs `rounds(n)` times and reports what it tried with pytest's fixture
`record_property("inputs", count)`; `conftest.py` prints the sums at the end of a run.
"""

from __future__ import annotations

import os
import zlib

import numpy as np

TIMES = int(os.environ.get("TORCHNPN_FUZZ", "1"))  # `make fuzz` sets it


def rounds(n: int) -> int:
    """`n` in the ordinary tests, TORCHNPN_FUZZ times as many where that is set."""
    return n * TIMES


def generator(name: str) -> np.random.Generator:
    """The same random numbers for the same name and number of rounds, on every machine and in every order of tests."""
    return np.random.default_rng([zlib.crc32(name.encode()), TIMES])
