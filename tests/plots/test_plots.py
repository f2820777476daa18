"""Figures are pure functions in one style, and the page stands on its own."""

from __future__ import annotations

from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats
from support.pages import assert_stands_alone, png_size

from torchnpn import metrics, plots, report

RNG = np.random.default_rng(0)
GRID = np.linspace(-6, 6, 41)
BAND = plots.Band("NPN", GRID**3, 1 + np.abs(GRID))
RATE = np.exp(np.sin(GRID))
INTERVAL = plots.Interval(RATE, 0.8 * RATE, 1.2 * RATE, np.floor(0.3 * RATE), np.ceil(3 * RATE))
CURVES = plots.UncertaintyCurves(
    "NPN", np.linspace(1, 0.6, 9), np.full(9, 0.02), np.linspace(0.01, 1, 99), np.linspace(0, 0.1, 99)
)
GUESSES = [plots.Guess(RNG.random((8, 8)), "3", "5", 0.4), plots.Guess(RNG.random((8, 8)), "1", "1", 0.6)]

FIGURES = {
    "regression_bands": lambda **how: plots.regression_bands(GRID, GRID**3, GRID, GRID**3, [BAND, BAND], **how),
    "uncertainty_curves": lambda **how: plots.uncertainty_curves([CURVES, CURVES, CURVES], **how),
    "guesses": lambda **how: plots.guesses(GUESSES, **how),
    "count_intervals": lambda **how: plots.count_intervals(
        GRID, np.round(RATE), GRID, RATE, INTERVAL, RATE, INTERVAL, **how
    ),
}

ROWS = 300
MEAN = RNG.normal(size=ROWS)
Y = MEAN + RNG.normal(size=ROWS)
PIT = stats.norm.cdf(Y - MEAN)
PROBS = RNG.dirichlet(np.full(3, 0.5), ROWS)
LABELS = RNG.integers(3, size=ROWS)
CORRECT, UNSURE = PROBS.argmax(axis=1) == LABELS, 1 - PROBS.max(axis=1)
AMOUNT = np.exp(2 * MEAN)
DAYS = np.datetime64("2021-01-01") + np.arange(0, 1400, 50)
NAMES = ["NPN", "plain", "a name that goes on and on until nobody reads it any more", "costs $5 or $6", *"abcdef"]
WIDE_NAMES = [f"a rather long class name {i}" for i in range(20)]

