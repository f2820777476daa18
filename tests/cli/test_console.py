"""What a person sees on a terminal, which tests have to make."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pty = pytest.importorskip("pty", reason="there are no terminals of this kind here", exc_type=ImportError)

SCRIPT = """
from torchnpn.cli.console import bars, say
with bars() as bar:
    moved = bar("Reading")
    moved(0.5)
    say("some words")
    moved(1.0)
say("the end")
"""


def test_words_stand_in_lines_of_their_own_above_a_moving_bar():
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=theirs, stderr=theirs, env=environment):
        os.close(theirs)
        shown = b""
        while not shown.endswith(b"the end\r\n"):
            shown += os.read(ours, 4096)
    os.close(ours)
    assert b"100 %" in shown
    before = shown.partition(b"some words")[0]
    assert before.endswith((b"\n", b"\r", b"\x1b[2K")), before  # a new line, or one that was erased
    assert shown.partition(b"some words")[2].startswith(b"\r\n")
