"""CONTRIBUTING.md names files that are there; those through which a row goes run code for it, and are not many."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType

import numpy as np
import torch

import torchnpn

ROOT = Path(torchnpn.__file__).parent
PAGE = (ROOT.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")


def named_files() -> list[str]:
    """Files in the second column of the table."""
    section = PAGE.split("## The path of a row")[1].split("\n## ")[0]
    return re.findall(r"^\|[^|]*\| `([\w/]+\.py)` \|", section, flags=re.MULTILINE)


def calls_of(work: Callable[[], object]) -> list[CodeType]:
    """Functions that are called, one after the other."""
    found = []
    sys.setprofile(lambda frame, event, _: found.append(frame.f_code) if event == "call" else None)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def files_that_run() -> set[str]:
    """Files of the library of which a function is called in a fit and a prediction."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = X[:, 0] + rng.normal(size=40)
    model = torchnpn.NPNRegressor(max_epochs=1, device="cpu", random_state=0, effort="quick")
    names = {code.co_filename for code in calls_of(lambda: model.fit(X, y).predict_interval(X[:2]))}
    return {str(Path(name).relative_to(ROOT)) for name in names if name.startswith(f"{ROOT}/")}


@torch.no_grad()
def test_few_questions_are_asked_on_the_way():
    """Does a kernel apply? A linear layer, an activation and the network each ask once."""
    nn = torchnpn.nn
    network = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.MeanAndNoise(8)).double().eval()
    x = torchnpn.Moments(torch.ones(5, 3).double(), torch.ones(5, 3).double())
    asked = [code.co_name for code in calls_of(lambda: network(x)) if code.co_name.startswith("why_not")]
    assert 0 < len(asked) <= 6, asked


def test_the_files_named_run_code_for_a_row():
    named = named_files()
    assert len(named) == len(set(named)) <= 24
    files_that_run()  # what is loaded late is loaded now
    run = files_that_run()
    assert set(named) - run == set()
    assert f"These are {len(named)} files. Some forty more run code" in PAGE
    assert len(run - set(named)) <= 42


def test_the_files_named_are_there():
    folders = (ROOT.parent, ROOT, ROOT.parent / "tests", *(path for path in ROOT.iterdir() if path.is_dir()))
    named = set(re.findall(r"`([\w./]+\.(?:py|md))`", PAGE))
    assert len(named) > 30
    assert [one for one in named if not one.endswith("/x.py") and not any((f / one).exists() for f in folders)] == []
