"""`npn info --card`: what a stranger should know of a model before using it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import torchnpn as npn
from torchnpn import io
from torchnpn.cli import card
from torchnpn.cli.app import app
from torchnpn.tables import TableModel


def rows(count=120):
    rng = np.random.default_rng(0)
    x = rng.normal(size=count)
    kind = rng.choice(["car", "van|bus"], count)
    price, sold = 10 + x + rng.normal(0, 0.1, count), rng.choice(["yes", "no"], count)
    return pd.DataFrame({"x": x, "kind": kind, "price": price, "sold": sold})


def card_of(path, target, **settings):
    fitted = TableModel.fit(rows(), target, effort="quick", max_epochs=20, validation=0.25, **settings)
    npn.save(fitted, path)
    return fitted, card.card(path.name, fitted, io.describe(path))


def test_a_number(tmp_path):
    fitted, text = card_of(tmp_path / "my model.npn", "price")
    headings = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert headings == [
        "What it is",
        "What it learnt from",
        "How well it does on 30 rows that it did not learn from",
        "Are its uncertainties right?",
        "Limits",
        "How to use it",
        "Versions",
    ]
    for figure in fitted.record.figures:
        assert f"| {' | '.join(figure.shown())} |" in text
    assert "a real number (gaussian)" in text
    assert r"one of 2: " in text
    assert r"van\|bus" in text
    assert "30 rows and right intervals, 79% to 100% would be usual" in text  # 0.9 ± 1.96 √(0.9 · 0.1 / 30)
    assert "npn predict 'my model.npn' new.csv" in text
    assert f"torchnpn {npn.__version__}" in text


def test_classes_and_a_model_that_is_worse_than_nothing(tmp_path):
    fitted, text = card_of(tmp_path / "m.npn", "sold", class_weight=None)
    assert "the probability of each of 2 classes: " in text
    assert "the calibration error is " in text
    assert ("do not use it" in text) == fitted.record.is_worse


def test_names_are_no_markup(tmp_path):
    fitted = TableModel.fit(rows().rename(columns={"x": "a|b\n# *c* \x1b[31m"}), "price", effort="quick", max_epochs=2)
    npn.save(fitted, tmp_path / "m.npn")
    text = card.card("m.npn", fitted, io.describe(tmp_path / "m.npn"))
    assert r"| a\|b \# \*c\* \\x1b\[31m | numbers" in text
    assert "\x1b" not in text


@pytest.mark.slow
def test_the_command_prints_it(tmp_path, capsys):
    card_of(tmp_path / "m.npn", "price")
    with pytest.raises(SystemExit, match="0"):
        app(["info", str(tmp_path / "m.npn"), "--card"])
    assert capsys.readouterr().out.startswith("# price: a model by torchnpn\n\n## What it is\n")
