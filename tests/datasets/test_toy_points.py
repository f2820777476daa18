"""The toy points: generated, without a file, as the paper has them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from support.served import files
from typer.testing import CliRunner

from torchnpn import datasets
from torchnpn.cli import app as cli
from torchnpn.datasets import toy


def test_toy_is_generated_without_a_file(cache):
    loaded = datasets.load("toy")
    assert (loaded.X.shape, loaded.y.shape, loaded.feature_names) == ((20, 1), (20,), ("x",))
    assert np.abs(loaded.X).max() <= 4
    np.testing.assert_array_equal(datasets.load("toy").y, loaded.y)
    # the points of the figure that the documentation shows: they must stay
    np.testing.assert_allclose(loaded.X[:3, 0], [1.0956935, -1.8417063, -3.6722118], atol=1e-6)
    np.testing.assert_allclose(loaded.y[[0, -1]], [0.9298245, 4.2436885], atol=1e-6)
    assert datasets.verify("toy") == [("toy", "ok")]
    info = datasets.available()[-1]
    assert (info.name, info.rows, info.columns, info.present) == ("toy", 20, 1, True)
    assert files(cache) == []


def test_toy_has_the_papers_distribution():
    x, y = toy.cubic(np.random.default_rng(1), 20_000)
    assert scipy.stats.kstest(x, scipy.stats.uniform(-4, 8).cdf).pvalue > 0.01
    noise = y - x**3
    assert scipy.stats.kstest(noise, scipy.stats.norm(0, 3).cdf).pvalue > 0.01
    assert scipy.stats.pearsonr(np.abs(x), np.abs(noise)).pvalue > 0.01  # the same noise everywhere


def test_toy_cannot_be_fetched():
    with pytest.raises(FileNotFoundError, match=r"'toy' has no file to fetch: datasets.load\('toy'\)"):
        datasets.fetch("toy")
    with pytest.raises(ValueError, match="Did you mean 'toy'"):
        datasets.load("toys")


def test_the_command_shows_it_and_says_why_it_cannot_be_fetched():
    listed = CliRunner().invoke(cli.app, ["data", "list"]).output.splitlines()
    checked = CliRunner().invoke(cli.app, ["data", "verify"]).output.splitlines()
    assert any(line.split()[:1] == ["toy"] and "yes" in line for line in listed)
    assert ["toy", "ok"] in [line.split() for line in checked]
    result = CliRunner().invoke(cli.app, ["data", "fetch", "toy"])
    assert result.exit_code == 1 and "has no file to fetch" in result.output