PANELS = {  # two panels
    "reliability_diagram": lambda **how: plots.reliability_diagram(*metrics.reliability(PROBS, LABELS), **how),
    "calibration_plot": lambda **how: plots.calibration_plot(PIT, **how),
    "dependence_plot": lambda **how: plots.dependence_plot(
        GRID, GRID**3, GRID**3 - 1, GRID**3 + 1, np.abs(GRID), 1 + GRID**2, xlabel=NAMES[3], **how
    ),
    "class_dependence_plot": lambda **how: plots.class_dependence_plot(
        GRID, np.tile([0.2, 0.8], (GRID.size, 1)), np.abs(GRID), 1 + GRID**2, classes=NAMES[2:4], **how
    ),
    "prediction_intervals": lambda **how: plots.prediction_intervals(Y, MEAN, MEAN - 1.6, MEAN + 1.6, **how),
}
SINGLE = {  # one panel, as wide as asked for
    "pit_histogram": lambda **how: plots.pit_histogram(PIT, **how),
    "residual_histogram": lambda **how: plots.residual_histogram(Y, MEAN, np.ones(ROWS), **how),
    "predictive_bands": lambda **how: plots.predictive_bands(
        MEAN, Y, GRID, GRID, {0.5: (GRID - 1, GRID + 1), 0.9: (GRID - 2, GRID + 2)}, **how
    ),
    "ood_histogram": lambda **how: plots.ood_histogram(UNSURE, UNSURE + 0.1, **how),
    "risk_coverage_plot": lambda **how: plots.risk_coverage_plot(
        dict.fromkeys(NAMES[:3], metrics.risk_coverage(CORRECT, UNSURE)), **how
    ),
    "accuracy_by_uncertainty_plot": lambda **how: plots.accuracy_by_uncertainty_plot(
        dict.fromkeys(NAMES[:3], metrics.accuracy_by_uncertainty(CORRECT, UNSURE)), **how
    ),
    "bars": lambda **how: plots.bars(NAMES, np.linspace(3, -1, 10), np.ones(10), title="t", xlabel="x", **how),
    "confusion_matrix_plot": lambda **how: plots.confusion_matrix_plot(np.eye(20), WIDE_NAMES, **how),
}
EXTREME = {
    "one row in a bin": lambda: plots.reliability_diagram(*metrics.reliability(PROBS[:1], LABELS[:1])),
    "one level": lambda: plots.calibration_plot([0.3]),
    "levels at the ends": lambda: plots.calibration_plot([0.0, 1.0]),
    "one interval of no width": lambda: plots.prediction_intervals([3.0], [3.0], [3.0], [3.0]),
    "amounts": lambda: plots.prediction_intervals(AMOUNT, AMOUNT, 1e-12 * AMOUNT, 3 * AMOUNT, name="$a$"),
    "counts": lambda: plots.prediction_intervals(AMOUNT // 1, AMOUNT, 0 * AMOUNT, 3 * AMOUNT),
    "all zero": lambda: plots.prediction_intervals(*np.zeros((4, 5))),
    "one place": lambda: plots.predictive_bands([1.0], [2.0], [1.0], [2.0], {0.9: ([1.0], [3.0])}),
    "far residuals": lambda: plots.residual_histogram([1e9, 0.0], [0.0, 0.0], [1e-3, 1.0]),
    "one uncertainty": lambda: plots.ood_histogram([0.5], [0.5]),
    "uncertainties over decades": lambda: plots.ood_histogram(AMOUNT, 1e6 * AMOUNT),
    "uncertainties with zeros": lambda: plots.ood_histogram(AMOUNT // 1, 100 * AMOUNT // 1),
    "one answer": lambda: plots.risk_coverage_plot({"NPN": metrics.risk_coverage([True], [0.1])}),
    "one group": lambda: plots.accuracy_by_uncertainty_plot({"": metrics.accuracy_by_uncertainty([True], [0.1], 1)}),
    "many groups": lambda: plots.accuracy_by_uncertainty_plot(
        dict.fromkeys(NAMES, metrics.accuracy_by_uncertainty(CORRECT, UNSURE, 60))
    ),
    "many models": lambda: plots.risk_coverage_plot(dict.fromkeys(NAMES, metrics.risk_coverage(CORRECT, UNSURE))),
    "one class": lambda: plots.confusion_matrix_plot([[5]], ["only"]),
    "a class without rows": lambda: plots.confusion_matrix_plot([[0, 0], [7, 12345678]], ["a", "b"]),
    "one bar of no length": lambda: plots.bars(["only"], [0.0]),
    "along dates": lambda: plots.dependence_plot(DAYS, *np.ones((5, DAYS.size)), xlabel="day"),
    "along one date": lambda: plots.dependence_plot(DAYS[:1], *np.ones((5, 1))),
    "along texts": lambda: plots.dependence_plot(np.array(NAMES, object), *np.ones((5, len(NAMES)))),
    "a class along texts": lambda: plots.class_dependence_plot(["a"], [[1.0]], [0.0], [0.0], classes=["only"]),
}
FIGURES = FIGURES | PANELS | SINGLE


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_pure(name):
    before = dict(matplotlib.rcParams)
    first, second = (FIGURES[name]() for _ in range(2))
    assert isinstance(first, Figure)
    assert plots.png(first, dpi=60) == plots.png(second, dpi=60)
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("name", FIGURES)
def test_themes_colour_the_whole_figure(name):
    for theme in (plots.LIGHT, plots.DARK):
        figure = FIGURES[name](theme=theme)
        faces = [figure.get_facecolor(), *(ax.get_facecolor() for ax in figure.axes if ax.axison)]
        assert {matplotlib.colors.to_hex(face) for face in faces} == {theme.background}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FIGURES if name not in SINGLE])
def test_one_column_is_narrower(name):
    wide, narrow = (png_size(plots.png(FIGURES[name](columns=columns), dpi=50)) for columns in (2, 1))
    assert narrow[0] < wide[0]
    assert narrow[1] > wide[1]


@pytest.mark.parametrize("name", SINGLE)
def test_one_panel_is_as_wide_as_asked_for(name):
    narrow, wide = (SINGLE[name](columns=columns).get_figwidth() for columns in (1, 2))
    assert (narrow, wide) == pytest.approx((4.4, 8.8))


@pytest.mark.parametrize("name", ["regression_bands", "uncertainty_curves", "count_intervals", *PANELS])
def test_axes_are_labelled_and_the_legend_is_outside(name):
    figure = FIGURES[name]()
    plots.png(figure, dpi=60)  # makes the layout
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


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("name", [*PANELS, *SINGLE])
def test_nothing_is_cut_off(name, columns):
    figure = FIGURES[name](columns=columns)
    plots.png(figure, dpi=60)  # makes the layout
    page, parts = figure.bbox.padded(1), [ax.get_tightbbox() for ax in figure.axes]
    for box in [*parts, *(legend.get_window_extent() for legend in figure.legends)]:
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1


@pytest.mark.slow
@pytest.mark.parametrize("name", EXTREME)
def test_extreme_data_is_drawn_without_warnings(name):  # a warning is an error
    width, height = png_size(plots.png(EXTREME[name](), dpi=50))
    assert 200 < width < 500 and 50 < height < 500


