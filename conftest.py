"""What holds for all tests: kernels without a GPU, and the same random numbers in every run and every order."""

import collections
import os
import random
import tempfile

import hypothesis
import numpy as np
import pytest
import torch

os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton's kernels run on the CPU; it looks when a kernel is defined
_COMPILED = tempfile.TemporaryDirectory(prefix="torchnpn-compiled-", ignore_cleanup_errors=True)
os.environ["TORCHINDUCTOR_CACHE_DIR"] = _COMPILED.name  # not what a killed run, or one for another CPU, left behind

hypothesis.settings.register_profile(
    "torchnpn", derandomize=True, database=None, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("torchnpn")  # the same examples everywhere, however slow a busy machine is

torch.set_warn_always(True)  # some warnings of torch's come once in a process, so in whichever test is first


def _seed(item: pytest.Item, seed: int) -> None:
    """Start the global generators anew, and the generator `RNG` of a module that has one."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    if own := getattr(getattr(item, "module", None), "RNG", None):
        own.bit_generator.state = np.random.default_rng(seed).bit_generator.state


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fixtures draw the same numbers, whatever ran before."""
    _seed(item, 0)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """So does the test, whatever its fixtures drew: one of a module is made by the first test that asks for it."""
    _seed(item, 1)


@pytest.hookimpl(tryfirst=True)  # before pytest takes out what is slow
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Examples of the pages take minutes: of these, `make test-fast` runs the README's alone."""
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
