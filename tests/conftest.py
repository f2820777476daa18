"""Triton's kernels run on the CPU, by its interpreter; it looks at this variable when a kernel is defined."""

import collections
import os

import pytest

os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.hookimpl(tryfirst=True)  # before pytest takes out what is slow
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Pages tell long stories: of these, `make test-fast` runs the README alone."""
    for item in items:
        if item.path.parent.name == "docs":
            item.add_marker(pytest.mark.slow)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many random inputs each file of fuzz tests has tried."""
    tried: collections.Counter[str] = collections.Counter()
    for report in [*terminalreporter.stats.get("passed", []), *terminalreporter.stats.get("failed", [])]:
        tried[report.fspath] += sum(count for name, count in report.user_properties if name == "inputs")
    for file, count in sorted(tried.items()):
        if count:
            terminalreporter.write_line(f"{file}: {count:,} random inputs")
