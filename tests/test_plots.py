"""Figures are pure functions in one style, the page stands on its own, and the metrics are what they say."""

from __future__ import annotations

import struct
from html.parser import HTMLParser

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats
from sklearn.metrics import log_loss

from torchnpn import metrics, plots, report

RNG = np.random.default_rng(0)
GRID = np.linspace(-6, 6, 41)
BAND = plots.Band("NPN", GRID**3, 1 + np.abs(GRID))
RATE = np.exp(np.sin(GRID))
INTERVAL = plots.Interval(RATE, 0.8 * RATE, 1.2 * RATE, np.floor(0.3 * RATE), np.ceil(3 * RATE))
DOUBT = plots.Doubt("NPN", np.linspace(1, 0.6, 9), np.full(9, 0.02), np.linspace(0.01, 1, 99), np.linspace(0, 0.1, 99))
GUESSES = [plots.Guess(RNG.random((8, 8)), "3", "5", 0.4), plots.Guess(RNG.random((8, 8)), "1", "1", 0.6)]

FIGURES = {
    "regression_bands": lambda **how: plots.regression_bands(GRID, GRID**3, GRID, GRID**3, [BAND, BAND], **how),
    "doubt": lambda **how: plots.doubt([DOUBT, DOUBT, DOUBT], **how),
    "guesses": lambda **how: plots.guesses(GUESSES, **how),
    "count_intervals": lambda **how: plots.count_intervals(
        GRID, np.round(RATE), GRID, RATE, INTERVAL, RATE, INTERVAL, **how
    ),
}


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", png[16:24])


@pytest.mark.parametrize("theme", [plots.LIGHT, plots.DARK], ids=["light", "dark"])
@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_pure(name, theme):
    before = dict(matplotlib.rcParams)
    first, second = (FIGURES[name](theme=theme) for _ in range(2))
    assert isinstance(first, Figure)
    assert plots.png(first) == plots.png(second)
    assert dict(matplotlib.rcParams) == before
    assert matplotlib.colors.to_hex(first.get_facecolor()) == theme.background


@pytest.mark.parametrize("name", FIGURES)
def test_one_column_is_narrower(name):
    wide, narrow = (size(plots.png(FIGURES[name](columns=columns), dpi=50)) for columns in (2, 1))
    assert narrow[0] < wide[0]
    assert narrow[1] > wide[1]


@pytest.mark.parametrize("name", ["regression_bands", "doubt", "count_intervals"])
def test_axes_are_labelled_and_the_legend_is_outside(name):
    figure = FIGURES[name]()
    figure.canvas.draw()
    (legend,) = figure.legends
    below = legend.get_window_extent()
    for ax in figure.axes:
        assert ax.get_xlabel() and ax.get_ylabel() and ax.get_title(loc="left")
        assert not ax.get_window_extent().overlaps(below)


def test_bands_hold_their_std():
    (ax, _) = plots.regression_bands(GRID, GRID**3, GRID, GRID**3, [BAND, BAND]).axes
    widths = [
        np.ptp(area.get_paths()[0].vertices[:, 1][area.get_paths()[0].vertices[:, 0] == 0.0]) for area in ax.collections
    ]
    assert widths == pytest.approx([6.0, 4.0, 2.0])


# The page -----------------------------------------------------------------------------------------------------------


class Links(HTMLParser):
    """Everything that a browser would fetch or follow, and the tags that are open."""

    def __init__(self):
        super().__init__()
        self.links, self.tags, self.open = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "srcset", "href", "action", "data")]
        if tag not in ("meta", "link", "img", "source"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def assert_stands_alone(text: str) -> None:
    page = Links()
    page.feed(text)
    assert page.open == []
    assert all(link.startswith(("data:", "#")) for link in page.links)
    assert not {"script", "iframe", "object", "embed"} & set(page.tags)
    assert "@import" not in text and "url(" not in text


def section(title: str) -> report.Section:
    picture = report.Picture("an <alt>", "a caption", report.Variants(b"1", b"2"), report.Variants(b"3", b"4"))
    table = report.Table(["", "NPN"], [["a & b", "1 < 2"]])
    return report.Section(title, "lead", [report.Fact("95%", "of all")], [picture], table, "note")


def test_page_stands_alone_and_escapes():
    text = report.html("A <b>title</b>", "lead", [section("One"), section("Two & more")], "footer")
    assert_stands_alone(text)
    assert "A &lt;b&gt;title&lt;/b&gt;" in text and "Two &amp; more" in text and "1 &lt; 2" in text
    assert text.count("prefers-color-scheme: dark") == 1 + 2 * 2  # the style, and two sources of each picture
    assert 'name="viewport"' in text


# Metrics ------------------------------------------------------------------------------------------------------------


def test_nll_and_rmse_match_references():
    mean, std, y = RNG.normal(size=50), RNG.uniform(0.5, 2, 50), RNG.normal(size=50)
    assert metrics.gaussian_nll(mean, std, y) == pytest.approx(-stats.norm(mean, std).logpdf(y).mean(), rel=1e-12)
    assert metrics.rmse(mean, y) == pytest.approx(np.linalg.norm(mean - y) / np.sqrt(50), rel=1e-12)
    probs, labels = RNG.dirichlet(np.ones(4), 50), RNG.integers(4, size=50)
    assert metrics.categorical_nll(probs, labels) == pytest.approx(log_loss(labels, probs, labels=range(4)), rel=1e-12)
    assert metrics.categorical_nll([[1.0, 0.0]], [1]) == np.inf


def test_interval_coverage_counts_the_ends():
    assert metrics.interval_coverage([0, 0, 0, 0], [2, 2, 2, 2], [0, 2, 3, -1]) == 0.5


def test_accuracy_by_uncertainty_sorts_into_equal_groups():
    doubt = RNG.permutation(90) / 90
    groups = metrics.accuracy_by_uncertainty(doubt < 0.5, doubt, groups=9)
    np.testing.assert_array_equal(groups.accuracy, [1, 1, 1, 1, 0.5, 0, 0, 0, 0])
    np.testing.assert_array_equal(groups.rows, np.full(9, 10))
    assert (np.diff(groups.uncertainty) > 0).all()
    z = 1.0  # Wilson's interval at one standard error
    centre = (0.5 + z**2 / 20) / (1 + z**2 / 10)
    low, high = centre - groups.error[4], centre + groups.error[4]
    for end in (low, high):  # its ends solve |p̂ - p| = z √(p(1-p)/n)
        assert abs(0.5 - end) == pytest.approx(z * np.sqrt(end * (1 - end) / 10), rel=1e-9)
    with pytest.raises(ValueError, match="groups from 1 to 3"):
        metrics.accuracy_by_uncertainty([True] * 3, [0, 1, 2], groups=4)


def test_risk_coverage_by_hand():
    curve = metrics.risk_coverage([True, False, True, True], [0.1, 0.4, 0.2, 0.3])
    np.testing.assert_allclose(curve.coverage, [0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(curve.risk, [0, 0, 0, 0.25])
    assert curve.area == pytest.approx(0.0625)