def test_many_models_look_different():
    (ax,) = plots.risk_coverage_plot(dict.fromkeys(range(20), metrics.risk_coverage(CORRECT, UNSURE))).axes
    assert len({(line.get_color(), line.get_linestyle()) for line in ax.lines}) == 20


def test_scales_follow_the_values():
    scales = lambda figure: [ax.get_yscale() for ax in figure.axes]
    assert scales(PANELS["prediction_intervals"]()) == ["linear", "linear"]
    assert scales(EXTREME["amounts"]()) == ["log", "log"]
    assert scales(EXTREME["counts"]()) == ["symlog", "symlog"]


def test_titles_say_the_figures():
    title = lambda figure, i=0: figure.axes[i].get_title(loc="left")
    error = metrics.calibration_error(PROBS, LABELS)
    assert title(PANELS["reliability_diagram"]()) == f"Calibration error {error:.1%}"
    assert title(SINGLE["ood_histogram"]()) == f"Uncertainty: AUROC {metrics.ood_auroc(UNSURE, UNSURE + 0.1):.3f}"
    inside = np.mean(np.abs(Y - MEAN) <= 1.6)
    assert title(PANELS["prediction_intervals"](), 1) == f"{inside:.1%} of rows in 90% intervals"
    assert title(EXTREME["far residuals"]()) == "Residuals, 1 beyond ±5 std"


def test_calibration_curve_and_its_band():
    (ax, _) = plots.calibration_plot(PIT).axes
    level, observed = ax.lines[1].get_data()
    np.testing.assert_allclose(observed, [np.mean(u >= PIT) for u in level])
    band = ax.collections[0].get_paths()[0].vertices
    middle = band[np.isclose(band[:, 0], 0.5), 1]
    np.testing.assert_allclose(sorted({*middle}), stats.binom(ROWS, 0.5).ppf([0.05, 0.95]) / ROWS)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plots.pit_histogram([]), "at least one row"),
        (lambda: plots.pit_histogram([1.5]), "pit from 0 to 1, got values from 1.5"),
        (lambda: plots.calibration_plot([0.5, np.nan]), "finite numbers, got nan in pit"),
        (lambda: plots.prediction_intervals([1.0], [1.0, 2.0], [0.0], [1.0]), r"one shape .* mean \(2,\)"),
        (lambda: plots.ood_histogram([1.0], [np.inf]), "finite numbers, got inf in outside"),
        (lambda: plots.residual_histogram([1.0], [1.0], [0.0]), "std > 0, got 0"),
        (lambda: plots.reliability_diagram(np.ones(2), np.ones(2), np.zeros(2)), "at least one row"),
        (lambda: plots.confusion_matrix_plot(np.eye(3), ["a", "b"]), r"shape \(3, 3\) and 2 labels"),
        (lambda: plots.bars(["a"], [1.0, 2.0]), r"one shape .* values \(2,\)"),
    ],
)
def test_wrong_arrays_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


# The page -----------------------------------------------------------------------------------------------------------


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


def test_curves_along_dates_and_texts_stand_at_their_values():
    along = plots.dependence_plot(DAYS, np.arange(DAYS.size), *np.ones((4, DAYS.size)))
    curve = along.axes[0].lines[0]
    np.testing.assert_array_equal(curve.get_xdata(), (DAYS - np.datetime64("1970-01-01")).astype(float))
    np.testing.assert_array_equal(curve.get_ydata(), np.arange(DAYS.size))
    texts = plots.dependence_plot(["a", "b"], [1.0, 3.0], *np.ones((4, 2))).axes[0]
    assert [label.get_text() for label in texts.get_xticklabels()] == ["a", "b"]
    np.testing.assert_array_equal(texts.lines[0].get_xydata(), [[0, 1], [1, 3]])


def test_an_accuracy_is_never_below_0_nor_above_100_percent():
    figure = plots.accuracy_by_uncertainty_plot({"": SimpleNamespace(accuracy=np.array([1.0, 0.0]), error=[0.2, 0.2])})
    low, high = figure.axes[0].get_ylim()
    assert 0 <= low < high <= 1


@pytest.mark.parametrize("rows", [12, 2000])
def test_few_rows_make_few_bars(rows):
    y = RNG.normal(size=rows)
    figure = plots.residual_histogram(y, np.zeros(rows), np.ones(rows))
    (bars,) = figure.axes[0].patches
    assert len(bars.get_data().values) == (10 if rows == 12 else 40)


def test_amounts_with_a_long_tail_have_logarithmic_axes():
    """Prices, whose largest are a few times the middle, would crowd in a corner; what is even stays linear."""
    prices, even = np.exp(0.7 * RNG.normal(size=500)), RNG.uniform(1, 50, 500)
    for values, scale in ((prices, "log"), (even, "linear")):
        figure = plots.prediction_intervals(values, values, 0.9 * values, 1.1 * values)
        assert figure.axes[0].get_xscale() == figure.axes[1].get_yscale() == scale
