"""Triton's kernels run on the CPU, by its interpreter; it looks at this variable when a kernel is defined."""

import os

import pytest

os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.hookimpl(tryfirst=True)  # before pytest takes out what is slow
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Pages tell long stories: of these, `make test-fast` runs the README alone."""
    for item in items:
        if item.path.parent.name == "docs":
            item.add_marker(pytest.mark.slow)
