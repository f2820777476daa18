"""Every kernel of a fused training step passes Triton's compiler, for a GPU that need not be there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
ROOT = Path(__file__).parents[2]
STEP = {"_gather_kernel", "forward_kernel", "input_gradient_kernel", "update_kernel", "vectors_kernel"}


@pytest.mark.slow
def test_kernels_of_a_training_step_compile():
    """In a process of its own: in this one, kernels are interpreted."""
    compiled = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "tests/support/kernels_built.py"],
        cwd=ROOT,
        env={**compiled, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    built = json.loads(done.stdout.splitlines()[-1])
    assert built.keys() >= STEP
    assert min(built.values()) > 0
