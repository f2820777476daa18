"""Triton's kernels run on the CPU, by its interpreter; it looks at this variable when a kernel is defined."""

import os

os.environ.setdefault("TRITON_INTERPRET", "1")
